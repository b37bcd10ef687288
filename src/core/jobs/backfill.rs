//! Due times in the past have runs after all, since somebody asks for them: one after the other,
//! and behind what is due by the schedule.

use super::{Answered, Jobs, overlap::Firing};
use crate::core::{
    Backfill, Caller, JobNo, JobReject, JobReply, Reject, RunCause, RunImage, RunKey, RunState,
    Time, Turn, model::limits::Limits,
};
use std::sync::Arc;

impl Jobs {
    /// Has runs for due times that had none, as the journal was read.
    pub(super) fn backfill(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        name: &Arc<str>,
        asked: &Backfill,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if self.agent.is_stopped {
            return Err(Reject::Job(JobReject::AgentStopped));
        }
        let next = self.jobs[&no].state.next_due.unwrap_or(Time::NEVER);
        let has_none = |due: &&Time| {
            let key = RunKey {
                job: no,
                due: **due,
            };
            let is_known = self.runs.contains_key(&key) || self.backfilled.has(key);
            !is_known && **due < next && **due <= turn.now
        };
        let due: Vec<Time> = asked.due.iter().filter(has_none).copied().collect();
        let waiting = self.open_runs(no).count();
        if waiting + due.len() > limits.waiting_runs {
            let most = limits.waiting_runs.saturating_sub(waiting);
            return Err(Reject::Job(JobReject::TooManyRuns(most)));
        }
        for range in asked.ranges.iter().filter(|range| range.key.job == no) {
            turn.out.records.jobs.runs.insert(range.key, range.clone());
        }
        for due in &due {
            let key = RunKey { job: no, due: *due };
            let image = RunImage {
                by: caller.name.clone(),
                catches_up: true,
                ..Firing::new(*due, RunCause::Backfilled).image(no)
            };
            self.runs.insert(key, image);
            self.record_run(turn, key);
        }
        self.take_turns(turn, no);
        Ok(JobReply::Backfilled(due))
    }

    /// The run whose turn it is next: those of a backfill come behind all others.
    pub(super) fn next_waiting(&self, no: JobNo) -> Option<&RunImage> {
        let waits = |run: &&RunImage| run.state == RunState::Waiting;
        let waiting = || self.open_runs(no).filter(waits);
        let is_other = |run: &&RunImage| run.cause != RunCause::Backfilled;
        waiting().find(is_other).or_else(|| waiting().next())
    }

    /// Whether something of a job keeps a due time from having its run at once: all that is open,
    /// but for what waits of a backfill.
    pub(super) fn is_occupied(&self, no: JobNo) -> bool {
        let counts =
            |run: &RunImage| run.cause != RunCause::Backfilled || run.state != RunState::Waiting;
        self.open_runs(no).any(counts)
    }
}
