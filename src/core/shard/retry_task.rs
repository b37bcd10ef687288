//! RetryTask and RetryFailed: a task that has ended is submitted once more, as a copy.
//!
//! No task has two retries. The core forgets tasks that have ended, so whoever asks for a retry
//! searches the journal for an earlier one, and says how far; the core remembers those that came
//! later, or says that the search must go further.

use crate::core::{
    Attempt, AttemptEvent, AttemptRecord, Handle, Reject, Retries, Seq, Shard, Submit, Turn,
};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The latest retries of all schedulers.
#[derive(Debug, Default)]
pub(crate) struct LatestRetries {
    by_task: FxHashMap<(Handle, Seq), Seq>,
    /// Scheduler, task and retry.
    oldest_first: VecDeque<(Handle, Seq, Seq)>,
}

impl Shard {
    /// Whether none of these tasks has a retry.
    pub(super) fn may_retry(&self, handle: Handle, retries: &Retries) -> Result<(), Reject> {
        for of in &retries.of {
            if let Some(retry) = self.retried.by_task.get(&(handle, of.seq)) {
                return Err(Reject::Retried {
                    seq: of.seq,
                    retry: *retry,
                });
            }
        }
        let forgotten = self.schedulers.expect(handle).forgotten_retries;
        match retries.searched < forgotten {
            true => Err(Reject::RetriesUnknown),
            false => Ok(()),
        }
    }

    /// The tasks from `first` on may be retries.
    pub(super) fn note_retries(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        first: Seq,
        submit: &Submit,
    ) {
        let Some(retries) = &submit.retries else {
            return;
        };
        for (at, of) in retries.of.iter().enumerate() {
            let retry = first.plus(at as u32);
            turn.out.records.attempts.push(AttemptRecord {
                handle,
                seq: of.seq,
                attempt: Attempt(0),
                what: AttemptEvent::Retried { retry },
                at: turn.now,
                ran: None,
            });
            self.schedulers.expect_mut(handle).copies.insert(retry, *of);
            self.retried.by_task.insert((handle, of.seq), retry);
            self.retried.oldest_first.push_back((handle, of.seq, retry));
        }
        while self.retried.oldest_first.len() > self.limits.retries {
            let Some((handle, seq, retry)) = self.retried.oldest_first.pop_front() else {
                return;
            };
            self.retried.by_task.remove(&(handle, seq));
            if let Some(scheduler) = self.schedulers.get_mut(handle) {
                scheduler.forgotten_retries = scheduler.forgotten_retries.max(retry);
            }
        }
    }
}
