//! Database time without asking the database: the last measured offset plus this machine's
//! monotonic clock, which goes on while the machine is suspended.
//!
//! From the first measurement on, time runs at least half and at most twice as fast as it really
//! passes, whatever the database's clock does: a clock that steps is followed gradually. So nothing
//! that waits for a time, a retry or a limit, is stopped by a step back or ended by one forward.
//! Two times are excepted: that before the first measurement, since this machine's own clock may be
//! wrong by days, and that of a replica that goes by the time of its owner from then on.

use crate::core::Time;
use nix::time::{ClockId, clock_gettime};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A difference that is no drift any more: somebody has set a clock.
const STEP: Duration = Duration::from_secs(5);

/// A clock; clones share its state.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// When it was made, by the machine.
    base: Duration,
    time: Mutex<Slewed>,
}

/// Time that follows another clock gradually. All in microseconds.
#[derive(Clone, Copy, Debug)]
struct Slewed {
    /// The time at the last look.
    time: i64,
    /// When that was, since the clock was made.
    looked: i64,
    /// By how much the database is ahead; negative: behind.
    ahead: i64,
    measured: bool,
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
        Clock(Arc::new(Shared {
            base: uptime(),
            time: Mutex::new(Slewed {
                time: wall_us,
                looked: 0,
                ahead: 0,
                measured: false,
            }),
        }))
    }

    /// The time of the service.
    pub fn now(&self) -> Time {
        self.now_and_lead().0
    }

    /// The time of the service, and by how many microseconds it leads that which has passed since
    /// the clock was made.
    pub fn now_and_lead(&self) -> (Time, i64) {
        let mut time = self.lock();
        let elapsed = self.elapsed_us();
        let now = time.at(elapsed);
        (Time(now), now - elapsed)
    }

    /// Applies a measurement that `took` some time: the time of the database was `now` at some
    /// point between its start and its end. A clock that agrees with that is left alone, so that a
    /// slow answer does not hold time up.
    pub fn correct(&self, now: Time, took: Duration) {
        let step = self.lock().correct(self.elapsed_us(), now, took);
        if step.unsigned_abs() > STEP.as_micros() as u64 {
            tracing::error!(
                seconds = step / 1_000_000,
                "the clock of the coordination database was set; the service follows it gradually"
            );
        }
    }

    /// Goes by the time of the replica that owns the shard, when it is another one: the service has
    /// one time, also while its owner follows a clock that was set and a replica is started. A
    /// process that was stopped reads afterwards what the owner has said meanwhile: a time that is
    /// behind ours counts only if it is further behind than the message may be late.
    pub(crate) fn follow(&self, owner: Time, delay: &mut Delay) {
        let step = self.lock().hear(self.elapsed_us(), owner, delay);
        if step != 0 {
            tracing::warn!(
                seconds = step / 1_000_000,
                "the time of the service is that of its owner, not that of its database"
            );
        }
    }

    /// By how many seconds the clock of the database is ahead of the time of the service; negative:
    /// behind.
    pub fn offset(&self) -> f64 {
        self.lock().ahead as f64 / 1e6
    }

    fn lock(&self) -> MutexGuard<'_, Slewed> {
        self.0.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed_us(&self) -> i64 {
        uptime().saturating_sub(self.0.base).as_micros() as i64
    }
}

/// Since the machine was started, suspended or not: `Instant` stands still while it is, and time
/// would have to be made up for as long again.
pub(crate) fn uptime() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    clock_gettime(CLOCK).map_or(Duration::ZERO, Duration::from)
}

/// How late the messages of one connection are, at most, when they are read. All by the time of
/// the service: what owners say runs at another speed than the uptime while a step is made up for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    /// When the last message was read, or before the first one the connection begun.
    read: Time,
    /// The time that the last message said.
    said: Option<Time>,
    /// How late the last message was, at most.
    late: Duration,
}

impl Delay {
    /// Of a connection that begins now.
    pub(crate) fn new(clock: &Clock) -> Self {
        Delay {
            read: clock.now(),
            said: None,
            late: Duration::ZERO,
        }
    }

    /// How late a message is that says this time and is read `at` that one. The delay grows by the
    /// time since the last message was read, and shrinks by the time between the two messages.
    fn read(&mut self, at: Time, said: Time) -> Duration {
        let passed = at.since(self.read);
        let between = self.said.map_or(Duration::ZERO, |last| said.since(last));
        *self = Delay {
            read: at,
            said: Some(said),
            late: (self.late + passed).saturating_sub(between),
        };
        self.late
    }
}

impl Slewed {
    /// The time when `elapsed` has passed since the clock was made.
    fn at(&mut self, elapsed: i64) -> i64 {
        let passed = (elapsed - self.looked).max(0);
        let slew = if self.ahead >= 0 {
            self.ahead.min(passed)
        } else {
            self.ahead.max(-(passed / 2))
        };
        // A step back that is still to be made up is not forgotten by looking often.
        let counted = if slew == 0 && self.ahead < 0 {
            0
        } else {
            passed
        };
        self.looked += counted;
        self.time += counted + slew;
        self.ahead -= slew;
        self.time
    }

    /// By how much the measurement differs from what was known.
    fn correct(&mut self, elapsed: i64, now: Time, took: Duration) -> i64 {
        let time = self.at(elapsed);
        let known = time.saturating_add(self.ahead);
        let right = known.clamp(now.0, (now + took).0);
        let step = right.saturating_sub(known);
        if self.measured {
            self.ahead = self.ahead.saturating_add(step);
            return step;
        }
        (self.time, self.measured) = (right, true);
        0
    }

    /// Follows the owner, which has said this time on a connection; returns the difference that was
    /// taken over.
    fn hear(&mut self, elapsed: i64, owner: Time, delay: &mut Delay) -> i64 {
        let late = delay.read(Time(self.at(elapsed)), owner);
        let step = self.follow(elapsed, owner, late);
        if step != 0 {
            // The step itself has taken no time.
            delay.read = owner;
        }
        step
    }

    /// Takes over the time of the owner, said at most `late` ago, if the two differ by more than
    /// clocks do; returns the difference.
    fn follow(&mut self, elapsed: i64, owner: Time, late: Duration) -> i64 {
        let step = owner.0.saturating_sub(self.at(elapsed));
        let may_differ = match step < 0 {
            true => STEP + late,
            false => STEP,
        };
        if u128::from(step.unsigned_abs()) <= may_differ.as_micros() {
            return 0;
        }
        self.time = owner.0;
        self.looked = elapsed;
        self.ahead = self.ahead.saturating_sub(step);
        step
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
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const DATABASE: Time = Time(1_800_000_000_000_000);

    /// A clock that has been measured once.
    fn measured() -> Slewed {
        let mut clock = Slewed {
            time: 0,
            looked: 0,
            ahead: 0,
            measured: false,
        };
        clock.correct(0, DATABASE, Duration::ZERO);
        clock
    }

    /// Of a connection that began with it.
    fn delay() -> Delay {
        Delay {
            read: DATABASE,
            said: None,
            late: Duration::ZERO,
        }
    }

    #[test]
    fn a_step_is_made_up_for_at_half_or_double_speed_and_then_forgotten() {
        for (step, after) in [(HOUR, HOUR), (-HOUR, 2 * HOUR)] {
            let mut clock = measured();
            clock.correct(0, Time(DATABASE.0 + step), Duration::ZERO);
            assert_eq!(clock.at(0), DATABASE.0, "nothing jumps");
            assert_eq!(clock.at(after), DATABASE.0 + step + after);
            assert_eq!(clock.at(after + HOUR), DATABASE.0 + step + after + HOUR);
        }
    }

    #[test]
    fn a_machine_whose_own_clock_is_a_day_ahead_is_corrected_by_the_first_measurement() {
        let clock = Clock::starting_at((DATABASE + DAY).0);
        assert!(clock.now() >= DATABASE + DAY);
        clock.correct(DATABASE, Duration::ZERO);
        assert!(clock.now().since(DATABASE) < DAY / 2);
    }

    #[test]
    fn a_replica_started_by_a_clock_that_was_set_has_the_time_of_the_owner() {
        let (mut owner, mut started) = (measured(), measured());
        let set = Time(DATABASE.0 + 24 * HOUR);
        owner.correct(0, set, Duration::ZERO);
        started.correct(0, set, Duration::ZERO);
        started.time = set.0;
        started.ahead = 0;
        let step = started.follow(0, Time(owner.at(0)), Duration::ZERO);
        assert_eq!(step, -24 * HOUR);
        for elapsed in [0, HOUR, 30 * HOUR] {
            assert_eq!(started.at(elapsed), owner.at(elapsed));
        }
        let again = started.follow(30 * HOUR, Time(owner.at(30 * HOUR)), Duration::ZERO);
        assert_eq!(again, 0);
    }

    #[test]
    fn what_a_replica_was_told_while_it_was_stopped_takes_it_back_to_no_earlier_time() {
        let (mut replica, mut delay) = (measured(), delay());
        // Said each second, and read at once, but while it was stopped from second 2 to 62.
        let mut reads = |said: i64, read: i64| {
            let owner = Time(DATABASE.0 + said * SECOND);
            let step = replica.hear(read * SECOND, owner, &mut delay);
            (delay.late.as_secs() as i64, step)
        };
        for second in 1..=2 {
            assert_eq!(reads(second, second), (1, 0));
        }
        for said in 3..=8 {
            assert_eq!(reads(said, 62), (63 - said, 0));
        }
        for second in 63..=65 {
            assert_eq!(reads(second, second), (1, 0));
        }
    }

    #[test]
    fn the_same_holds_while_both_make_up_for_a_step() {
        for ahead in [HOUR, -HOUR] {
            let (mut owner, mut replica, mut delay) = (measured(), measured(), delay());
            (owner.ahead, replica.ahead) = (ahead, ahead);
            for said in 1..=600 {
                let read = if (3..22).contains(&said) { 22 } else { said };
                let said = Time(owner.at(said * SECOND));
                assert_eq!(replica.hear(read * SECOND, said, &mut delay), 0, "{read}");
            }
            assert!(delay.late.as_secs() <= 2, "{delay:?}");
        }
    }

    #[test]
    fn no_message_is_late_for_a_step_that_was_taken_over() {
        for apart in [100 * SECOND, -100 * SECOND] {
            let (mut owner, mut replica, mut delay) = (measured(), measured(), delay());
            (owner.time, owner.ahead) = (owner.time + apart, -apart);
            for second in 1..=10 {
                let said = Time(owner.at(second * SECOND));
                let step = replica.hear(second * SECOND, said, &mut delay);
                assert_eq!(step != 0, second == 1);
                assert_eq!(delay.late.as_secs(), 1);
            }
        }
    }

    #[test]
    fn who_is_ahead_of_the_owner_by_more_than_it_may_have_been_late_goes_back() {
        let late = Duration::from_secs(60);
        for (ahead, step) in [(64, 0), (66, -66), (-4, 0), (-6, 6)] {
            let owner = Time(DATABASE.0 - ahead * 1_000_000);
            assert_eq!(measured().follow(0, owner, late), step * 1_000_000);
        }
    }

    #[test]
    fn a_slow_answer_is_no_step() {
        let mut clock = measured();
        let took = Duration::from_secs(3600);
        assert_eq!(clock.correct(HOUR, DATABASE, took), 0);
        assert_eq!(clock.at(2 * HOUR), DATABASE.0 + 2 * HOUR);
    }

    proptest! {
        /// Looks at the clock after pauses, with measurements that differ from the right time.
        #[test]
        fn time_runs_at_least_half_and_at_most_twice_as_fast_whatever_is_measured(
            looks in prop::collection::vec((0i64..5_000_000, -HOUR * 500..HOUR * 500), 1..200),
        ) {
            let mut clock = measured();
            let (mut elapsed, mut before) = (0, clock.at(0));
            for (pause, wrong_by) in looks {
                elapsed += pause;
                if wrong_by % 3 == 0 {
                    let now = Time(DATABASE.0 + elapsed + wrong_by);
                    clock.correct(elapsed, now, Duration::ZERO);
                }
                let now = clock.at(elapsed);
                prop_assert!(now - before >= pause / 2 - 1, "{pause} µs took {}", now - before);
                prop_assert!(now - before <= 2 * pause + 1, "{pause} µs took {}", now - before);
                before = now;
            }
        }
    }
}
