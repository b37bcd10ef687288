//! A due time meets earlier runs of its job.

use super::{Failure, Jobs, Step};
use crate::core::{
    JobNo, Overlap, RunCause, RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
};
use std::sync::Arc;

/// A due time that is to have a run.
#[derive(Clone, Debug)]
pub(super) struct Firing {
    pub due: Time,
    pub cause: RunCause,
    /// When its window closes.
    pub closes: Option<Time>,
    /// It waits for its turn whatever the rules of overlap say.
    pub catches_up: bool,
}

impl Firing {
    pub(super) fn new(due: Time, cause: RunCause) -> Self {
        Firing {
            due,
            cause,
            closes: None,
            catches_up: false,
        }
    }

    pub(super) fn image(&self, job: JobNo) -> RunImage {
        let due = self.due;
        RunImage {
            closes: self.closes,
            catches_up: self.catches_up,
            ..RunImage::new(RunKey { job, due }, self.cause)
        }
    }
}

impl Jobs {
    /// Gives a due time its run, now or later, or says why there is none.
    pub(super) fn begin(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
        mut firing: Firing,
    ) {
        self.close_unclaimed(turn, allowance.limits, no);
        if firing.cause == RunCause::Followed {
            self.end_followed(turn, no);
        }
        let of = (firing.due, firing.cause);
        let offered = || self.offered_until(turn.now, allowance.limits, no, of);
        firing.closes = firing.closes.or_else(offered);
        let overlap = self.jobs[&no].image.settings.overlap;
        let waits = |run: &&RunImage| run.state == RunState::Waiting;
        let is_crowd = overlap == Overlap::Allow
            && !firing.catches_up
            && self.no_room.contains_key(&no)
            && self.ordinary_runs(no).filter(waits).count() >= allowance.limits.waiting_runs;
        if is_crowd {
            return self.note(turn, no, firing, RunState::Skipped, RunReason::QueueFull);
        }
        if overlap == Overlap::Allow || !self.is_occupied(no) {
            let image = firing.image(no);
            return self.start_or_wait(turn, allowance, image);
        }
        let waiting = self.ordinary_runs(no).filter(waits).count();
        let skip = match overlap {
            _ if firing.catches_up => None,
            Overlap::Skip => Some(RunReason::StillRunning),
            Overlap::QueueOne if waiting > 0 => Some(RunReason::QueueFull),
            Overlap::QueueAll if waiting >= allowance.limits.waiting_runs => {
                Some(RunReason::QueueFull)
            }
            _ => None,
        };
        if let Some(reason) = skip {
            return self.note(turn, no, firing, RunState::Skipped, reason);
        }
        if !firing.catches_up && matches!(overlap, Overlap::KeepNewest | Overlap::CancelRunning) {
            self.make_way(turn, no, overlap);
        }
        self.wait(turn, allowance, firing.image(no));
    }

    /// What waits is replaced by a later due time, and what runs is cancelled if the rule says so.
    /// What is caught up has its turn all the same, and so has what somebody asked for, where
    /// nothing is cancelled.
    fn make_way(&mut self, turn: &mut Turn, no: JobNo, overlap: Overlap) {
        let ordinary = self.ordinary_runs(no);
        let open: Vec<RunKey> = ordinary
            .filter(|run| !is_caught_up(run))
            .filter(|run| overlap != Overlap::KeepNewest || run.cause != RunCause::Asked)
            .map(|run| run.key)
            .collect();
        for key in open {
            let run = &self.runs[&key];
            match run.state {
                // A claim of it was lost, and so is the run.
                RunState::Waiting if run.attempt > 0 => {
                    let ((state, reason), cause) = (self.unclaimed(run), run.cause);
                    self.give_up(turn, key, state, reason);
                    self.count(turn, no, cause, state);
                }
                RunState::Waiting => {
                    self.give_up(turn, key, RunState::Skipped, RunReason::Replaced)
                }
                _ if overlap == Overlap::KeepNewest || run.is_undecided() => {}
                RunState::Retrying => self.give_up_repeating(turn, key, RunReason::Replaced),
                _ => self.cancel(turn, key, RunReason::Replaced, &"".into()),
            }
        }
    }

    /// Whether a due time waits for the end of a run, which was being stopped already as that came:
    /// it is not repeated in front of it. By jitter it may be an earlier one.
    pub(super) fn gives_way(&self, key: RunKey) -> bool {
        let job = self.jobs.get(&key.job);
        let cancels = job.is_some_and(|job| job.image.settings.overlap == Overlap::CancelRunning);
        let waits_for_it =
            |run: &RunImage| run.state == RunState::Waiting && run.key != key && !run.catches_up;
        // Neither does a due time wait for these.
        let keeps_its_turn = |run: &RunImage| is_caught_up(run) || run.is_backfilled();
        let keeps_its_turn = self.runs.get(&key).is_some_and(keeps_its_turn);
        cancels && !keeps_its_turn && self.ordinary_runs(key.job).any(waits_for_it)
    }

    /// What becomes of a run that was to be repeated, and is not.
    pub(super) fn give_up_repeating(&mut self, turn: &mut Turn, key: RunKey, reason: RunReason) {
        if let Some(run) = self.runs.get(&key) {
            let (state, cause) = (run.ends_as(), run.cause);
            self.give_up(turn, key, state, reason);
            self.count(turn, key.job, cause, state);
        }
    }

    /// A due time has no run.
    pub(super) fn note(
        &mut self,
        turn: &mut Turn,
        no: JobNo,
        firing: Firing,
        state: RunState,
        reason: RunReason,
    ) {
        let image = RunImage {
            state,
            reason: Some(reason),
            ended_at: Some(turn.now),
            ..firing.image(no)
        };
        turn.out.records.jobs.runs.insert(image.key, image);
    }

    /// A run that does not run comes to its end.
    pub(super) fn give_up(
        &mut self,
        turn: &mut Turn,
        key: RunKey,
        state: RunState,
        reason: RunReason,
    ) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.state = state;
            run.reason = Some(reason);
            run.next_attempt_at = None;
            run.ended_at = Some(turn.now);
            self.record_run(turn, key);
            self.follow_failure(key, Failure::Ended(state));
        }
    }

    /// What is left of a run is cancelled. It ends with its scheduler.
    pub(super) fn cancel(
        &mut self,
        turn: &mut Turn,
        key: RunKey,
        reason: RunReason,
        by: &Arc<str>,
    ) {
        let is_claimed = self.is_question(key);
        let job = self.jobs.get(&key.job);
        let has_rerun = job.is_some_and(|job| job.image.settings.rerun.is_some());
        let is_repeated = has_rerun || self.is_unreadable(key.job);
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        // A job that is deleted is not known any more: the reason says that its run is a question.
        let is_open = match run.reason {
            Some(RunReason::ClaimantLost | RunReason::Reported | RunReason::MaxRuntime) => true,
            other => reason == RunReason::JobDeleted && other != Some(reason),
        };
        let asks_target = run.state == RunState::Running && run.handle.is_some() && is_claimed;
        // It is being stopped, and may be repeated: who cancels it wants no more of it.
        let outlasts = run.state == RunState::Running
            && run.reason == Some(RunReason::MaxRuntime)
            && (reason == RunReason::Asked || reason == RunReason::AgentStopped && is_repeated);
        if asks_target && is_open {
            // It is not offered again. What the target says is waited for: the work may be done.
            run.reason = Some(reason);
            if !by.is_empty() {
                run.by = by.clone();
            }
            self.record_run(turn, key);
        } else if run.reason.is_none() || outlasts && !is_claimed {
            run.reason = Some(reason);
            run.by = if by.is_empty() {
                run.by.clone()
            } else {
                by.clone()
            };
            let is_claimed = self.claims.contains_key(&key);
            self.steps.extend(run.handle.map(Step::Cancel));
            self.steps.extend(is_claimed.then_some(Step::EndClaim(key)));
            self.record_run(turn, key);
        }
    }
}

/// Its due time had passed before it could be served, and it has a run by the rule for that.
fn is_caught_up(run: &RunImage) -> bool {
    run.catches_up && matches!(run.cause, RunCause::Scheduled | RunCause::Followed)
}
