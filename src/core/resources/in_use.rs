//! A resource that is held or waited for: what is left of it, and who may have it next.

use super::{
    claim_queue::{Asked, ClaimQueue},
    missing::{Missing, PARTS},
};
use crate::core::{ClaimNo, Mode, Refill, ResourceSettings, Time, Token};
use std::{collections::BTreeMap, time::Duration};

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
    /// Who waits.
    pub queue: ClaimQueue,
    /// What was missing after the last grant, if permits come back by time.
    pub missing: Option<Missing>,
    /// When to look at it, because enough has come back; [`Time::NEVER`]: no timer is set.
    pub wake: Time,
}

impl InUse {
    pub(crate) fn new(settings: ResourceSettings) -> Self {
        InUse {
            settings,
            held: BTreeMap::new(),
            used: 0,
            writers: 0,
            queue: ClaimQueue::default(),
            missing: None,
            wake: Time::NEVER,
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

    /// Whether it is the turn of somebody at this place in line: no earlier one would have to wait
    /// for that. An earlier one that waits for something else besides has its permits kept for it.
    /// Where readers are preferred they pass the writers.
    pub(super) fn has_turn(
        &self,
        settings: &ResourceSettings,
        now: Time,
        (no, mode): (ClaimNo, Mode),
    ) -> bool {
        let room = self.room(settings, now);
        if !room.admits(Asked::default(), mode) {
            return false;
        }
        let ahead = self.queue.ahead(no);
        let passes = settings.reader_preferred && matches!(mode, Mode::Shared(_));
        let writers = if passes { 0 } else { ahead.writers };
        room.admits(Asked { writers, ..ahead }, mode)
    }

    /// The first claim that is parked here and has its turn.
    pub(super) fn next_parked(&self, settings: &ResourceSettings, now: Time) -> Option<ClaimNo> {
        let preferred = settings.reader_preferred;
        let reader = self.queue.first_parked_reader().filter(|_| preferred);
        let mut first = reader.into_iter().chain(self.queue.first_parked());
        first.find(|no| {
            let mode = self.queue.mode_of(*no);
            mode.is_some_and(|mode| self.has_turn(settings, now, (*no, mode)))
        })
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
        let room = self.room(&self.settings, now);
        if room.is_closed {
            return missing.less_at(0, refill);
        }
        // As some of it is missing, nobody has more than is left, however much he asks for.
        let lacking = |asked| room.used_with(asked).saturating_sub(room.capacity);
        let first = self.queue.first_too_much(|asked| lacking(asked) > 0);
        missing.less_at(parts.saturating_sub(first.map_or(parts, lacking)), refill)
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

    /// Whether there is room for somebody behind these, who have theirs: what each of them leaves
    /// is less than what was there before.
    fn admits(&self, ahead: Asked, mode: Mode) -> bool {
        if self.all.is_none() && ahead.writers > 0 {
            return false;
        }
        let used = self.used_with(ahead);
        match self.parts_of(mode) {
            _ if self.is_closed => false,
            None => used == 0,
            Some(parts) => used == 0 || used.saturating_add(parts) <= self.capacity,
        }
    }

    /// What is in use once these have theirs. What refills is never held as a whole.
    fn used_with(&self, ahead: Asked) -> u64 {
        let all = u64::from(self.all.unwrap_or(0));
        let permits = ahead
            .permits
            .saturating_add(ahead.writers.saturating_mul(all));
        self.used.saturating_add(permits.saturating_mul(PARTS))
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

#[cfg(test)]
mod tests {
    use super::InUse;
    use crate::core::{
        ClaimNo, Mode, Refill, ResourceSettings, Time, scheduler::queue::step_counter::steps_of,
    };
    use std::time::Duration;

    const NOW: Time = Time(0);

    #[test]
    fn a_writer_that_was_lost_gives_back_nothing_of_the_one_after_it() {
        let settings = ResourceSettings {
            capacity: 1,
            ..ResourceSettings::default()
        };
        let mut lock = InUse::new(settings);
        lock.hold(ClaimNo(1), Mode::Exclusive);
        lock.hold(ClaimNo(2), Mode::Exclusive);
        lock.queue.push(ClaimNo(3), Mode::Exclusive);
        lock.give_back(ClaimNo(1));
        let next = (ClaimNo(3), Mode::Exclusive);
        let has_turn = lock.has_turn(&settings, NOW, next);
        assert_eq!((lock.used(NOW), has_turn), (1, false));
        lock.give_back(ClaimNo(2));
        assert!(lock.has_turn(&settings, NOW, next));
    }

    /// Those in line who count, up to the first one for whom the earlier ones leave no room.
    fn reached(in_use: &InUse, counts: impl Fn(Mode) -> bool) -> Vec<ClaimNo> {
        let mut room = in_use.room(&in_use.settings, NOW);
        let line = in_use.queue.iter().filter(|(_, mode)| counts(*mode));
        let reached = line.take_while(|(_, mode)| room.take(*mode));
        reached.map(|(no, _)| no).collect()
    }

    #[test]
    fn what_those_ahead_ask_for_says_whose_turn_it_is() {
        let [one, two, three] = [1, 2, 3].map(Mode::Shared);
        let modes = [one, two, three, Mode::Exclusive];
        let refill = Refill {
            permits: 1,
            period: Duration::from_secs(1),
        };
        for case in 0..4_usize.pow(4) * 5 * 3 * 4 {
            let mut rest = case;
            let mut digit = |base: usize| {
                let digit = rest % base;
                rest /= base;
                digit
            };
            let line = [(); 4].map(|()| modes[digit(4)]);
            let (capacity, held, sort) = (digit(5) as u32, digit(3) as i64, digit(4));
            let settings = ResourceSettings {
                capacity,
                refill: (sort % 2 == 1).then_some(refill),
                reader_preferred: sort >= 2,
                ..ResourceSettings::default()
            };
            let mut in_use = InUse::new(settings);
            (0..held).for_each(|no| in_use.hold(ClaimNo(no), Mode::Shared(1)));
            for (no, mode) in (10..).map(ClaimNo).zip(line) {
                in_use.queue.push(no, mode);
            }
            let mut expected = reached(&in_use, |_| true);
            if settings.reader_preferred {
                expected.extend(reached(&in_use, |mode| mode != Mode::Exclusive));
            }
            for one in in_use.queue.iter() {
                let has_turn = in_use.has_turn(&settings, NOW, one);
                assert_eq!(has_turn, expected.contains(&one.0), "case {case}: {one:?}");
            }
        }
    }

    #[test]
    fn who_has_to_wait_for_a_rate_is_found_without_a_look_at_everybody() {
        let second = Duration::from_secs(1);
        for (capacity, lacks) in [(9_000, 2), (100, 1), (30_000, 0)] {
            let mut in_use = InUse::new(ResourceSettings {
                capacity,
                refill: Some(Refill {
                    permits: 1,
                    period: second,
                }),
                ..ResourceSettings::default()
            });
            in_use.take(NOW, Default::default(), Mode::Shared(5));
            let line = (1..10_000).map(ClaimNo);
            line.clone()
                .for_each(|no| in_use.queue.push(no, Mode::Shared(3)));
            // The first ones of their buckets, too.
            let leaving = line.filter(|no| no.0 % 4 == 1);
            leaving.for_each(|no| in_use.queue.remove(no));
            let mut at = Time::NEVER;
            let steps = steps_of(|| at = in_use.refilled_at(NOW));
            // If nobody has to wait, everything comes back first.
            let back = if lacks == 0 { 5 } else { lacks };
            assert_eq!(at, NOW + second * back, "{capacity}");
            assert!(steps < 400, "{steps} steps");
        }
    }
}
