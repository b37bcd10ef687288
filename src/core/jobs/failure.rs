//! A run comes to nothing: the tasks that its job names for that follow, in a scheduler of their
//! own.

use super::{Jobs, Step};
use crate::core::{Handle, RunKey, RunState, RunToken, Time, Turn};
use std::sync::Arc;

/// What has happened to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It ended in this state.
    Ended(RunState),
    /// Who had lost this claim completed it nevertheless.
    Late(RunToken),
}

impl Failure {
    /// As the label of the scheduler has it: the words of the API.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Failure::Ended(RunState::TimedOut) => "TIMED_OUT",
            Failure::Ended(RunState::Lost) => "LOST",
            Failure::Ended(RunState::Missed) => "MISSED",
            Failure::Ended(_) => "FAILED",
            Failure::Late(_) => "LATE",
        }
    }
}

impl Jobs {
    /// Has the tasks for a failure follow, if there are any and this is one.
    pub(super) fn follow_failure(&mut self, key: RunKey, failure: Failure) {
        let is_one = match failure {
            Failure::Ended(state) => state.is_failure() || state == RunState::Missed,
            Failure::Late(_) => true,
        };
        let Some(job) = self.jobs.get(&key.job).filter(|_| is_one) else {
            return;
        };
        let tasks = &job.image.on_failure;
        if !tasks.runs.is_empty() {
            self.started_bytes += tasks.bodies.bytes.len();
            let image = Arc::new(job.image.clone());
            self.steps.push_back(Step::Follow(key, failure, image));
        }
    }

    /// The handle of the scheduler that follows a failure: other than those of attempts.
    pub(crate) fn handle_after(&self, now: Time, key: RunKey, failure: Failure) -> Handle {
        let name = match failure {
            // A run that has failed may be missed in the same moment, and fail once more later.
            Failure::Ended(state) => 2 << 62 | (state as u64) << 56 | now.0 as u64,
            // A claim comes back late once.
            Failure::Late(claim) => 3 << 62 | claim.0 as u64,
        };
        self.handle_of(now, key, name)
    }

    /// The tasks for a failure could not be submitted: the row that says of the failure says so.
    pub(crate) fn not_followed(
        &mut self,
        turn: &mut Turn,
        key: RunKey,
        failure: Failure,
        why: &str,
    ) {
        let refused = |detail: &str| {
            let detail = format!("{detail} on_failure was refused: {why}");
            detail.trim_start().into()
        };
        match failure {
            Failure::Ended(_) => {
                if let Some(run) = turn.out.records.jobs.runs.get_mut(&key) {
                    run.detail = refused(&run.detail);
                }
            }
            Failure::Late(token) => {
                let Some(ended) = self.ended_claims.get_mut(key, token) else {
                    return;
                };
                if let Some(late) = &mut ended.image.late {
                    late.detail = refused(&late.detail);
                }
                let claim = ended.image.clone();
                self.record_claim(turn, &claim);
            }
        }
    }
}
