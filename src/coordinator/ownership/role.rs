//! Whether the journal keeps up, as callers may be told: a caller is refused at once when no batch has become durable
//! for too long.

use crate::core::{BatchNo, Epoch};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A batch in flight for longer than this: the database is away.
const STALL: Duration = Duration::from_secs(5);

/// Where this replica stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It has just been started, and does not know yet.
    #[default]
    Starting,
    /// Another replica owns the shard, or nobody does.
    Standby,
    /// It owns the shard, and reads the journal.
    Recovering,
    /// It owns the shard.
    OwnershipTask,
}

/// What the loop last knew of its journal, and of its ownership. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting_since: Option<Instant>,
    last: Option<(BatchNo, Instant)>,
    error: String,
    standing: Role,
    epoch: Epoch,
    /// Until when, by the clock of this machine, nobody else can own the shard.
    lease_until: Option<Instant>,
}

impl State {
    fn stalled(&self) -> bool {
        self.waiting_since
            .is_some_and(|since| since.elapsed() > STALL)
    }
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
    /// The present ownership, or the last one.
    pub epoch: Epoch,
    /// Whether it is present.
    pub standing: Role,
}

impl Health {
    /// The loop waits for a batch or a recovery, or it does not.
    pub(crate) fn waiting(&self, waits: bool) {
        let mut state = self.state();
        match (waits, state.waiting_since) {
            (true, None) => state.waiting_since = Some(Instant::now()),
            (false, Some(_)) => state.waiting_since = None,
            _ => {}
        }
    }

    pub(crate) fn durable(&self, no: BatchNo) {
        let mut state = self.state();
        let now = Instant::now();
        state.last = Some((no, now));
        state.waiting_since = state.waiting_since.map(|_| now);
        state.error.clear();
    }

    pub(crate) fn trouble(&self, error: impl Into<String>) {
        self.state().error = error.into();
    }

    /// The shard is ours, until then at least.
    pub(crate) fn taken(&self, epoch: Epoch, until: Instant) {
        let mut state = self.state();
        state.epoch = epoch;
        state.standing = Role::Recovering;
        state.lease_until = Some(until);
    }

    /// The lease of `epoch` was renewed until then.
    pub(crate) fn renewed(&self, epoch: Epoch, until: Instant) {
        let mut state = self.state();
        if state.epoch == epoch {
            state.lease_until = Some(until);
        }
    }

    pub(crate) fn stands(&self, standing: Role) {
        let mut state = self.state();
        state.standing = standing;
        if standing == Role::Standby {
            state.lease_until = None;
        }
    }

    /// Where this replica stands.
    pub fn standing(&self) -> Role {
        self.state().standing
    }

    /// The ownership to renew.
    pub(crate) fn owns(&self) -> Option<Epoch> {
        let state = self.state();
        matches!(state.standing, Role::Recovering | Role::OwnershipTask).then_some(state.epoch)
    }

    /// Whether nobody else can own the shard for `margin` from now on.
    pub(crate) fn lease_holds(&self, margin: Duration) -> bool {
        self.state()
            .lease_until
            .is_some_and(|until| Instant::now() + margin < until)
    }

    /// Callers are to be refused: nothing has become durable for too long.
    pub fn stalled(&self) -> bool {
        self.state().stalled()
    }

    /// Where this replica stands, and whether callers are to be refused.
    pub(crate) fn door(&self) -> (Role, bool) {
        let state = self.state();
        (state.standing, state.stalled())
    }

    /// The present state.
    pub fn read(&self) -> JournalHealth {
        let state = self.state();
        JournalHealth {
            last_batch: state.last.map(|(no, at)| (no, at.elapsed())),
            available: matches!(state.standing, Role::Recovering | Role::OwnershipTask)
                && !state.stalled(),
            error: state.error.clone(),
            epoch: state.epoch,
            standing: state.standing,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
