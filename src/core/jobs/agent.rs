//! The agent: whether jobs are fired at all. Both verbs may be repeated.

use super::{Jobs, timers::has_many_rows};
use crate::core::{
    AgentImage, AgentView, Caller, JobKey, JobNo, JobReply, Namespace, RunImage, RunKey, RunReason,
    RunState, StopAgent, StopMode, Turn, fairness::allowance::Allowance,
};
use std::collections::BTreeSet;

/// Runs that an answer names.
const NAMED: usize = 100;

impl Jobs {
    /// Fires jobs. Due times since the stop go by the rules for those that nobody served. What is
    /// to start does so with this batch and the next ones, as much as each bears.
    pub(super) fn start_agent(&mut self, turn: &mut Turn, caller: &Caller) -> JobReply {
        let changes = self.agent.is_stopped;
        if changes {
            self.agent = AgentImage {
                is_stopped: false,
                changed_at: turn.now,
                changed_by: caller.name.clone(),
                reason: "".into(),
                ..self.agent.clone()
            };
            turn.out.records.jobs.agent = Some(self.agent.clone());
            let all: Vec<JobNo> = self.jobs.keys().copied().collect();
            all.into_iter().for_each(|no| self.set_timer(no));
            let open: Vec<RunKey> = self.runs.keys().copied().collect();
            open.into_iter().for_each(|key| self.set_run_timer(key));
            // Also of paused jobs: runs that somebody asked for.
            self.turns_later();
        }
        JobReply::Agent(self.agent_view(&caller.namespace), changes)
    }

    /// Fires nothing more. What runs goes on, or is cancelled, as many runs as one batch bears: the
    /// answer says whether the call is to go on. One that goes on leaves alone what has changed
    /// since. What had ended before is decided before the stop: else what follows a success would
    /// be missed, or wait for the next start.
    pub(super) fn stop_agent(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        stop: &StopAgent,
    ) -> JobReply {
        let goes_on = stop.goes_on.is_some_and(|at| at != StopAgent::NOT_YET);
        let is_it = stop.goes_on == self.agent.stopped_at && self.agent.is_stopped;
        if goes_on && !is_it {
            return JobReply::Agent(self.agent_view(&caller.namespace), false);
        }
        let changes = !self.agent.is_stopped;
        if changes && !self.decide_all(turn, allowance) {
            let view = AgentView {
                goes_on: Some(StopAgent::NOT_YET),
                ..self.agent_view(&caller.namespace)
            };
            return JobReply::Agent(view, false);
        }
        if changes {
            self.agent = AgentImage {
                is_stopped: true,
                changed_at: turn.now,
                stopped_at: Some(turn.now),
                changed_by: caller.name.clone(),
                reason: stop.reason.clone(),
            };
            turn.out.records.jobs.agent = Some(self.agent.clone());
        }
        let is_over = stop.mode == StopMode::Drain || self.cancel_all(turn, allowance, caller);
        let view = AgentView {
            goes_on: self.agent.stopped_at.filter(|_| !is_over),
            ..self.agent_view(&caller.namespace)
        };
        JobReply::Agent(view, changes)
    }

    /// Cancels what runs and what waits. Returns whether that was all there is.
    fn cancel_all(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
    ) -> bool {
        // The others are undecided, and end as succeeded or cancelled in any case.
        let is_open = |run: &&RunImage| !run.is_undecided() || run.ends_as().is_failure();
        let open: Vec<RunKey> = (self.runs.values().filter(is_open))
            .map(|run| run.key)
            .collect();
        let reason = RunReason::AgentStopped;
        // What is being cancelled already adds no row.
        for key in open {
            if has_many_rows(turn, allowance.limits) {
                return false;
            }
            self.decide_end(turn, allowance, key);
            let Some(run) = self.runs.get(&key) else {
                continue;
            };
            match run.state {
                RunState::Running => self.cancel(turn, key, reason, &caller.name),
                // Of an unreadable job: its target may not have been asked, though a task failed.
                _ if run.is_undecided() && run.reason.is_some() => {
                    self.cancel_undecided(turn, key, reason, &caller.name);
                }
                _ => self.give_up(turn, key, RunState::Cancelled, reason),
            }
        }
        true
    }

    /// Runs that wait take their turns where these may have come.
    pub(super) fn turns_later(&mut self) {
        let waiting = |run: &&RunImage| run.state == RunState::Waiting;
        let jobs: BTreeSet<JobNo> = (self.runs.values().filter(waiting))
            .map(|run| run.key.job)
            .collect();
        jobs.into_iter().for_each(|no| self.turn_later(no));
    }

    /// As an operator of this namespace sees it: it names runs of that one, and counts all.
    fn agent_view(&self, namespace: &Namespace) -> AgentView {
        let runs = || {
            self.runs
                .values()
                .filter(|run| run.state == RunState::Running)
        };
        let named = |run: &RunImage| {
            let key: &JobKey = &self.definition(run.key.job)?.key;
            (key.namespace == *namespace).then(|| (key.clone(), run.clone()))
        };
        AgentView {
            image: self.agent.clone(),
            running: runs().filter_map(named).take(NAMED).collect(),
            count: runs().count(),
            goes_on: None,
        }
    }
}
