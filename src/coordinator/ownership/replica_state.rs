//! What this replica knows of its ownership and of its journal: its role, its lease, and whether
//! batches become durable.
//!
//! Shared between the loop, the ownership task and the callers' handle. A caller is refused at once
//! when no batch has become durable for too long. It decides nothing: the numbers of batches in the
//! database decide who writes.

use super::role::Role;
use crate::{
    clock::uptime,
    core::{BatchNo, Epoch, Handle, Namespace, RequestMemory, Time},
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
    /// When the loop ran last; `None`: it has not begun.
    stepped_at: Option<Instant>,
    /// When maintenance has last done all of its steps, or this became the owner since.
    maintained_at: Option<Instant>,
    takeovers: u64,
    last_batch: Option<(BatchNo, Instant)>,
    /// Of the last batch.
    last_epoch: Epoch,
    /// Batches that a claim has missed, until the loop takes notice of them.
    lost_batches: i64,
    error: String,
    role: Role,
    epoch: Epoch,
    /// The first epoch of the present ownership: others come after it without a pause.
    owner_since: Epoch,
    /// Until when, by the clock of this machine, nobody else can own the shard. `None`: it cannot
    /// be renewed either.
    /// By the uptime of the machine, which counts while that is suspended, as others do.
    lease_until: Option<Duration>,
    /// Schedulers that the last recovery set aside, by handle.
    unreadable: Arc<[Unreadable]>,
    /// For how long calls may be repeated; `None`: the journal is not read yet.
    memory: Option<RequestMemory>,
}

impl State {
    fn is_stalled(&self) -> bool {
        self.waiting_since
            .is_some_and(|since| since.elapsed() > STALL_TIMEOUT)
    }

    /// Whether an owner does not reach the database.
    fn is_cut_off(&self) -> bool {
        self.is_stalled() || self.has_lapsed()
    }

    /// Whether the lease has run out, and nothing becomes durable either: an owner that has nothing
    /// to write learns by that alone that the database is away.
    fn has_lapsed(&self) -> bool {
        let has_run_out = self.lease_until.is_some_and(|until| until < uptime());
        let writes = |(_, at): (BatchNo, Instant)| at.elapsed() < STALL_TIMEOUT;
        has_run_out && !self.last_batch.is_some_and(writes)
    }

    /// The last error of the journal, or why it counts as away without one.
    fn why_away(&self) -> String {
        match self.error.is_empty() && self.role.is_owner() && self.has_lapsed() {
            true => "the lease is not renewed: the database does not answer".to_owned(),
            false => self.error.clone(),
        }
    }
}

/// A snapshot of [`ReplicaState`].
#[derive(Clone, Debug)]
pub struct ReplicaStatus {
    /// The last durable batch of this process, and its age.
    pub last_batch: Option<(BatchNo, Duration)>,
    /// Whether callers are served here.
    pub available: bool,
    /// It owns the shard, and does not reach the coordination database.
    pub cut_off: bool,
    /// The last error of the journal; empty when a batch has become durable since.
    pub error: String,
    /// The present ownership, or the last one.
    pub epoch: Epoch,
    pub role: Role,
    /// Schedulers that cannot be served, because their rows make no sense to this version.
    pub unreadable: Arc<[Unreadable]>,
    /// What is left of the lease; `None`: it has none.
    pub lease_left: Option<Duration>,
    /// How often it has become the owner.
    pub takeovers: u64,
    /// For how long the loop has not run, which it does each second; `None`: it has not begun.
    pub loop_idle: Option<Duration>,
    /// Since when the last whole round of maintenance is over, or without one this replica the
    /// owner; `None`: it is not.
    pub maintained: Option<Duration>,
}

impl ReplicaState {
    /// The loop has run; whether it waits for a batch or a recovery.
    pub(crate) fn stepped(&self, waits: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        state.stepped_at = Some(now);
        match (waits, state.waiting_since) {
            (true, None) => state.waiting_since = Some(now),
            (false, Some(_)) => state.waiting_since = None,
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// A batch of this epoch has become durable.
    pub(crate) fn batch_durable(&self, epoch: Epoch, no: BatchNo) {
        let mut state = self.lock();
        let now = Instant::now();
        (state.last_batch, state.last_epoch) = (Some((no, now)), epoch);
        state.waiting_since = state.waiting_since.map(|_| now);
        state.error.clear();
    }

    /// The last batch that this replica has seen durable, and its epoch.
    pub(crate) fn last_durable(&self) -> Option<(Epoch, BatchNo)> {
        let state = self.lock();
        state.last_batch.map(|(no, _)| (state.last_epoch, no))
    }

    /// Of the batches up to `durable`, the last that this replica has seen durable, and its epoch,
    /// the journal has those up to `survived`. Ignored, and false, when another one is the last by
    /// now: this was counted, or one more has become durable.
    pub(crate) fn survived(&self, durable: (Epoch, BatchNo), survived: BatchNo) -> bool {
        let mut state = self.lock();
        let last = state.last_batch.map(|(no, _)| (state.last_epoch, no));
        let (is_last, (_, durable)) = (last == Some(durable), durable);
        if is_last && survived < durable {
            state.last_batch = Some((survived, Instant::now()));
            state.lost_batches += durable.0 - survived.0;
        }
        is_last
    }

    /// How many batches are missing of those that this replica has seen durable; counted once.
    pub(crate) fn take_lost_batches(&self) -> i64 {
        std::mem::take(&mut self.lock().lost_batches)
    }

    /// A round of maintenance has done all of its steps.
    pub(crate) fn maintained(&self) {
        self.lock().maintained_at = Some(Instant::now());
    }

    pub(crate) fn set_error(&self, error: impl Into<String>) {
        self.lock().error = error.into();
    }

    /// This replica has taken the shard over, with a lease until that uptime.
    pub(crate) fn taken_over(&self, epoch: Epoch, lease_until: Duration) {
        let mut state = self.lock();
        if !state.role.is_owner() {
            state.owner_since = epoch;
            state.takeovers += 1;
            state.maintained_at = Some(Instant::now());
            state.unreadable = Arc::default();
            state.memory = None;
        }
        state.epoch = epoch;
        state.role = Role::Recovering;
        state.lease_until = Some(lease_until);
    }

    /// The lease of `epoch` was renewed until that uptime. Ignored when that is not the present
    /// ownership any more, or its lease was given up.
    pub(crate) fn lease_renewed(&self, epoch: Epoch, until: Duration) {
        let mut state = self.lock();
        if state.epoch == epoch && state.lease_until.is_some() {
            state.lease_until = Some(until);
        }
    }

    /// Another replica may own the shard from now on: nothing rests on the lease any more.
    pub(crate) fn give_up_lease(&self) {
        self.lock().lease_until = None;
    }

    pub(crate) fn set_role(&self, role: Role) {
        let mut state = self.lock();
        state.role = role;
        if role == Role::Standby {
            state.lease_until = None;
            // The next owner may read what this one could not.
            state.unreadable = Arc::default();
        }
    }

    /// The journal was read under the present ownership, and these schedulers cannot be served.
    pub(crate) fn set_recovered(&self, memory: RequestMemory, unreadable: Vec<Unreadable>) {
        let mut state = self.lock();
        (state.memory, state.unreadable) = (Some(memory), unreadable.into());
    }

    /// Calls that were accepted since then may be repeated; `None`: the journal is not read yet.
    pub(crate) fn requests_since(&self, now: Time) -> Option<Time> {
        self.lock().memory.map(|memory| memory.since(now))
    }

    /// Whether a scheduler of this namespace was set aside.
    pub(crate) fn is_unreadable(&self, namespace: &Namespace, handle: Handle) -> bool {
        let unreadable = &self.lock().unreadable;
        let place = unreadable.binary_search_by_key(&handle, |one| one.handle);
        place.is_ok_and(|place| unreadable[place].namespace == *namespace)
    }

    /// Whether such a one has this name, as far as is known.
    pub(crate) fn is_name_unreadable(&self, namespace: &Namespace, name: &str) -> bool {
        let state = self.lock();
        let mut unreadable = state.unreadable.iter();
        unreadable.any(|one| one.name.as_deref() == Some(name) && one.namespace == *namespace)
    }

    /// Whether this call has opened such a one and may be repeated.
    pub(crate) fn opened_unreadable(&self, namespace: &Namespace, id: Uuid, now: Time) -> bool {
        let state = self.lock();
        let since = state.memory.unwrap_or_default().since(now);
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

    /// The epoch with which the present ownership began. One that follows at once on another, which
    /// was lost, has its own; the epochs of a core that is rebuilt belong to the one before.
    pub(crate) fn owner_since(&self) -> Option<Epoch> {
        let state = self.lock();
        state.role.is_owner().then_some(state.owner_since)
    }

    /// Whether nobody else can own the shard for `margin` from now on, and the core at `epoch` is
    /// the one that owns it.
    pub(crate) fn lease_holds(&self, epoch: Epoch, margin: Duration) -> bool {
        let state = self.lock();
        let until = state.lease_until.filter(|_| state.epoch == epoch);
        until.is_some_and(|until| uptime() + margin < until)
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
            available: state.role.is_owner() && !state.is_cut_off(),
            cut_off: state.role.is_owner() && state.is_cut_off(),
            error: state.why_away(),
            epoch: state.epoch,
            role: state.role,
            unreadable: state.unreadable.clone(),
            lease_left: state
                .lease_until
                .map(|until| until.saturating_sub(uptime())),
            takeovers: state.takeovers,
            loop_idle: state.stepped_at.map(|at| at.elapsed()),
            maintained: state
                .maintained_at
                .filter(|_| state.role.is_owner())
                .map(|at| at.elapsed()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn owner(epoch: i64) -> ReplicaState {
        let state = ReplicaState::default();
        state.taken_over(Epoch(epoch), uptime() + SOON);
        state
    }

    #[test]
    fn an_ownership_that_follows_at_once_is_another_and_a_rebuilt_core_is_not() {
        let state = owner(5);
        state.taken_over(Epoch(6), uptime() + SOON);
        assert_eq!(state.owner_since(), Some(Epoch(5)));
        state.set_role(Role::Standby);
        assert_eq!(state.owner_since(), None);
        state.taken_over(Epoch(8), uptime() + SOON);
        assert_eq!(state.owner_since(), Some(Epoch(8)));
    }

    #[test]
    fn an_owner_without_a_round_of_maintenance_counts_from_its_takeover() {
        let state = ReplicaState::default();
        assert_eq!(state.status().maintained, None);
        state.taken_over(Epoch(5), uptime() + SOON);
        let first = state.status().maintained.expect("an age");
        // A rebuilt core is not a round.
        state.taken_over(Epoch(6), uptime() + SOON);
        assert!(state.status().maintained.expect("an age") >= first);
        state.set_role(Role::Standby);
        assert_eq!(state.status().maintained, None);
    }

    #[test]
    fn a_batch_that_is_not_in_the_journal_any_more_is_lost_once() {
        let state = owner(5);
        assert_eq!(state.last_durable(), None);
        state.batch_durable(Epoch(5), BatchNo(7));
        assert_eq!(state.last_durable(), Some((Epoch(5), BatchNo(7))));
        let survived =
            |epoch, durable, no| state.survived((Epoch(epoch), BatchNo(durable)), BatchNo(no));
        assert!(survived(5, 7, 7));
        assert_eq!(state.take_lost_batches(), 0);
        // The same number of another ownership.
        assert!(!survived(4, 7, 6));
        assert!(survived(5, 7, 6));
        // A claim that was made meanwhile says the same.
        assert!(!survived(5, 7, 6));
        assert!(survived(5, 6, 5));
        assert_eq!(state.take_lost_batches(), 2);
        assert_eq!(state.take_lost_batches(), 0);
    }

    #[test]
    fn an_idle_owner_whose_lease_has_run_out_is_cut_off() {
        let state = owner(5);
        let status = state.status();
        assert_eq!((status.available, status.cut_off), (true, false));
        state.lease_renewed(Epoch(5), uptime() - Duration::from_millis(1));
        let status = state.status();
        assert_eq!((status.available, status.cut_off), (false, true));
        assert!(status.error.contains("the lease is not renewed"));
        // One that writes has a database.
        state.batch_durable(Epoch(5), BatchNo(1));
        assert!(state.status().available);
        state.lease_renewed(Epoch(5), uptime() + SOON);
        assert!(state.status().available);
        // What a standby does not reach is nobody's concern.
        state.set_role(Role::Standby);
        assert!(!state.status().cut_off);
    }

    #[test]
    fn a_core_of_an_earlier_epoch_has_no_lease() {
        let state = owner(5);
        assert!(state.lease_holds(Epoch(5), Duration::ZERO));
        state.set_role(Role::Standby);
        state.taken_over(Epoch(7), uptime() + SOON);
        assert!(!state.lease_holds(Epoch(5), Duration::ZERO));
    }

    #[test]
    fn a_lease_that_was_given_up_or_lost_is_not_renewed() {
        let given_up = owner(5);
        given_up.give_up_lease();
        let lost = owner(5);
        lost.set_role(Role::Standby);
        for state in [given_up, lost] {
            state.lease_renewed(Epoch(5), uptime() + SOON);
            assert!(!state.lease_holds(Epoch(5), Duration::ZERO));
        }
    }
}
