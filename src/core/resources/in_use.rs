//! A resource that is held or waited for: what is left of it, and who may have it next.

use super::missing::{Missing, PARTS};
use crate::core::{
    ClaimNo, Mode, Refill, ResourceSettings, Time, Token, scheduler::queue::step_counter::step,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Arrivals of one bucket of a queue: the places before a claim are counted by bucket.
const BUCKET: u64 = 256;

/// A claim in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub mode: Mode,
    /// Claims arrive in the order of their numbers.
    arrival: u64,
}

/// Who holds a resource and who waits for it.
#[derive(Debug)]
pub(crate) struct InUse {
    /// As far as it has followed its definition.
    pub settings: ResourceSettings,
    /// Claims that hold it, and those that have lost it and still keep others out.
    pub held: BTreeMap<ClaimNo, Mode>,
    /// Permits of `held`.
    used: u64,
    /// How many of `held` have all of it. After a takeover with a clock that is behind, one that
    /// has lost it keeps others out once more, beside whoever has got it since.
    writers: u32,
    /// Claims that wait, first in line first.
    pub queue: BTreeMap<ClaimNo, Waiter>,
    /// Those of `queue` that share.
    readers: BTreeSet<ClaimNo>,
    /// What was missing after the last grant, if permits come back by time.
    pub missing: Option<Missing>,
    /// When to look at it, because enough has come back; [`Time::NEVER`]: no timer is set.
    pub wake: Time,
    /// How many of `queue` there are in each bucket of arrivals.
    buckets: BTreeMap<u64, u32>,
    arrivals: u64,
}

impl InUse {
    pub(crate) fn new(settings: ResourceSettings) -> Self {
        InUse {
            settings,
            held: BTreeMap::new(),
            used: 0,
            writers: 0,
            queue: BTreeMap::new(),
            readers: BTreeSet::new(),
            missing: None,
            wake: Time::NEVER,
            buckets: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// Nobody holds it or waits for it, and nothing of it is missing.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.held.is_empty() && self.queue.is_empty() && self.missing_parts(now) == 0
    }

    /// Somebody waits for it, or for what is missing to come back.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.queue.is_empty() || self.missing.is_some()
    }

    /// Permits in use or missing: all of them when it is held exclusively.
    pub(crate) fn used(&self, now: Time) -> u64 {
        match self.writers {
            0 => self.used + self.missing_parts(now).div_ceil(PARTS),
            _ => self.used.max(self.settings.capacity.into()),
        }
    }

    /// What has not come back yet, in millionths of permits.
    pub(crate) fn missing_parts(&self, now: Time) -> u64 {
        self.missing_at(self.settings.refill, now)
    }

    fn missing_at(&self, refill: Option<Refill>, now: Time) -> u64 {
        let missing = self.missing.zip(refill);
        missing.map_or(0, |(missing, refill)| missing.now(now, refill))
    }

    pub(crate) fn enqueue(&mut self, no: ClaimNo, mode: Mode) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.queue.insert(no, Waiter { mode, arrival });
        if matches!(mode, Mode::Shared(_)) {
            self.readers.insert(no);
        }
        *self.buckets.entry(arrival / BUCKET).or_default() += 1;
    }

    pub(crate) fn leave_queue(&mut self, no: ClaimNo) {
        if let Some(waiter) = self.queue.remove(&no) {
            self.readers.remove(&no);
            let bucket = waiter.arrival / BUCKET;
            match self.buckets.get_mut(&bucket) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.buckets.remove(&bucket)),
            }
        }
    }

    pub(crate) fn hold(&mut self, no: ClaimNo, mode: Mode) {
        self.held.insert(no, mode);
        match mode {
            Mode::Exclusive => self.writers += 1,
            Mode::Shared(permits) => self.used += u64::from(permits),
        }
    }

    /// If permits come back by time, takes them, and returns what is missing then.
    pub(crate) fn take(&mut self, at: Time, by: (Token, ClaimNo), mode: Mode) -> Option<u64> {
        self.settings.refill?;
        let permits = u64::from(Self::permits(&self.settings, mode));
        let parts = self.missing_parts(at) + permits * PARTS;
        self.missing = Some(Missing { parts, at, by });
        Some(parts)
    }

    pub(crate) fn give_back(&mut self, no: ClaimNo) {
        match self.held.remove(&no) {
            Some(Mode::Exclusive) => self.writers -= 1,
            Some(Mode::Shared(permits)) => self.used -= u64::from(permits),
            None => {}
        }
    }

    /// Claims that wait, and of which no earlier one would have to wait for them, in line. One that
    /// waits for something else besides has its permits kept for it. Where readers are preferred
    /// they come first, past the writers.
    pub(crate) fn next_in_line(
        &self,
        settings: &ResourceSettings,
        now: Time,
    ) -> impl Iterator<Item = ClaimNo> {
        let readers = self.next_readers(settings, now);
        readers.chain(self.next_of_all(settings, now))
    }

    /// Up to whom it is the turn of those in line.
    pub(super) fn front(&self, settings: &ResourceSettings, now: Time) -> Front {
        Front {
            readers: self.next_readers(settings, now).last(),
            all: self.next_of_all(settings, now).last(),
        }
    }

    /// Those who share, as far as there is room, if they are preferred.
    fn next_readers(
        &self,
        settings: &ResourceSettings,
        now: Time,
    ) -> impl Iterator<Item = ClaimNo> {
        let is_preferred = settings.reader_preferred;
        let readers = is_preferred.then_some(&self.readers).into_iter().flatten();
        let mut room = self.room(settings, now);
        let fits = move |no: &ClaimNo| room.take(self.queue[no].mode).then_some(*no);
        readers.map_while(fits).inspect(|_| step())
    }

    /// All in line, as far as there is room.
    fn next_of_all(&self, settings: &ResourceSettings, now: Time) -> impl Iterator<Item = ClaimNo> {
        let mut room = self.room(settings, now);
        let line = self.queue.iter();
        let fits = move |(no, waiter): (&ClaimNo, &Waiter)| room.take(waiter.mode).then_some(*no);
        line.map_while(fits).inspect(|_| step())
    }

    /// What is left, before anybody in line has his.
    pub(super) fn room(&self, settings: &ResourceSettings, now: Time) -> Room {
        Room {
            capacity: u64::from(settings.capacity) * PARTS,
            all: settings.refill.map(|_| settings.capacity),
            used: self.used * PARTS + self.missing_at(settings.refill, now),
            is_closed: self.writers > 0 || settings.capacity == 0,
        }
    }

    /// When everything missing has come back; [`Time::NEVER`]: nothing is missing.
    pub(crate) fn full_at(&self, now: Time) -> Time {
        match (self.missing, self.settings.refill) {
            (Some(missing), Some(refill)) if missing.now(now, refill) > 0 => {
                missing.less_at(0, refill)
            }
            _ => Time::NEVER,
        }
    }

    /// When enough has come back for the first in line who has to wait for that, or everything if
    /// nobody does; [`Time::NEVER`]: nothing is missing.
    pub(crate) fn refilled_at(&self, now: Time) -> Time {
        let (Some(missing), Some(refill)) = (self.missing, self.settings.refill) else {
            return Time::NEVER;
        };
        let parts = missing.now(now, refill);
        if parts == 0 {
            return Time::NEVER;
        }
        let mut room = self.room(&self.settings, now);
        if room.is_closed {
            return missing.less_at(0, refill);
        }
        let first = self.queue.values().find(|waiter| !room.take(waiter.mode));
        let lacking = first.map_or(parts, |_| room.used.saturating_sub(room.capacity));
        missing.less_at(parts.saturating_sub(lacking.max(1)), refill)
    }

    /// When enough has come back for this mode, if it has to wait for that.
    pub(crate) fn fits_at(&self, now: Time, mode: Mode) -> Option<Time> {
        let (missing, refill) = self.missing.zip(self.settings.refill)?;
        let (parts, mut room) = (missing.now(now, refill), self.room(&self.settings, now));
        if parts == 0 || room.is_closed || room.take(mode) {
            return None;
        }
        let lacking = room.used.saturating_sub(room.capacity);
        Some(missing.less_at(parts.saturating_sub(lacking.max(1)), refill))
    }

    /// How long it may take until permits have come back for a place in line, if those before ask
    /// for as many.
    pub(crate) fn refill_wait(
        &self,
        now: Time,
        position: u64,
        mode: Mode,
        refill: Refill,
    ) -> Duration {
        let asked = position.saturating_mul(u64::from(Self::permits(&self.settings, mode)));
        let used = self
            .missing_parts(now)
            .saturating_add(asked.saturating_mul(PARTS));
        let lacking = Missing {
            parts: used.saturating_sub(u64::from(self.settings.capacity) * PARTS),
            at: now,
            by: Default::default(),
        };
        lacking.less_at(0, refill).since(now)
    }

    /// Permits of a mode: a writer takes all of what refills.
    pub(crate) fn permits(settings: &ResourceSettings, mode: Mode) -> u32 {
        match mode {
            Mode::Exclusive => settings.capacity,
            Mode::Shared(permits) => permits,
        }
    }

    /// How many in line come before a number.
    pub(crate) fn before(&self, no: ClaimNo) -> u64 {
        match self.queue.range(no..).next() {
            Some((next, _)) => self.position(*next) - 1,
            None => self.queue.len() as u64,
        }
    }

    /// Place in line, from 1; 0: it is not in the queue.
    pub(crate) fn position(&self, no: ClaimNo) -> u64 {
        let Some(waiter) = self.queue.get(&no) else {
            return 0;
        };
        let bucket = waiter.arrival / BUCKET;
        let before = self.buckets.range(..bucket);
        let before: u64 = before.map(|(_, count)| u64::from(*count)).sum();
        let same = self.queue.range(..=no).rev();
        before
            + same
                .take_while(|(_, one)| one.arrival / BUCKET == bucket)
                .count() as u64
    }
}

/// The last ones in line whose turn it is.
#[derive(Clone, Copy)]
pub(super) struct Front {
    /// Of those who share, where they are preferred.
    readers: Option<ClaimNo>,
    all: Option<ClaimNo>,
}

impl Front {
    /// Whether it is the turn of somebody in line.
    pub(super) fn has(&self, no: ClaimNo, mode: Mode) -> bool {
        let readers = self.readers.filter(|_| matches!(mode, Mode::Shared(_)));
        readers.max(self.all).is_some_and(|last| no <= last)
    }
}

/// What those in line leave, one after the other.
pub(super) struct Room {
    capacity: u64,
    /// All permits of what refills, which is never held as a whole.
    all: Option<u32>,
    used: u64,
    is_closed: bool,
}

impl Room {
    /// Whether there is room for the next in line. Nobody has anything beside a writer, or behind
    /// one in line.
    fn take(&mut self, mode: Mode) -> bool {
        let Some(parts) = self.parts_of(mode) else {
            let fits = !self.is_closed && self.used == 0;
            self.is_closed = true;
            return fits;
        };
        // What asks for more than there is, since that was lowered, gets all there is.
        let before = self.used;
        self.used += parts;
        !self.is_closed && (before == 0 || self.used <= self.capacity)
    }

    /// How many that want the same there is room for.
    pub(super) fn fitting(&self, mode: Mode) -> u64 {
        match self.parts_of(mode) {
            _ if self.is_closed => 0,
            None => u64::from(self.used == 0),
            Some(parts) => {
                let fitting = self.capacity.saturating_sub(self.used) / parts.max(1);
                fitting.max(u64::from(self.used == 0))
            }
        }
    }

    /// So many of those for whom there is room have it.
    pub(super) fn take_times(&mut self, mode: Mode, times: u64) {
        match self.parts_of(mode) {
            None => self.is_closed = true,
            Some(parts) => self.used += parts.saturating_mul(times),
        }
    }

    /// What somebody takes, in millionths of permits; `None`: all of it, alone.
    fn parts_of(&self, mode: Mode) -> Option<u64> {
        let permits = match (mode, self.all) {
            (Mode::Shared(permits), _) | (Mode::Exclusive, Some(permits)) => permits,
            (Mode::Exclusive, None) => return None,
        };
        Some(u64::from(permits) * PARTS)
    }
}

#[test]
fn a_writer_that_was_lost_gives_back_nothing_of_the_one_after_it() {
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    let (mut lock, now) = (InUse::new(settings), Time(0));
    lock.hold(ClaimNo(1), Mode::Exclusive);
    lock.hold(ClaimNo(2), Mode::Exclusive);
    lock.enqueue(ClaimNo(3), Mode::Exclusive);
    lock.give_back(ClaimNo(1));
    let next = lock.next_in_line(&settings, now).next();
    assert_eq!((lock.used(now), next), (1, None));
    lock.give_back(ClaimNo(2));
    let next = lock.next_in_line(&settings, now).next();
    assert_eq!(next, Some(ClaimNo(3)));
}
