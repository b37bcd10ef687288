//! What this replica knows of its ownership and of its journal: its role, its lease, and whether
//! batches become durable.
//!
//! Shared between the loop, the ownership task and the callers' handle. A caller is refused at once
//! when no batch has become durable for too long. It decides nothing: the epoch in the database
//! decides who writes.

use super::role::Role;
use crate::{
    core::{BatchNo, Epoch, Handle, Namespace, Time},
    journal::Unreadable,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// A batch or a recovery that takes longer than this counts as an outage of the database.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Shared and updated in place. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ReplicaState(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting_since: Option<Instant>,
    last_batch: Option<(BatchNo, Instant)>,
    error: String,
    role: Role,
    epoch: Epoch,
    /// Until when, by the clock of this machine, nobody else can own the shard.
    lease_until: Option<Instant>,
    /// Schedulers that the last recovery set aside.
    unreadable: Vec<Unreadable>,
}

impl State {
    fn is_stalled(&self) -> bool {
        self.waiting_since
            .is_some_and(|since| since.elapsed() > STALL_TIMEOUT)
    }
}

/// A snapshot of [`ReplicaState`].
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// The last durable batch of this process, and its age.
    pub last_batch: Option<(BatchNo, Duration)>,
    /// Whether callers are served here.
    pub available: bool,
    /// The last error of the journal; empty when a batch has become durable since.
    pub error: String,
    /// The present ownership, or the last one.
    pub epoch: Epoch,
    pub role: Role,
    /// Schedulers that cannot be served, because their rows make no sense to this version.
    pub unreadable: Vec<Unreadable>,
}

impl ReplicaState {
    /// Whether the loop waits for a batch or a recovery.
    pub(crate) fn set_waiting(&self, waits: bool) {
        let mut state = self.lock();
        match (waits, state.waiting_since) {
            (true, None) => state.waiting_since = Some(Instant::now()),
            (false, Some(_)) => state.waiting_since = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// A batch has become durable.
    pub(crate) fn batch_durable(&self, no: BatchNo) {
        let mut state = self.lock();
        let now = Instant::now();
        state.last_batch = Some((no, now));
        state.waiting_since = state.waiting_since.map(|_| now);
        state.error.clear();
    }

    /// How many batches are missing of those that this replica has seen durable, when the journal
    /// ends with `last`.
    pub(crate) fn lost_since(&self, last: BatchNo) -> i64 {
        let mut state = self.lock();
        let known = state.last_batch.map_or(last, |(known, _)| known);
        if known > last {
            state.last_batch = Some((last, Instant::now()));
        }
        (known.0 - last.0).max(0)
    }

    pub(crate) fn set_error(&self, error: impl Into<String>) {
        self.lock().error = error.into();
    }

    /// This replica has taken the shard over, with a lease until then.
    pub(crate) fn taken_over(&self, epoch: Epoch, lease_until: Instant) {
        let mut state = self.lock();
        state.epoch = epoch;
        state.role = Role::Recovering;
        state.lease_until = Some(lease_until);
    }

    /// The lease of `epoch` was renewed. Ignored when that is not the present ownership any more.
    pub(crate) fn lease_renewed(&self, epoch: Epoch, until: Instant) {
        let mut state = self.lock();
        if state.epoch == epoch {
            state.lease_until = Some(until);
        }
    }

    pub(crate) fn set_role(&self, role: Role) {
        let mut state = self.lock();
        state.role = role;
        if role == Role::Standby {
            state.lease_until = None;
        }
    }

    /// These schedulers cannot be served under the present ownership.
    pub(crate) fn set_unreadable(&self, unreadable: Vec<Unreadable>) {
        self.lock().unreadable = unreadable;
    }

    /// Whether a scheduler of this namespace was set aside.
    pub(crate) fn is_unreadable(&self, namespace: &Namespace, handle: Handle) -> bool {
        let state = self.lock();
        let mut unreadable = state.unreadable.iter();
        unreadable.any(|one| one.handle == handle && one.namespace == *namespace)
    }

    /// Whether this call has opened such a one, at `since` or later.
    pub(crate) fn opened_unreadable(&self, namespace: &Namespace, id: Uuid, since: Time) -> bool {
        let state = self.lock();
        let mut unreadable = state.unreadable.iter();
        unreadable.any(|one| {
            let opened = one.opened.filter(|(of, at)| *of == id && *at >= since);
            opened.is_some() && one.namespace == *namespace
        })
    }

    pub fn role(&self) -> Role {
        self.lock().role
    }

    /// The ownership whose lease is to be renewed.
    pub(crate) fn owned_epoch(&self) -> Option<Epoch> {
        let state = self.lock();
        state.role.is_owner().then_some(state.epoch)
    }

    /// Whether nobody else can own the shard for `margin` from now on.
    pub(crate) fn lease_holds(&self, margin: Duration) -> bool {
        self.lock()
            .lease_until
            .is_some_and(|until| Instant::now() + margin < until)
    }

    /// Whether nothing has become durable for too long, so that callers are to be refused.
    pub fn is_stalled(&self) -> bool {
        self.lock().is_stalled()
    }

    /// The role, and whether callers are to be refused.
    pub(crate) fn role_and_stall(&self) -> (Role, bool) {
        let state = self.lock();
        (state.role, state.is_stalled())
    }

    pub fn status(&self) -> ReplicaStatus {
        let state = self.lock();
        ReplicaStatus {
            last_batch: state.last_batch.map(|(no, at)| (no, at.elapsed())),
            available: state.role.is_owner() && !state.is_stalled(),
            error: state.error.clone(),
            epoch: state.epoch,
            role: state.role,
            unreadable: state.unreadable.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
