//! Calls that may be repeated: the same request id within fifteen minutes gets the same answer,
//! another payload an error.
//!
//! A busy server remembers a million of them, so each one is stored once, and small. Callers choose
//! their ids, so they are hashed with a key that nobody knows: ids made to collide would make every
//! call slow. Nothing here is iterated by hash, so the key decides nothing.

use crate::core::{
    DoneNo, Handle, Request, Seq, Shard, Time, fairness::slot_kinds::NamespaceId, model::limits,
};
use rustc_hash::FxHashMap;
use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
};
use uuid::Uuid;

/// Calls that one call lets forget: a few, however many have become too old since the last one.
const FORGOTTEN: usize = 100;

/// GetScheduler calls by namespace and request id.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    by_id: HashMap<(NamespaceId, Uuid), (Time, Handle, i64)>,
    by_age: VecDeque<(Time, NamespaceId, Uuid, Handle)>,
}

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
    /// The scheduler that was opened at `since` or later, and the hash of the call.
    pub(crate) fn get(
        &self,
        namespace: NamespaceId,
        id: Uuid,
        since: Time,
    ) -> Option<(Handle, i64)> {
        let (at, handle, hash) = *self.by_id.get(&(namespace, id))?;
        (at >= since).then_some((handle, hash))
    }

    /// The newest `most` calls, of those made at `since` or later.
    pub(crate) fn since(
        &self,
        since: Time,
        most: usize,
    ) -> impl Iterator<Item = (NamespaceId, Uuid, (Handle, i64))> {
        self.by_age
            .range(self.by_age.len().saturating_sub(most)..)
            .filter(move |(at, ..)| *at >= since)
            .filter_map(move |(_, namespace, id, handle)| {
                let opened = self.get(*namespace, *id, since)?;
                (opened.0 == *handle).then_some((*namespace, *id, opened))
            })
    }

    pub(crate) fn insert(
        &mut self,
        at: Time,
        namespace: NamespaceId,
        request: Request,
        handle: Handle,
    ) {
        self.by_id
            .insert((namespace, request.id), (at, handle, request.hash));
        self.by_age.push_back((at, namespace, request.id, handle));
    }

    /// Forgets calls before `limit`, and those above `most`; up to `at_once` of them.
    fn forget_until(&mut self, limit: Time, most: usize, at_once: usize) {
        for _ in 0..at_once {
            let is_old = self.by_age.front().is_some_and(|(at, ..)| *at < limit);
            if !is_old && self.by_age.len() <= most {
                return;
            }
            let Some((_, namespace, id, handle)) = self.by_age.pop_front() else {
                return;
            };
            // The id may have been used again since it was forgotten before.
            let newest = self.by_id.get(&(namespace, id));
            if newest.is_some_and(|(_, newest, _)| *newest == handle) {
                self.by_id.remove(&(namespace, id));
            }
        }
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

    /// Forgets all of them.
    pub(crate) fn forget_all_requests(&mut self, now: Time) {
        self.forget_requests_at_once(now, usize::MAX);
    }

    fn forget_requests_at_once(&mut self, now: Time, at_once: usize) {
        let (limit, most) = (now - limits::REQUEST_MEMORY, self.limits.requests);
        self.opened.forget_until(limit, most, at_once);
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
