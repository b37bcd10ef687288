//! Whether the journal keeps up, as callers may be told: a caller is refused at once when no batch has become durable
//! for too long.

use crate::core::{BatchNo, Epoch, Time};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A batch in flight for longer than this: the database is away.
const STALL: Duration = Duration::from_secs(5);

/// What the loop last knew of its journal. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting_since: Option<Instant>,
    last: Option<(BatchNo, Instant)>,
    error: String,
    epoch: Epoch,
    started: Option<Time>,
}

/// A reading of [`Health`].
#[derive(Clone, Debug)]
pub struct JournalHealth {
    /// The last durable batch of this run, and how long ago it became so.
    pub last_batch: Option<(BatchNo, Duration)>,
    /// Callers are served.
    pub available: bool,
    /// Why not, or the last trouble.
    pub error: String,
    /// The present ownership.
    pub epoch: Epoch,
}

impl Health {
    /// The loop waits for a batch or a recovery, or it does not.
    pub(super) fn waiting(&self, waits: bool) {
        let mut state = self.state();
        match (waits, state.waiting_since) {
            (true, None) => state.waiting_since = Some(Instant::now()),
            (false, Some(_)) => state.waiting_since = None,
            _ => {}
        }
    }

    pub(super) fn durable(&self, no: BatchNo) {
        let mut state = self.state();
        let now = Instant::now();
        state.last = Some((no, now));
        state.waiting_since = state.waiting_since.map(|_| now);
        state.error.clear();
    }

    pub(super) fn trouble(&self, error: impl Into<String>) {
        self.state().error = error.into();
    }

    pub(super) fn owned(&self, epoch: Epoch, now: Time) {
        let mut state = self.state();
        state.epoch = epoch;
        state.started.get_or_insert(now);
    }

    /// Callers are to be refused: nothing has become durable for too long.
    pub fn stalled(&self) -> bool {
        self.state().waiting_since.is_some_and(|since| since.elapsed() > STALL)
    }

    /// The present state.
    pub fn read(&self) -> JournalHealth {
        let state = self.state();
        JournalHealth {
            last_batch: state.last.map(|(no, at)| (no, at.elapsed())),
            available: state.epoch > Epoch(0) && state.waiting_since.is_none_or(|since| since.elapsed() <= STALL),
            error: state.error.clone(),
            epoch: state.epoch,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
