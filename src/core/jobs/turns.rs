//! Whose turn it is among the runs of a job.
//!
//! Runs of a backfill are a line of their own: due times, and runs that somebody asks for, go by
//! the rules of overlap as if there was no backfill, and no run of either line is skipped, replaced
//! or cancelled for one of the other. Where runs of the job may not go on side by side, those of
//! both lines wait for each other, and a backfill comes last.

use super::Jobs;
use crate::core::{
    JobNo, Overlap, RunCause, RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
};

impl RunImage {
    pub(super) fn is_backfilled(&self) -> bool {
        self.cause == RunCause::Backfilled
    }
}

impl Jobs {
    /// Whether a due time meets another run of its job.
    pub(super) fn is_occupied(&self, no: JobNo) -> bool {
        self.ordinary_runs(no).next().is_some()
    }

    /// Runs of a job that are not over, but for those of backfills.
    pub(super) fn ordinary_runs(&self, no: JobNo) -> impl Iterator<Item = &RunImage> {
        self.open_runs(no).filter(|run| !run.is_backfilled())
    }

    /// Lets the oldest run that waits begin, if it is its turn. One that is to be claimed waits for
    /// that.
    pub(super) fn take_turns(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, no: JobNo) {
        if self.is_claimed(no) {
            return;
        }
        while let Some(key) = self.next_turn(no) {
            if self.is_full() {
                return self.turn_later(no);
            }
            match self.runs[&key].closes {
                Some(closes) if closes <= turn.now => {
                    self.give_up(turn, key, RunState::Missed, RunReason::WindowClosed);
                }
                _ => {
                    if self.start(turn, allowance, key).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// A run waits for its turn, which may have come.
    pub(super) fn wait(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, image: RunImage) {
        let key = image.key;
        self.runs.insert(key, image);
        self.wait_in_line(turn, allowance, key);
    }

    pub(super) fn wait_in_line(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        self.record_run(turn, key);
        self.set_run_timer(key);
        self.take_turns(turn, allowance, key.job);
    }

    /// The next attempt of a run is due.
    pub(super) fn repeat(&mut self, turn: &mut Turn, allowance: &mut Allowance<'_>, key: RunKey) {
        if self.is_past_its_window(turn.now, key) {
            self.give_up_repeating(turn, key, RunReason::WindowClosed);
            return self.take_turns(turn, allowance, key.job);
        }
        let is_claimed = self.is_claimed(key.job);
        match self.runs.get_mut(&key) {
            Some(run) if run.is_backfilled() && !is_claimed => {
                run.state = RunState::Waiting;
                run.next_attempt_at = None;
            }
            _ => {
                if self.start(turn, allowance, key).is_err() {
                    self.set_run_timer(key);
                }
                return;
            }
        }
        self.record_run(turn, key);
        self.take_turns(turn, allowance, key.job);
    }

    /// Whether a run is repeated only while its window is open, and that has closed: nobody was
    /// there for its next attempt, or the agent was stopped.
    fn is_past_its_window(&self, now: Time, key: RunKey) -> bool {
        let job = self.jobs.get(&key.job);
        let rerun = job.and_then(|job| job.image.settings.rerun);
        let is_within = rerun.is_some_and(|rerun| rerun.within_window);
        let closes = self.runs.get(&key).and_then(|run| run.closes);
        is_within && closes.is_some_and(|closes| closes <= now)
    }

    /// The run that may begin, or be claimed, now.
    pub(super) fn next_turn(&self, no: JobNo) -> Option<RunKey> {
        let waits = |run: &&RunImage| run.state == RunState::Waiting && self.may_start(run);
        let waiting = || self.open_runs(no).filter(waits);
        let first = waiting().find(|run| !run.is_backfilled());
        let first = first.or_else(|| waiting().next())?;
        self.is_free_for(first).then_some(first.key)
    }

    /// Whether a run may begin as far as its job and the agent are concerned. A paused job has runs
    /// that somebody asks for. Those of a job that cannot be read wait for an owner that can.
    pub(super) fn may_start(&self, run: &RunImage) -> bool {
        let Some(job) = self.jobs.get(&run.key.job) else {
            return false;
        };
        let is_paused = job.state.paused.is_some();
        !self.agent.is_stopped && (!is_paused || run.cause == RunCause::Asked)
    }

    /// Whether nothing that goes on keeps a run of its kind waiting: it goes on itself, or is about
    /// to be repeated. An attempt of a backfill that is still to come keeps only its like waiting.
    pub(super) fn is_free_for(&self, one: &RunImage) -> bool {
        let job = self.jobs.get(&one.key.job);
        let side_by_side = job.is_some_and(|job| job.image.settings.overlap == Overlap::Allow);
        let keeps_waiting = |run: &RunImage| match (one.is_backfilled(), run.is_backfilled()) {
            (true, true) => run.state != RunState::Waiting,
            _ if side_by_side => false,
            (_, false) => run.state != RunState::Waiting,
            (false, true) => run.state == RunState::Running,
        };
        !self.open_runs(one.key.job).any(keeps_waiting)
    }

    /// Whether a run of a backfill keeps a run waiting that is of none.
    pub(super) fn waits_for_backfill(&self, one: &RunImage) -> bool {
        let goes_on = |run: &RunImage| run.is_backfilled() && run.state == RunState::Running;
        let is_ordinary = !one.is_backfilled();
        is_ordinary && self.open_runs(one.key.job).any(goes_on) && !self.is_free_for(one)
    }
}
