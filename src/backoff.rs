//! Waiting longer after each failure, with jitter, so that many do not come back at once.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// 100 ms, doubled up to 10 s, give or take a fifth.
pub(crate) fn backoff(failures: u32) -> Duration {
    let full_ms = (100 << failures.min(7)).min(10_000);
    let random = RandomState::new().hash_one(failures) % 400;
    Duration::from_millis(full_ms * (800 + random) / 1000)
}
