//! Who is in line for one resource, first in line first: claims, and lines of tasks for which it is
//! kept.
//!
//! What those before a place ask for is added up by bucket, so that whose turn it is does not take
//! a look at everybody in line. A claim that waits is parked at one of its resources, where it is
//! not its turn: a change of another one costs nothing.

use crate::core::{ClaimNo, Mode, scheduler::queue::step_counter::step};
use std::collections::{BTreeMap, BTreeSet};

/// Arrivals of one bucket.
const BUCKET: u64 = 256;

/// Everybody in line for one resource.
#[derive(Debug, Default)]
pub(crate) struct ClaimQueue {
    waiters: BTreeMap<ClaimNo, Waiter>,
    /// What all of them ask for.
    all: Asked,
    /// The same of those of each bucket.
    buckets: BTreeMap<u64, Bucket>,
    arrivals: u64,
    /// How many of them are tasks.
    kept: usize,
    /// Claims that are looked at when the resource changes.
    parked: BTreeSet<ClaimNo>,
    /// Those of them that share.
    parked_readers: BTreeSet<ClaimNo>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    mode: Mode,
    /// They arrive in the order of their numbers.
    arrival: u64,
    /// It is a line of tasks.
    is_kept: bool,
}

/// Those who arrived one after the other.
#[derive(Debug)]
struct Bucket {
    /// The first of them, who may have left the line.
    first: ClaimNo,
    asked: Asked,
}

/// What some of those in line ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// How many they are.
    pub waiters: u64,
    /// Permits of those who share.
    pub permits: u64,
    /// How many want all of it.
    pub writers: u64,
}

impl ClaimQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// How many claims wait.
    pub(super) fn claims(&self) -> usize {
        self.waiters.len() - self.kept
    }

    /// All in line.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimNo, Mode)> {
        self.waiters.iter().map(|(no, one)| (*no, one.mode))
    }

    /// Those before a place, from the first one on.
    pub(super) fn before(&self, no: ClaimNo) -> impl Iterator<Item = ClaimNo> {
        self.waiters.range(..no).map(|(earlier, _)| *earlier)
    }

    /// How somebody in line uses the resource; `None`: it is not in line.
    pub(super) fn mode_of(&self, no: ClaimNo) -> Option<Mode> {
        self.waiters.get(&no).map(|one| one.mode)
    }

    /// A claim is in line from now on.
    pub(super) fn push(&mut self, no: ClaimNo, mode: Mode) {
        self.insert(no, mode, false);
    }

    /// A line of tasks is.
    pub(super) fn keep(&mut self, no: ClaimNo, mode: Mode) {
        self.insert(no, mode, true);
    }

    fn insert(&mut self, no: ClaimNo, mode: Mode, is_kept: bool) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let waiter = Waiter {
            mode,
            arrival,
            is_kept,
        };
        self.waiters.insert(no, waiter);
        self.kept += usize::from(is_kept);
        self.all.add(mode);
        let bucket = self.buckets.entry(arrival / BUCKET);
        let bucket = bucket.or_insert_with(|| Bucket {
            first: no,
            asked: Asked::default(),
        });
        bucket.asked.add(mode);
    }

    pub(super) fn remove(&mut self, no: ClaimNo) {
        let Some(waiter) = self.waiters.remove(&no) else {
            return;
        };
        self.unpark(no);
        self.kept -= usize::from(waiter.is_kept);
        self.all.subtract(waiter.mode);
        let number = waiter.arrival / BUCKET;
        if let Some(bucket) = self.buckets.get_mut(&number) {
            bucket.asked.subtract(waiter.mode);
            if bucket.asked.waiters == 0 {
                self.buckets.remove(&number);
            }
        }
    }

    /// What those before a place ask for.
    pub(super) fn ahead(&self, no: ClaimNo) -> Asked {
        let Some((_, next)) = self.waiters.range(no..).next() else {
            return self.all;
        };
        let bucket = next.arrival / BUCKET;
        let mut ahead = Asked::default();
        for (_, earlier) in self.buckets.range(..bucket) {
            step();
            ahead = ahead.with(earlier.asked);
        }
        let earlier = self.waiters.range(..no).rev().map(|(_, one)| one);
        for one in earlier.take_while(|one| one.arrival / BUCKET == bucket) {
            step();
            ahead.add(one.mode);
        }
        ahead
    }

    /// What those in line ask for together, up to the first one with whom it is too much; `None`:
    /// it is not too much for all of them.
    pub(super) fn first_too_much(&self, is_too_much: impl Fn(Asked) -> bool) -> Option<Asked> {
        let mut asked = Asked::default();
        for bucket in self.buckets.values() {
            step();
            let with_all = asked.with(bucket.asked);
            if !is_too_much(with_all) {
                asked = with_all;
                continue;
            }
            for (_, one) in self.waiters.range(bucket.first..) {
                step();
                asked.add(one.mode);
                if is_too_much(asked) {
                    return Some(asked);
                }
            }
        }
        None
    }

    /// Place in line, from 1; 0: it is not in line.
    pub(super) fn position(&self, no: ClaimNo) -> u64 {
        match self.waiters.contains_key(&no) {
            true => self.ahead(no).waiters + 1,
            false => 0,
        }
    }

    /// The claim is looked at when this resource changes.
    pub(super) fn park(&mut self, no: ClaimNo) {
        self.parked.insert(no);
        if matches!(self.mode_of(no), Some(Mode::Shared(_))) {
            self.parked_readers.insert(no);
        }
    }

    pub(super) fn unpark(&mut self, no: ClaimNo) {
        self.parked.remove(&no);
        self.parked_readers.remove(&no);
    }

    /// The first one that is parked here.
    pub(super) fn first_parked(&self) -> Option<ClaimNo> {
        self.parked.first().copied()
    }

    /// The first one that shares.
    pub(super) fn first_parked_reader(&self) -> Option<ClaimNo> {
        self.parked_readers.first().copied()
    }
}

impl Asked {
    fn with(self, other: Asked) -> Asked {
        Asked {
            waiters: self.waiters + other.waiters,
            permits: self.permits + other.permits,
            writers: self.writers + other.writers,
        }
    }

    fn add(&mut self, mode: Mode) {
        self.waiters += 1;
        match mode {
            Mode::Exclusive => self.writers += 1,
            Mode::Shared(permits) => self.permits += u64::from(permits),
        }
    }

    fn subtract(&mut self, mode: Mode) {
        self.waiters -= 1;
        match mode {
            Mode::Exclusive => self.writers -= 1,
            Mode::Shared(permits) => self.permits -= u64::from(permits),
        }
    }
}
