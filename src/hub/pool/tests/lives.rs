//! Lives of the real pool, real desks, the real loop and its core, in virtual steps: three processes that own the shard in
//! turn, die, sleep and come back, sessions that break and lose what was on its way, executors that are shut out and fenced.
//!
//! `POOL_LIVES=n SEED=s cargo test --release --lib pool -- --nocapture lives` lives those of the seeds s, s + 1, …; a seed
//! determines its life. What is judged is in `rules`.

pub(crate) mod executor;
pub(crate) mod journal;
pub(crate) mod outside;
pub(crate) mod owner;
pub(crate) mod roll;
pub(crate) mod rules;
pub(crate) mod session;
pub(crate) mod world;

#[path = "../../../../tests/sim/rng.rs"]
#[allow(dead_code)]
mod rng;

use std::{env, panic};

/// Lives in an ordinary test.
const LIVES: u64 = 200;
/// Steps in which things go wrong.
const STEPS: usize = 1_500;

#[test]
fn lives_of_pool_and_desks_break_no_promise() {
    let number = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let (first, count) = (
        number("SEED").unwrap_or(1),
        number("POOL_LIVES").unwrap_or(LIVES),
    );
    for seed in first..first + count {
        let life = panic::catch_unwind(|| world::World::new(seed).live(STEPS));
        if let Err(broken) = life {
            println!("to live it again: POOL_LIVES=1 SEED={seed}");
            panic::resume_unwind(broken);
        }
    }
}
