//! Database time without asking the database: the last measured offset plus this machine's
//! monotonic clock.
//!
//! Time never goes back: when a measurement says so, the clock stands still until time has caught
//! up. Times before the first measurement are excepted: this machine's own clock may be wrong by
//! days.

use crate::core::Time;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A clock; clones share its state.
#[derive(Clone, Debug)]
pub struct Clock(Arc<State>);

#[derive(Debug)]
struct State {
    base: Instant,
    /// Database time at `base`, in microseconds.
    offset_us: AtomicI64,
    /// The latest time returned since the first measurement.
    last_us: AtomicI64,
    measured: AtomicBool,
}

impl Clock {
    /// Starts with the time of this machine, until the first measurement.
    pub fn new() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Clock::starting_at(i64::try_from(wall.as_micros()).unwrap_or_default())
    }

    fn starting_at(wall_us: i64) -> Self {
        Clock(Arc::new(State {
            base: Instant::now(),
            offset_us: AtomicI64::new(wall_us),
            last_us: AtomicI64::new(i64::MIN),
            measured: AtomicBool::new(false),
        }))
    }

    /// The time of the database.
    pub fn now(&self) -> Time {
        let measured = self.0.measured.load(Ordering::Acquire);
        let now_us = self.0.offset_us.load(Ordering::Relaxed) + self.elapsed_us();
        if !measured {
            return Time(now_us);
        }
        Time(
            self.0
                .last_us
                .fetch_max(now_us, Ordering::Relaxed)
                .max(now_us),
        )
    }

    /// Applies a measurement: the time of the database is `now`.
    pub fn set(&self, now: Time) {
        self.0
            .offset_us
            .store(now.0.saturating_sub(self.elapsed_us()), Ordering::Relaxed);
        self.0.measured.store(true, Ordering::Release);
    }

    /// Applies a measurement that `took` some time: the time of the database was `now` at some
    /// point between its start and its end. A clock that agrees with that is left alone, so that a
    /// slow answer does not hold time up.
    pub fn correct(&self, now: Time, took: Duration) {
        let elapsed_us = self.elapsed_us();
        let estimate = self
            .0
            .offset_us
            .load(Ordering::Relaxed)
            .saturating_add(elapsed_us);
        let right = estimate.clamp(now.0, (now + took).0);
        if right != estimate {
            self.0
                .offset_us
                .store(right.saturating_sub(elapsed_us), Ordering::Relaxed);
        }
        self.0.measured.store(true, Ordering::Release);
    }

    fn elapsed_us(&self) -> i64 {
        self.0.base.elapsed().as_micros() as i64
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_forward_and_never_back() {
        let clock = Clock::new();
        let before = clock.now();
        clock.set(before);
        clock.set(before + Duration::from_secs(3600));
        let ahead = clock.clone().now();
        assert!(ahead.since(before) >= Duration::from_secs(3600));
        clock.set(before);
        assert_eq!(clock.now(), ahead);
    }

    #[test]
    fn a_machine_whose_own_clock_is_a_day_ahead_is_corrected_by_the_first_measurement() {
        let day = Duration::from_secs(24 * 3600);
        let database = Time(1_800_000_000_000_000);
        for measure in [
            |clock: &Clock, now| clock.set(now),
            |clock: &Clock, now| clock.correct(now, Duration::ZERO),
        ] {
            let clock = Clock::starting_at((database + day).0);
            assert!(clock.now() >= database + day);
            measure(&clock, database);
            assert!(clock.now().since(database) < day / 2);
        }
    }

    #[test]
    fn a_slow_answer_does_not_hold_time_up_and_a_wrong_clock_is_corrected() {
        let (clock, hour) = (Clock::new(), Duration::from_secs(3600));
        let before = clock.now();
        clock.correct(Time(before.0 - 5_000_000), Duration::from_secs(3600));
        assert!(clock.now().since(before) < Duration::from_secs(1800));
        clock.correct(before + hour, Duration::ZERO);
        assert!(clock.now().since(before) >= hour);
    }
}
