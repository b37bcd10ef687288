//! Due times in the past have runs after all, since somebody asks for them: one after the other,
//! and behind what is due by the schedule.

use super::{Answered, Jobs, job::may_be_scheduled, overlap::Firing};
use crate::core::{
    Backfill, Caller, JobNo, JobReject, JobReply, Reject, RunCause, RunImage, RunKey, Time, Turn,
    fairness::allowance::Allowance,
};
use std::sync::Arc;

impl Jobs {
    /// Has runs for due times that had none, as the journal was read.
    pub(super) fn backfill(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        asked: &Backfill,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if self.agent.is_stopped {
            return Err(Reject::Job(JobReject::AgentStopped));
        }
        let job = &self.jobs[&no];
        let state = &job.state;
        let is_as_read = (asked.job, asked.version) == (no, job.image.version)
            && asked.seen == state.last_unscheduled;
        if !is_as_read {
            return Err(Reject::Job(JobReject::RunsChanged));
        }
        let next = state.next_due.unwrap_or(Time::NEVER);
        let has_none = |due: &&Time| {
            let key = RunKey {
                job: no,
                due: **due,
            };
            !self.runs.contains_key(&key) && **due < next && **due <= turn.now
        };
        let due: Vec<Time> = asked.due.iter().filter(has_none).copied().collect();
        let (waiting, most) = (self.open_runs(no).count(), allowance.limits.waiting_runs);
        if waiting + due.len() > most {
            return Err(Reject::Job(match most.saturating_sub(waiting) {
                0 => JobReject::RunsWait(most),
                left => JobReject::TooManyRuns(left),
            }));
        }
        self.note_had(turn, no, &due);
        // Who has read the journal before this reads it again.
        self.unscheduled(turn, no);
        for range in &asked.ranges {
            let records = &mut turn.out.records.jobs;
            records.runs.insert(range.key, range.clone());
            records.cut.insert(range.key);
        }
        for due in &due {
            let key = RunKey { job: no, due: *due };
            let of = (*due, RunCause::Backfilled);
            let image = RunImage {
                by: caller.name.clone(),
                catches_up: true,
                closes: self.offered_until(turn.now, allowance.limits, no, of),
                ..Firing::new(*due, RunCause::Backfilled).image(no)
            };
            self.runs.insert(key, image);
            turn.out.records.jobs.cut.remove(&key);
            self.record_run(turn, key);
            self.set_run_timer(key);
        }
        self.take_turns(turn, allowance, no);
        Ok(JobReply::Backfilled(due))
    }

    /// These due times have had their fate: no window that is moved back has them once more. Those
    /// of runs that were asked for are of no window.
    fn note_had(&mut self, turn: &mut Turn, no: JobNo, due: &[Time]) {
        let scheduled = due.iter().copied().filter(|due| may_be_scheduled(*due));
        let newest = scheduled.max();
        self.change_state(turn, no, |state| {
            state.last_due = state.last_due.max(newest);
        });
    }
}
