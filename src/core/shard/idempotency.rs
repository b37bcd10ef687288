//! Calls that may be repeated: the same request id within fifteen minutes gets the same answer,
//! another payload an error.
//!
//! A busy server remembers a million of them, so each one is stored once, and small. Callers choose
//! their ids, so they are hashed with a key that nobody knows: ids made to collide would make every
//! call slow. Nothing here is iterated by hash, so the key decides nothing.

use crate::core::{
    DoneNo, Handle, Request, SchedulerImage, Seq, Shard, Time, fairness::slot_kinds::NamespaceId,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
};
use uuid::Uuid;

/// Calls that one call lets forget: a few, however many have become too old since the last one.
const FORGOTTEN: usize = 100;

/// GetScheduler calls by namespace and request id: whole while their scheduler is in memory, as a
/// hash afterwards, when the journal answers.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    in_memory: HashMap<(NamespaceId, Uuid), Handle>,
    left: LeftMemory,
    hasher: RandomState,
}

/// The hashes of calls, in chunks of those made in the same minute. A chunk is forgotten as a
/// whole, up to a minute late, so that nothing has to be known of a single call.
#[derive(Debug, Default)]
struct LeftMemory {
    /// Oldest first.
    chunks: VecDeque<(Minute, FxHashSet<u64>)>,
    calls: usize,
}

/// Minutes since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minute(pub i64);

/// Chunks that the calls to be remembered make at least, when there are as many as may be.
const CHUNKS: usize = 16;

/// An accepted ExecAsync call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub at: Time,
    pub handle: Handle,
    pub namespace: NamespaceId,
    pub request: Request,
    pub first_seq: Seq,
    pub done_no: DoneNo,
    pub count: u32,
}

/// ExecAsync calls by scheduler and request id, oldest first.
#[derive(Debug, Default)]
pub(crate) struct AcceptedCalls {
    /// Each with the distance to the last older one of the same hash; 0: there is none.
    calls: VecDeque<(Accepted, u32)>,
    /// The number of the oldest one.
    first: u64,
    /// By hash: the number of the newest one.
    newest: FxHashMap<u64, u64>,
    hasher: RandomState,
}

impl Opened {
    /// The scheduler in memory that the newest call with this id opened, however long ago.
    pub(crate) fn in_memory(&self, namespace: NamespaceId, id: Uuid) -> Option<Handle> {
        self.in_memory.get(&(namespace, id)).copied()
    }

    /// Whether the journal has to say what this call opened.
    pub(crate) fn has_left(&self, namespace: NamespaceId, id: Uuid) -> bool {
        let hash = self.hash(namespace, id);
        let mut chunks = self.left.chunks.iter();
        chunks.any(|(_, hashes)| hashes.contains(&hash))
    }

    pub(crate) fn insert(&mut self, namespace: NamespaceId, id: Uuid, handle: Handle) {
        self.in_memory.insert((namespace, id), handle);
    }

    /// The scheduler leaves memory. `at`: when it was opened; `most`: calls to remember.
    pub(crate) fn leave(
        &mut self,
        at: Time,
        (namespace, id): (NamespaceId, Uuid),
        handle: Handle,
        most: usize,
    ) {
        // The id may have been used again when this call was forgotten.
        if self.in_memory(namespace, id) == Some(handle) {
            self.in_memory.remove(&(namespace, id));
        }
        let hash = self.hash(namespace, id);
        self.left
            .insert(Minute::of(at), hash, most.div_ceil(CHUNKS));
    }

    /// The calls of schedulers that have left memory, by the minute they were made in.
    pub(crate) fn left_by_minute(&self) -> impl Iterator<Item = (Minute, usize)> {
        let chunks = self.left.chunks.iter();
        chunks.map(|(minute, hashes)| (*minute, hashes.len()))
    }

    fn hash(&self, namespace: NamespaceId, id: Uuid) -> u64 {
        self.hasher.hash_one((namespace, id))
    }
}

impl LeftMemory {
    fn insert(&mut self, minute: Minute, hash: u64, chunk_size: usize) {
        let older = self.chunks.partition_point(|(other, _)| *other <= minute);
        let newest = older.checked_sub(1).and_then(|at| self.chunks.get_mut(at));
        let inserted = match newest {
            Some((of, hashes)) if *of == minute && hashes.len() < chunk_size => hashes.insert(hash),
            _ => {
                let hashes = FxHashSet::from_iter([hash]);
                self.chunks.insert(older, (minute, hashes));
                true
            }
        };
        self.calls += usize::from(inserted);
    }

    /// Forgets the minutes before that of `limit`, and those without which `most` are left.
    fn forget_until(&mut self, limit: Time, most: usize) {
        while let Some((minute, hashes)) = self.chunks.front()
            && (*minute < Minute::of(limit) || self.calls - hashes.len() >= most)
        {
            self.calls -= hashes.len();
            self.chunks.pop_front();
        }
    }
}

impl Minute {
    pub(crate) fn of(at: Time) -> Minute {
        Minute(at.0.div_euclid(60_000_000))
    }
}

impl AcceptedCalls {
    /// The call with this id, if it was accepted at `since` or later.
    pub(crate) fn get(&self, handle: Handle, id: Uuid, since: Time) -> Option<&Accepted> {
        let mut number = *self.newest.get(&self.hash(handle, id))?;
        loop {
            // One that has been forgotten ends the chain.
            let (call, older) = self
                .calls
                .get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
            if call.handle == handle && call.request.id == id {
                return (call.at >= since).then_some(call);
            }
            if *older == 0 {
                return None;
            }
            number = number.checked_sub(u64::from(*older))?;
        }
    }

    /// The newest `most` calls, of those accepted at `since` or later.
    pub(crate) fn since(&self, since: Time, most: usize) -> impl Iterator<Item = &Accepted> {
        let older = self.calls.len().saturating_sub(most);
        let calls = self.calls.range(older..).map(|(call, _)| call);
        calls.filter(move |call| call.at >= since)
    }

    /// Remembers a call, the latest one.
    pub(crate) fn insert(&mut self, call: Accepted) {
        let number = self.first + self.calls.len() as u64;
        let hash = self.hash(call.handle, call.request.id);
        let older = self.newest.insert(hash, number);
        let distance = older
            .and_then(|older| u32::try_from(number - older).ok())
            .unwrap_or(0);
        self.calls.push_back((call, distance));
    }

    /// Forgets calls before `limit`, and those above `most`; up to `at_once` of them.
    fn forget_until(&mut self, limit: Time, most: usize, at_once: usize) {
        for _ in 0..at_once {
            let is_old = self.calls.front().is_some_and(|(call, _)| call.at < limit);
            if !is_old && self.calls.len() <= most {
                return;
            }
            let Some((call, _)) = self.calls.pop_front() else {
                return;
            };
            let hash = self.hash(call.handle, call.request.id);
            if self.newest.get(&hash) == Some(&self.first) {
                self.newest.remove(&hash);
            }
            self.first += 1;
        }
    }

    fn hash(&self, handle: Handle, id: Uuid) -> u64 {
        self.hasher.hash_one((handle, id))
    }
}

impl Shard {
    /// Forgets some of the calls that are too old to be repeated. What is left of them is answered
    /// as if it were forgotten.
    pub(crate) fn forget_requests(&mut self, now: Time) {
        self.forget_requests_at_once(now, FORGOTTEN);
    }

    /// Keeps a hash alone of the call that opened a scheduler which is over.
    pub(crate) fn forget_open(&mut self, image: &SchedulerImage, namespace: NamespaceId) {
        if let Some(request) = image.request {
            let (call, most) = ((namespace, request.id), self.limits.requests);
            self.opened.leave(image.opened_at, call, image.handle, most);
        }
    }

    /// Forgets all of them.
    pub(crate) fn forget_all_requests(&mut self, now: Time) {
        self.forget_requests_at_once(now, usize::MAX);
    }

    fn forget_requests_at_once(&mut self, now: Time, at_once: usize) {
        let (limit, most) = (self.memory.since(now), self.limits.requests);
        self.opened.left.forget_until(limit, most);
        self.accepted.forget_until(limit, most, at_once);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        ShardId,
        model::limits::Limits,
        tests::world::{World, free, plain, request},
    };

    fn call(at: i64, id: u128) -> Accepted {
        let (handle, request) = (
            Handle::new(ShardId(0), 1, [0; 10]),
            Request {
                id: Uuid::from_u128(id),
                hash: 0,
            },
        );
        Accepted {
            at: Time(at),
            handle,
            namespace: NamespaceId(0),
            request,
            first_seq: Seq(at),
            done_no: DoneNo(0),
            count: 1,
        }
    }

    #[test]
    fn calls_are_found_until_they_are_forgotten() {
        let mut calls = AcceptedCalls::default();
        (1..=100).for_each(|n| calls.insert(call(n, n as u128)));
        calls.forget_until(Time(51), 1_000, usize::MAX);
        calls.forget_until(Time(0), 20, usize::MAX);
        let found = |n: i64| {
            calls
                .get(call(n, 0).handle, Uuid::from_u128(n as u128), Time(0))
                .map(|call| call.first_seq.0)
        };
        assert_eq!(
            (found(80), found(81), found(100), found(101)),
            (None, Some(81), Some(100), None)
        );
        assert_eq!((calls.calls.len(), calls.newest.len()), (20, 20));
    }

    #[test]
    fn opens_whose_scheduler_has_left_memory_are_forgotten_by_the_minute() {
        let (namespace, most) = (NamespaceId(0), 32);
        let mut opened = Opened::default();
        let minute = |n: i64| Time(n * 60_000_000);
        let handle = call(1, 1).handle;
        for n in 1..=20 {
            // Younger ones may leave before older ones.
            let at = minute(if n % 2 == 0 { 1 } else { 2 });
            opened.leave(at, (namespace, Uuid::from_u128(n)), handle, most);
        }
        let knows = |opened: &Opened, n| opened.has_left(namespace, Uuid::from_u128(n));
        assert!((1..=20).all(|n| knows(&opened, n)) && !knows(&opened, 21));
        let mut minutes: Vec<_> = opened.left_by_minute().collect();
        assert!(minutes.is_sorted_by_key(|(minute, _)| *minute));
        minutes.dedup_by(|next, one| one.0 == next.0);
        assert_eq!(minutes.len(), 2);
        opened.left.forget_until(Time(minute(2).0 - 1), most);
        assert_eq!(opened.left.calls, 20);
        opened.left.forget_until(minute(2), most);
        assert!((1..=20).all(|n| knows(&opened, n) == (n % 2 == 1)));
        opened.left.forget_until(minute(2), 5);
        assert_eq!(opened.left.calls, 6, "whole chunks, five calls at least");
    }

    #[test]
    fn no_more_calls_are_remembered_after_a_recovery_than_before() {
        let mut world = World::limited(
            1,
            Limits {
                requests: 3,
                ..Limits::default()
            },
        );
        let s = world.open(plain);
        for id in 1..=5 {
            world
                .try_submit(s, request(id, 0), [free()])
                .expect("accepted");
        }
        world.crash();
        assert_eq!(world.shard.accepted.calls.len(), 3);
    }

    #[test]
    fn a_call_after_a_long_silence_forgets_a_few_and_answers_none_of_the_old_ones() {
        let mut world = World::new(0);
        let s = world.open(plain);
        for id in 1..=300 {
            let tasks = [free().noop()];
            world
                .try_submit(s, request(id, 0), tasks)
                .expect("accepted");
        }
        world.seconds(16.0 * 60.0);
        let again = |world: &mut World, id| world.try_submit(s, request(id, 0), [free().noop()]);
        assert_eq!(again(&mut world, 300).map(|(first, _)| first), Ok(301));
        assert_eq!(world.shard.accepted.calls.len(), 300 - FORGOTTEN + 1);
        assert_eq!(again(&mut world, 300).map(|(first, _)| first), Ok(301));
        assert_eq!(again(&mut world, 1).map(|(first, _)| first), Ok(302));
    }

    #[test]
    fn nobody_knows_how_ids_are_hashed() {
        let (one, other) = (AcceptedCalls::default(), AcceptedCalls::default());
        let Accepted {
            handle, request, ..
        } = call(1, 1);
        assert_ne!(one.hash(handle, request.id), other.hash(handle, request.id));
    }

    #[test]
    fn calls_whose_hashes_collide_are_distinguished() {
        let mut calls = AcceptedCalls::default();
        let (a, b) = (call(1, 1), call(2, 2));
        calls.insert(a);
        calls.insert(b);
        // As if their hashes were one.
        calls.calls[1].1 = 1;
        calls.newest = [
            (calls.hash(a.handle, a.request.id), 1),
            (calls.hash(b.handle, b.request.id), 1),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            calls
                .get(a.handle, a.request.id, Time(0))
                .map(|call| call.first_seq),
            Some(Seq(1))
        );
        calls.forget_until(Time(2), 10, usize::MAX);
        assert!(calls.get(a.handle, a.request.id, Time(0)).is_none());
        assert_eq!(
            calls
                .get(b.handle, b.request.id, Time(0))
                .map(|call| call.first_seq),
            Some(Seq(2))
        );
    }
}
