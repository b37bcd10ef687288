//! A run fails under an owner that cannot read its job. Only the job says whether it is repeated,
//! and what follows, so that is left to the next owner that can read it.

use super::Jobs;
use crate::core::{
    JobNo, RunImage, RunKey, RunReason, RunState, Turn, fairness::allowance::Allowance,
};

impl RunImage {
    /// It has failed, and nobody has decided whether it is repeated.
    pub(super) fn is_undecided(&self) -> bool {
        self.state == RunState::Retrying && self.next_attempt_at.is_none()
    }

    /// How it ends if it has failed and is not repeated.
    pub(super) fn failed_as(&self) -> RunState {
        match self.reason {
            Some(RunReason::MaxRuntime) => RunState::TimedOut,
            Some(RunReason::SchedulerGone | RunReason::ClaimantLost) => RunState::Lost,
            _ => RunState::Failed,
        }
    }
}

impl Jobs {
    /// Whether nothing is known of what a job says, for this version cannot read it.
    pub(super) fn is_unreadable(&self, no: JobNo) -> bool {
        self.job(no).is_none()
    }

    /// A run has failed, and waits for an owner that decides what follows.
    pub(super) fn leave_undecided(&mut self, turn: &mut Turn, key: RunKey) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.state = RunState::Retrying;
            run.next_attempt_at = None;
            self.record_run(turn, key);
        }
    }

    /// What an owner that could not read the job of a run has left open.
    pub(super) fn decide_failure(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        if let Some(state) = self.runs.get(&key).map(RunImage::failed_as) {
            self.end_attempt(turn, allowance, key, state);
        }
    }
}
