//! What happens because time passes: due times, the longest time of a run, and its next attempt.
//!
//! A timer that goes off asks what is due, and may find nothing: those of jobs and of claims are
//! not taken back.

use super::{Jobs, Step, wake::Wake};
use crate::core::{
    Handle, JobNo, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
    model::limits::{CALL_BYTES, Limits},
};

/// What the rows of a run count for besides its tasks, so that a batch starts a thousand at most.
pub(super) const RUN_BYTES: usize = 4 << 10;

impl Jobs {
    /// Does what is due, as much as one batch bears.
    pub(crate) fn settle(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>) {
        // Commands may have filled every batch: one run at least begins all the same.
        self.started_bytes = self.started_bytes.min(CALL_BYTES - 1);
        for done in 0..allowance.limits.timers_per_batch {
            let first = self.timers.first().copied();
            let Some((at, wake)) = first.filter(|(at, _)| *at <= turn.now) else {
                return;
            };
            if done > 0 && self.bears_no_more(turn, allowance.limits) {
                return;
            }
            self.timers.remove(&(at, wake));
            match wake {
                // Due times of a pause have their fate at its end.
                Wake::Job(no) if self.is_held(no) => {}
                Wake::Job(no) => self.pass(turn, allowance, no),
                Wake::Run(key) => self.wake_run(turn, allowance, key),
                Wake::Claim(key) => self.wake_claim(turn, allowance, key),
                Wake::Ask(key) => self.ask_if_room(turn, allowance, key),
                Wake::Turn(no) => {
                    // Those of a stop say which runs there still are that wait since then.
                    if self.has_due_times_of_the_stop(no) {
                        self.pass(turn, allowance, no);
                    }
                    self.forget_no_room(turn.now, no);
                    self.take_turns(turn, allowance, no);
                }
            }
        }
    }

    /// This batch starts no further runs: their tasks and rows are as many bytes as those of the
    /// largest call.
    pub(super) fn is_full(&self) -> bool {
        self.started_bytes >= CALL_BYTES
    }

    /// This batch has as many runs that start, or rows of runs, as it bears.
    pub(super) fn bears_no_more(&self, turn: &Turn, limits: &Limits) -> bool {
        self.is_full() || has_many_rows(turn, limits)
    }

    /// The batch is sealed.
    pub(crate) fn end_batch(&mut self) {
        self.started_bytes = 0;
    }

    /// Has the runs of a job that wait take their turns in a later batch, or later in this one:
    /// before due times, which meet what runs.
    pub(super) fn turn_later(&mut self, no: JobNo) {
        self.timers.insert((Time(0), Wake::Turn(no)));
    }

    /// When `settle` has something to do even without a command.
    pub(crate) fn next_due(&self) -> Time {
        if !self.steps.is_empty() {
            return Time(0);
        }
        self.timers.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    fn wake_run(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, key: RunKey) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        let is_due = self.wakes_at(key).is_some_and(|at| at <= turn.now);
        match run.state {
            RunState::Running if is_due => {
                self.cancel(turn, key, RunReason::MaxRuntime, &"".into());
            }
            RunState::Retrying if run.is_undecided() => self.decide_end(turn, allowance, key),
            RunState::Retrying if is_due && self.may_start(run) => {
                self.repeat(turn, allowance, key)
            }
            RunState::Waiting if is_due => {
                self.close_unclaimed(turn, allowance.limits, key.job);
            }
            // The longest time of its runs may have become longer.
            RunState::Running => self.set_run_timer(key),
            // It waits for room.
            RunState::Retrying if !is_due => self.set_run_timer(key),
            _ => {}
        }
    }

    /// When a run has taken as long as it may, if it goes on until then.
    pub(super) fn times_out_at(&self, key: RunKey) -> Option<Time> {
        let started_at = self.runs.get(&key)?.started_at?;
        Some(started_at + self.definition(key.job)?.settings.max_runtime?)
    }

    /// When a run has something to do even without a command.
    fn wakes_at(&self, key: RunKey) -> Option<Time> {
        let run = self.runs.get(&key)?;
        match run.state {
            RunState::Running if run.reason.is_none() => self.times_out_at(key),
            RunState::Retrying => Some(match run.next_attempt_at {
                Some(at) => at.max(self.no_room_until(key.job)),
                // It is undecided: that comes before all else.
                None => Time(0),
            }),
            RunState::Waiting if self.is_claimed(key.job) => run.closes,
            _ => None,
        }
    }

    /// Sees to it that a job is looked at when it is due.
    pub(super) fn set_timer(&mut self, no: JobNo) {
        let due = self.jobs.get(&no).and_then(super::Job::fires_at);
        self.timers.extend(due.map(|at| (at, Wake::Job(no))));
    }

    /// Sees to it that a run is looked at when something is due.
    pub(super) fn set_run_timer(&mut self, key: RunKey) {
        self.clear_run_timer(key);
        if let Some(at) = self.wakes_at(key) {
            self.timers.insert((at, Wake::Run(key)));
            self.run_timers.insert(key, at);
        }
    }

    /// A run has one timer at most, so that those that are over leave none behind for a week.
    pub(super) fn clear_run_timer(&mut self, key: RunKey) {
        if let Some(at) = self.run_timers.remove(&key) {
            self.timers.remove(&(at, Wake::Run(key)));
        }
    }

    /// Nothing holds the job any more: what was due and what waited goes on.
    pub(super) fn rearm(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, no: JobNo) {
        if self.is_held(no) {
            return;
        }
        self.pass(turn, allowance, no);
        self.set_timer(no);
        let open: Vec<RunKey> = self.open_runs(no).map(|run| run.key).collect();
        for key in open {
            self.set_run_timer(key);
        }
        self.take_turns(turn, allowance, no);
    }

    /// A run that was cancelled and still runs is cancelled once more.
    pub(crate) fn cancel_again(&mut self, key: RunKey) {
        let run = self.runs.get(&key).filter(|run| run.reason.is_some());
        // Of a claimed run it is the one that asks the target.
        let run = run.filter(|run| !self.is_question(run.key));
        let handle = run.and_then(|run| run.handle);
        self.steps.extend(handle.map(Step::Cancel));
    }

    /// The scheduler of a run is asked about before anything else.
    pub(super) fn check_later(&mut self, key: RunKey, handle: Handle) {
        self.steps.push_back(Step::Check(key, handle));
    }
}

/// Whether a batch has as many rows of runs as it bears.
pub(super) fn has_many_rows(turn: &Turn, limits: &Limits) -> bool {
    turn.out.records.jobs.runs.len() >= limits.timers_per_batch
}
