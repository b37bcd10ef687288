//! A resource that is held or waited for: what is left of it, and who may have it next.

use crate::core::{ClaimNo, Mode, ResourceSettings};
use std::collections::BTreeMap;

/// Claim numbers of one bucket of a queue: the places before a claim are counted by bucket.
const BUCKET: i64 = 256;

/// Who holds a resource and who waits for it.
#[derive(Debug)]
pub(crate) struct InUse {
    pub settings: ResourceSettings,
    /// Claims that hold it, and those that have lost it and still keep others out.
    pub held: BTreeMap<ClaimNo, Mode>,
    /// Permits of `held`.
    used: u64,
    exclusive: bool,
    /// Claims that wait, first in line first.
    pub queue: BTreeMap<ClaimNo, Mode>,
    /// How many of `queue` there are in each bucket of numbers.
    buckets: BTreeMap<i64, u32>,
}

impl InUse {
    pub(crate) fn new(settings: ResourceSettings) -> Self {
        InUse {
            settings,
            held: BTreeMap::new(),
            used: 0,
            exclusive: false,
            queue: BTreeMap::new(),
            buckets: BTreeMap::new(),
        }
    }

    /// Nobody holds it or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.queue.is_empty()
    }

    /// Permits in use: all of them when it is held exclusively.
    pub(crate) fn used(&self) -> u64 {
        match self.exclusive {
            true => self.used.max(self.settings.capacity.into()),
            false => self.used,
        }
    }

    pub(crate) fn enqueue(&mut self, no: ClaimNo, mode: Mode) {
        self.queue.insert(no, mode);
        *self.buckets.entry(bucket(no)).or_default() += 1;
    }

    pub(crate) fn leave_queue(&mut self, no: ClaimNo) {
        if self.queue.remove(&no).is_some() {
            match self.buckets.get_mut(&bucket(no)) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.buckets.remove(&bucket(no))),
            }
        }
    }

    pub(crate) fn hold(&mut self, no: ClaimNo, mode: Mode) {
        self.held.insert(no, mode);
        match mode {
            Mode::Exclusive => self.exclusive = true,
            Mode::Shared(permits) => self.used += u64::from(permits),
        }
    }

    pub(crate) fn give_back(&mut self, no: ClaimNo) {
        match self.held.remove(&no) {
            Some(Mode::Exclusive) => self.exclusive = false,
            Some(Mode::Shared(permits)) => self.used -= u64::from(permits),
            None => {}
        }
    }

    /// Claims that wait, and of which no earlier one would have to wait for them, in line. One that
    /// waits for something else besides has its permits kept for it.
    pub(crate) fn next_in_line(&self) -> impl Iterator<Item = ClaimNo> {
        let capacity = u64::from(self.settings.capacity);
        let mut used = self.used;
        // Nobody has anything beside a writer, or behind one in line.
        let mut done = self.exclusive || capacity == 0;
        self.queue.iter().map_while(move |(no, mode)| {
            let fits = match mode {
                _ if done => false,
                Mode::Exclusive => {
                    done = true;
                    used == 0
                }
                // What asks for more than there is, since that was lowered, gets all there is.
                Mode::Shared(permits) => {
                    let fits = used == 0 || used + u64::from(*permits) <= capacity;
                    used += u64::from(*permits);
                    fits
                }
            };
            fits.then_some(*no)
        })
    }

    /// Place in line, from 1.
    pub(crate) fn position(&self, no: ClaimNo) -> u64 {
        let before = self.buckets.range(..bucket(no));
        let before: u64 = before.map(|(_, count)| u64::from(*count)).sum();
        let first = ClaimNo(bucket(no) * BUCKET);
        before + self.queue.range(first..=no).count() as u64
    }
}

fn bucket(no: ClaimNo) -> i64 {
    no.0.div_euclid(BUCKET)
}
