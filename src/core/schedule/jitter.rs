//! Jitter: each job has its own delay, which never changes, so that jobs of one due time are spread
//! and the distance between two runs of a job stays what its schedule says.

use std::time::Duration;

/// The delay of the job of this name: 0 to `jitter`, in whole milliseconds.
///
/// The hash (FNV-1a, with a final mix) is part of what users rely on: a restart, another replica or
/// a later version must not move a job.
pub(super) fn delay(name: &str, jitter: Duration) -> Duration {
    let delays = jitter.as_millis() + 1;
    let delay = (u128::from(hash(name)) * delays) >> 64;
    Duration::from_millis(delay as u64)
}

fn hash(name: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    // Without it, names that differ in their last letter only would hardly differ in the high bits.
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
