//! Calls that may be repeated: the same request id within fifteen minutes gets the same answer,
//! another payload an error.
//!
//! A busy server remembers a million of them, so each one is stored once, and small.

use crate::core::{
    DoneNo, Handle, Request, Seq, Shard, Time, fairness::pool::NamespaceId, model::limits,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::{collections::VecDeque, hash::BuildHasher};
use uuid::Uuid;

/// GetScheduler calls by namespace and request id.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    by_id: FxHashMap<(NamespaceId, Uuid), (Handle, i64)>,
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
}

impl Opened {
    /// The scheduler that was opened, and the hash of the call.
    pub(crate) fn get(&self, namespace: NamespaceId, id: Uuid) -> Option<(Handle, i64)> {
        self.by_id.get(&(namespace, id)).copied()
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
            .filter_map(|(_, namespace, id, handle)| {
                let opened = self.get(*namespace, *id)?;
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
            .insert((namespace, request.id), (handle, request.hash));
        self.by_age.push_back((at, namespace, request.id, handle));
    }

    fn forget_until(&mut self, limit: Time, most: usize) {
        while self.by_age.front().is_some_and(|(at, ..)| *at < limit) || self.by_age.len() > most {
            let Some((_, namespace, id, handle)) = self.by_age.pop_front() else {
                return;
            };
            // The id may have been used again since it was forgotten before.
            if self
                .get(namespace, id)
                .is_some_and(|(newest, _)| newest == handle)
            {
                self.by_id.remove(&(namespace, id));
            }
        }
    }
}

impl AcceptedCalls {
    pub(crate) fn get(&self, handle: Handle, id: Uuid) -> Option<&Accepted> {
        let mut number = *self.newest.get(&hash(handle, id))?;
        loop {
            // One that has been forgotten ends the chain.
            let (call, older) = self
                .calls
                .get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
            if call.handle == handle && call.request.id == id {
                return Some(call);
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
        let older = self
            .newest
            .insert(hash(call.handle, call.request.id), number);
        let distance = older
            .and_then(|older| u32::try_from(number - older).ok())
            .unwrap_or(0);
        self.calls.push_back((call, distance));
    }

    fn forget_until(&mut self, limit: Time, most: usize) {
        while self.calls.front().is_some_and(|(call, _)| call.at < limit) || self.calls.len() > most
        {
            let Some((call, _)) = self.calls.pop_front() else {
                return;
            };
            let hash = hash(call.handle, call.request.id);
            if self.newest.get(&hash) == Some(&self.first) {
                self.newest.remove(&hash);
            }
            self.first += 1;
        }
    }
}

fn hash(handle: Handle, id: Uuid) -> u64 {
    FxBuildHasher.hash_one((handle, id))
}

impl Shard {
    /// Forgets calls that are too old to be repeated.
    pub(crate) fn forget_requests(&mut self, now: Time) {
        let limit = now - limits::REQUEST_MEMORY;
        self.opened.forget_until(limit, self.limits.requests);
        self.accepted.forget_until(limit, self.limits.requests);
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
        calls.forget_until(Time(51), 1_000);
        calls.forget_until(Time(0), 20);
        let found = |n: i64| {
            calls
                .get(call(n, 0).handle, Uuid::from_u128(n as u128))
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
    fn calls_whose_hashes_collide_are_distinguished() {
        let mut calls = AcceptedCalls::default();
        let (a, b) = (call(1, 1), call(2, 2));
        calls.insert(a);
        calls.insert(b);
        // As if their hashes were one.
        calls.calls[1].1 = 1;
        calls.newest = [
            (hash(a.handle, a.request.id), 1),
            (hash(b.handle, b.request.id), 1),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            calls.get(a.handle, a.request.id).map(|call| call.first_seq),
            Some(Seq(1))
        );
        calls.forget_until(Time(2), 10);
        assert!(calls.get(a.handle, a.request.id).is_none());
        assert_eq!(
            calls.get(b.handle, b.request.id).map(|call| call.first_seq),
            Some(Seq(2))
        );
    }
}
