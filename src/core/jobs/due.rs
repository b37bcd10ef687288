//! Due times have passed: which of them have a run, and what becomes of the others.
//!
//! A due time is served in time when it is hardly late, or when it is the newest one and not too
//! late: so a server that was away for a moment misses nothing. What was not served in time goes by
//! the rule for that (`Misfire`).

use super::{
    Failure, Jobs,
    job::{time_of, timestamp},
    overlap::Firing,
};
use crate::core::{
    JobNo, Misfire, RunCause, RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
    model::limits::Limits,
    schedule::{DueTime, Passed, Range},
};

impl Jobs {
    /// Says of every due time of a job that has passed what becomes of it. Those of a stopped agent
    /// learn it when that starts, or before their job changes: what is to run then waits for the
    /// start.
    pub(super) fn pass(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, no: JobNo) {
        if let Some(job) = self.jobs.get(&no) {
            let until = turn.now - job.delay();
            self.pass_until(turn, allowance, no, until, self.paused_because(no));
        }
    }

    /// Due times of which the jitter would still put off the start have their fate at once: they
    /// have none by the definition that comes.
    pub(super) fn pass_early(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, no: JobNo) {
        let until = turn.now;
        self.pass_until(turn, allowance, no, until, self.paused_because(no));
    }

    /// Says what becomes of the due times until then; `became`: the same of all.
    pub(super) fn pass_until(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
        until: Time,
        became: Option<(RunState, RunReason)>,
    ) {
        let Some(job) = self.jobs.get_mut(&no) else {
            return;
        };
        let (Some(from), Some(schedule)) = (job.state.next_due, &job.schedule) else {
            return;
        };
        if from > until {
            return;
        }
        let misfire = job.image.settings.misfire;
        let most = allowance.limits.missed_rows + misfire.runs() + 4;
        let mut passed = schedule.passed(timestamp(from), timestamp(until), most);
        // Another release of the time zones may have named it.
        if passed.first() != Some(timestamp(from))
            && let Some(due) = schedule.overtaken(timestamp(from))
        {
            passed.put_first(due);
        }
        let last = passed.newest.last().map(|due| time_of(due.at));
        let next = job.due_after(until);
        let release = self.zones.release();
        self.change_state(turn, no, |state| {
            state.next_due = next;
            state.last_due = last.or(state.last_due);
            state.time_zones = release.into();
        });
        self.set_timer(no);
        match became {
            _ if last.is_none() => {}
            Some(became) => self.pass_over(turn, allowance.limits, no, passed, became),
            None => self.fire(turn, allowance, no, passed, misfire),
        }
    }

    fn paused_because(&self, no: JobNo) -> Option<(RunState, RunReason)> {
        let job = self.jobs.get(&no)?;
        let paused = job.state.paused.as_ref();
        paused.map(|_| (RunState::Skipped, RunReason::JobPaused))
    }

    /// Why nothing of a job starts, and what that makes of a due time.
    pub(super) fn held_because(&self, no: JobNo) -> Option<(RunState, RunReason)> {
        let stopped = (RunState::Missed, RunReason::AgentStopped);
        let is_stopped = self.agent.is_stopped && self.jobs.contains_key(&no);
        self.paused_because(no).or(is_stopped.then_some(stopped))
    }

    fn fire(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
        passed: Passed,
        misfire: Misfire,
    ) {
        let Some(first) = passed.first() else {
            return;
        };
        let served = self.served_in_time(turn, allowance.limits, no, &passed.newest);
        let Passed { earlier, newest } = passed;
        let caught_up = match misfire {
            // What is served in time stands for all before it.
            Misfire::RunOnce if served < newest.len() => served,
            _ => served.saturating_sub(misfire.runs()),
        };
        if self.agent.is_stopped || self.is_of_the_stop(time_of(first)) {
            // Those of earlier changes under the same stop count.
            let more = match misfire {
                Misfire::RunOnce if served < newest.len() => 0,
                _ => misfire.runs().saturating_sub(served - caught_up),
            };
            self.miss_what_waits(turn, no, RunCause::Scheduled, more);
        }
        if let Some(range) = earlier {
            self.miss_range(turn, no, range);
        }
        // One failure for all that are missed together.
        let mut missed = None;
        for (at, due) in newest.iter().enumerate() {
            let firing = Firing {
                closes: due.closes.map(time_of),
                catches_up: (caught_up..served).contains(&at)
                    && matches!(misfire, Misfire::CatchUp(_)),
                ..Firing::new(time_of(due.at), RunCause::Scheduled)
            };
            let is_closed = firing.closes.is_some_and(|closes| closes <= turn.now);
            if is_closed {
                missed = Some(firing.due);
                self.note(turn, no, firing, RunState::Missed, RunReason::WindowClosed);
            } else if at < caught_up {
                let reason = self.missed_because(firing.due);
                missed = Some(firing.due);
                self.note(turn, no, firing, RunState::Missed, reason);
            } else {
                self.begin(turn, allowance, no, firing);
            }
        }
        if let Some(due) = missed {
            let key = RunKey { job: no, due };
            self.follow_failure(key, Failure::Ended(RunState::Missed));
        }
    }

    /// The first of the newest due times that is served in time; their number if none is.
    fn served_in_time(&self, turn: &Turn, limits: &Limits, no: JobNo, newest: &[DueTime]) -> usize {
        let delay = self.jobs[&no].delay();
        let last = newest.len() - 1;
        let in_time = |(at, due): (usize, &DueTime)| {
            let late = turn.now.since(time_of(due.at) + delay);
            let is_open = match due.closes {
                Some(closes) => turn.now < time_of(closes),
                None => late <= limits.latest_start,
            };
            late <= limits.late_start || (at == last && is_open)
        };
        let in_time = |one: (usize, &DueTime)| !self.agent.is_stopped && in_time(one);
        let served = newest.iter().enumerate().position(in_time);
        served.unwrap_or(newest.len())
    }

    /// Every due time is passed over.
    fn pass_over(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        no: JobNo,
        passed: Passed,
        (state, reason): (RunState, RunReason),
    ) {
        let Passed { earlier, newest } = passed;
        debug_assert!(newest.len() <= limits.missed_rows + limits.waiting_runs + 5);
        if let Some(range) = earlier {
            self.note_range(turn, no, range, state, reason);
        }
        let last = newest.last().map(|due| time_of(due.at));
        for due in newest {
            let firing = Firing {
                closes: due.closes.map(time_of),
                ..Firing::new(time_of(due.at), RunCause::Scheduled)
            };
            self.note(turn, no, firing, state, reason);
        }
        if let Some(due) = last {
            self.follow_failure(RunKey { job: no, due }, Failure::Ended(state));
        }
    }

    fn miss_range(&self, turn: &mut Turn, no: JobNo, range: Range) {
        let reason = self.missed_because(time_of(range.first));
        self.note_range(turn, no, range, RunState::Missed, reason);
    }

    fn note_range(
        &self,
        turn: &mut Turn,
        no: JobNo,
        range: Range,
        state: RunState,
        reason: RunReason,
    ) {
        let due = time_of(range.first);
        let image = RunImage {
            last: Some(time_of(range.last)),
            count: range.count as i64,
            state,
            reason: Some(reason),
            ended_at: Some(turn.now),
            ..RunImage::new(RunKey { job: no, due }, RunCause::Scheduled)
        };
        turn.out.records.jobs.runs.insert(image.key, image);
    }

    /// Whether the agent was stopped at a due time, the last time that it was.
    pub(super) fn is_of_the_stop(&self, due: Time) -> bool {
        let until = match self.agent.is_stopped {
            true => Time::NEVER,
            false => self.agent.changed_at,
        };
        let stopped_at = self.agent.stopped_at;
        stopped_at.is_some_and(|from| (from..until).contains(&due))
    }

    /// Whether the agent was stopped at due times of a job that have no fate yet, and may have one.
    pub(super) fn has_due_times_of_the_stop(&self, no: JobNo) -> bool {
        let next_due = self.jobs.get(&no).and_then(|job| job.state.next_due);
        !self.is_held(no) && next_due.is_some_and(|due| self.is_of_the_stop(due))
    }

    /// Why a due time was not served in time.
    fn missed_because(&self, due: Time) -> RunReason {
        if self.is_of_the_stop(due) {
            RunReason::AgentStopped
        } else if due < self.served_since {
            RunReason::NoServer
        } else {
            RunReason::TooLate
        }
    }
}

impl Misfire {
    /// How many due times that were not served in time have a run.
    pub(super) fn runs(self) -> usize {
        match self {
            Misfire::Skip => 0,
            Misfire::RunOnce => 1,
            Misfire::CatchUp(most) => most as usize,
        }
    }
}
