//! Waits between tries: longer after each failure, with jitter, so that many do not come back at
//! once.
//!
//! Retries of tasks are a rule of the core and not made here; nor is the resending of a batch,
//! which the simulator runs.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Doubling waits within two bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) const fn new(min: Duration, max: Duration) -> Self {
        Backoff { min, max }
    }

    /// The wait after so many earlier failures: `min`, doubled for each up to `max`, and half to
    /// all of that at random.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        let full = self
            .min
            .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
            .min(self.max);
        jittered(full)
    }
}

/// Half to all of `wait`, at random.
pub(crate) fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) as u32;
    wait / 2 + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_keep_half_of_it() {
        let ms = Duration::from_millis;
        let backoff = Backoff::new(ms(100), ms(1_000));
        for (failures, full) in [(0, 100), (1, 200), (3, 800), (4, 1_000), (99, 1_000)] {
            for _ in 0..100 {
                assert!((ms(full / 2)..=ms(full)).contains(&backoff.delay(failures)));
            }
        }
    }
}
