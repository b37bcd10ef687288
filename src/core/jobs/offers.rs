//! Offers: runs that are there to be claimed. Every offer has an end, so that what nobody claims
//! has a fate.

use super::Jobs;
use crate::core::{
    JobNo, Overlap, RunCause, RunImage, RunKey, RunReason, RunState, Time, Turn,
    model::limits::Limits,
};

impl Jobs {
    /// A run is there to be claimed.
    pub(super) fn offer(&mut self, turn: &mut Turn, key: RunKey) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.state = RunState::Waiting;
            run.handle = None;
            run.next_attempt_at = None;
            run.ended_at = None;
            self.set_run_timer(key);
            self.record_run(turn, key);
        }
    }

    /// Until when a run may be claimed that has no window: until the next due time, unless runs
    /// wait for each other; and for as long as any may be where nothing else ends it.
    pub(super) fn offered_until(
        &self,
        now: Time,
        limits: &Limits,
        no: JobNo,
        (due, cause): (Time, RunCause),
    ) -> Option<Time> {
        let job = self.jobs.get(&no)?;
        if !job.image.settings.claimed {
            return None;
        }
        // Of what is caught up the next due time may have passed.
        let from = due.max(now - job.delay());
        let may_wait = cause == RunCause::Backfilled || queues(job.image.settings.overlap);
        let next = job.due_after(from).filter(|_| !may_wait);
        Some(match next {
            Some(next) => next + job.delay(),
            None => now + limits.longest_offer,
        })
    }

    /// What waits for a claimant, or comes to wait for another one, is offered no longer than the
    /// job says now: what is due later would be skipped for it.
    pub(super) fn shorten_offers(&mut self, turn: &mut Turn, limits: &Limits, no: JobNo) {
        let open = self.open_runs(no);
        let offers: Vec<_> = open.map(|run| (run.key, run.cause)).collect();
        for (key, cause) in offers {
            let Some(until) = self.offered_until(turn.now, limits, no, (key.due, cause)) else {
                return;
            };
            let run = self.runs.get_mut(&key);
            if let Some(run) = run.filter(|run| run.closes.is_some_and(|closes| until < closes)) {
                run.closes = Some(until);
                self.record_run(turn, key);
                self.set_run_timer(key);
            }
        }
    }

    /// Runs of which the window has closed are offered no more. Where there is no window, those
    /// that nobody could claim for a run of a backfill are offered on.
    pub(super) fn close_unclaimed(&mut self, turn: &mut Turn, limits: &Limits, no: JobNo) {
        let now = turn.now;
        self.offer_on(turn, limits, no);
        let is_closed = |run: &RunImage| run.closes.is_some_and(|closes| closes <= now);
        self.end_offers(turn, no, is_closed);
    }

    /// What waits for a run of a backfill is offered beyond its time, as from now on.
    fn offer_on(&mut self, turn: &mut Turn, limits: &Limits, no: JobNo) {
        if !self.is_claimed(no) {
            return;
        }
        let is_over = |run: &&RunImage| {
            let is_closed = run.closes.is_some_and(|closes| closes <= turn.now);
            is_closed && run.state == RunState::Waiting
        };
        let has_window = |run: &RunImage| {
            let schedule = self.jobs.get(&no).and_then(|job| job.schedule.as_ref());
            let is_once_per = schedule.is_some_and(|schedule| schedule.period().is_some());
            is_once_per && run.cause == RunCause::Scheduled
        };
        let over = self.open_runs(no).filter(is_over);
        let over = over.filter(|run| !has_window(run) && self.waits_for_backfill(run));
        let over: Vec<_> = over.map(|run| (run.key, run.cause)).collect();
        for (key, cause) in over {
            let until = self.offered_until(turn.now, limits, no, (key.due, cause));
            if let (Some(until), Some(run)) = (until, self.runs.get_mut(&key)) {
                run.closes = Some(until);
                self.record_run(turn, key);
                self.set_run_timer(key);
            }
        }
    }

    /// The job that this one follows has succeeded once more: what is offered since the last time
    /// is offered no more, as at the next due time of a schedule.
    pub(super) fn end_followed(&mut self, turn: &mut Turn, no: JobNo) {
        let job = self.jobs.get(&no);
        if job.is_some_and(|job| !queues(job.image.settings.overlap)) {
            self.end_offers(turn, no, |run| run.cause != RunCause::Backfilled);
        }
    }

    fn end_offers(&mut self, turn: &mut Turn, no: JobNo, ends: impl Fn(&RunImage) -> bool) {
        if !self.is_claimed(no) {
            return;
        }
        let ends = |run: &&RunImage| run.state == RunState::Waiting && ends(run);
        let ended: Vec<RunImage> = self.open_runs(no).filter(ends).cloned().collect();
        for run in ended {
            let (state, reason) = self.unclaimed(&run);
            self.give_up(turn, run.key, state, reason);
            self.count(turn, no, run.cause, state);
        }
    }

    /// What becomes of a run that is offered no more.
    pub(super) fn unclaimed(&self, run: &RunImage) -> (RunState, RunReason) {
        match run.reason {
            Some(RunReason::ClaimantLost) => (RunState::Lost, RunReason::ClaimantLost),
            Some(RunReason::MaxRuntime) => (RunState::TimedOut, RunReason::MaxRuntime),
            Some(reason) if run.attempt > 0 => (RunState::Failed, reason),
            _ => {
                let held = self.held_because(run.key.job);
                let held = held.filter(|_| !self.may_start(run));
                let reason = match self.waits_for_backfill(run) {
                    true => RunReason::WindowClosed,
                    false => RunReason::NotClaimed,
                };
                held.unwrap_or((RunState::Missed, reason))
            }
        }
    }
}

/// Whether runs wait for each other, so that a due time does not end the offer of an earlier one.
fn queues(overlap: Overlap) -> bool {
    matches!(overlap, Overlap::QueueOne | Overlap::QueueAll)
}
