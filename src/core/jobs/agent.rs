//! The agent: whether jobs are fired at all. Both verbs may be repeated.

use super::Jobs;
use crate::core::{
    AgentImage, AgentView, Caller, JobKey, JobNo, JobReply, RunImage, RunKey, RunReason, RunState,
    StopMode, Turn, model::limits::Limits,
};
use std::sync::Arc;

/// Runs that an answer names.
const NAMED: usize = 100;

impl Jobs {
    /// Fires jobs. Due times since the stop go by the rules for those that nobody served.
    pub(super) fn start_agent(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
    ) -> JobReply {
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
            for no in all {
                self.set_timer(no);
                let open: Vec<RunKey> = self.open_runs(no).map(|run| run.key).collect();
                open.into_iter().for_each(|key| self.set_run_timer(key));
                // Of a paused job, runs that somebody asked for.
                self.take_turns(turn, no);
            }
            self.settle(turn, limits);
        }
        JobReply::Agent(self.agent_view(), changes)
    }

    /// Fires nothing more. What runs goes on, or is cancelled.
    pub(super) fn stop_agent(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        mode: StopMode,
        reason: &Arc<str>,
    ) -> JobReply {
        let changes = !self.agent.is_stopped;
        if changes {
            self.agent = AgentImage {
                is_stopped: true,
                changed_at: turn.now,
                stopped_at: Some(turn.now),
                changed_by: caller.name.clone(),
                reason: reason.clone(),
            };
            turn.out.records.jobs.agent = Some(self.agent.clone());
        }
        if mode == StopMode::CancelRunning {
            let open: Vec<(RunKey, RunState)> = self
                .runs
                .iter()
                .map(|(key, run)| (*key, run.state))
                .collect();
            for (key, state) in open {
                match state {
                    RunState::Running => {
                        self.cancel(turn, key, RunReason::AgentStopped, &caller.name)
                    }
                    _ => self.give_up(turn, key, RunState::Cancelled, RunReason::AgentStopped),
                }
            }
        }
        JobReply::Agent(self.agent_view(), changes)
    }

    fn agent_view(&self) -> AgentView {
        let runs = || {
            self.runs
                .values()
                .filter(|run| run.state == RunState::Running)
        };
        let named = |run: &RunImage| {
            let key: JobKey = self.definition(run.key.job)?.key.clone();
            Some((key, run.clone()))
        };
        AgentView {
            image: self.agent.clone(),
            running: runs().filter_map(named).take(NAMED).collect(),
            count: runs().count(),
        }
    }
}
