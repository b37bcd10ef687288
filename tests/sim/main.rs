//! Simulations of a coordinator, full of crashes, in virtual time: the real loop and core, a model
//! journal that loses acknowledgements and refuses batches, model executors that die, model callers
//! that try again.
//!
//! Every schedule follows from its seed. `SCHEDULES=n SEED=s cargo test --release --test sim --
//! --nocapture simulate` runs the seeds s, s + 1, …; `SCHEDULES=1 SEED=s` replays one. What breaks
//! a rule is shrunk: `STEPS=n WITHOUT=m` besides replays the shortest scenario that still does.

mod callers;
mod checks;
mod claimants;
mod contention;
mod executors;
mod fixtures;
mod job_keepers;
mod journal;
mod oracle;
mod prefetch;
mod recover;
mod register;
mod replicas;
mod rng;
mod scenario;
mod tables;
mod world;
mod zombie;

use scenario::Scenario;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use world::Summary;

/// A scenario is many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const THREADS: u64 = 2;
/// One of so many seeds makes a scenario of several replicas, the others one of a single one.
static REPLICAS_EVERY: LazyLock<u64> = LazyLock::new(|| from_environment("REPLICAS_EVERY", 4));
/// Scenarios before which a contention of schedulers is judged.
const EACH_CONTENTION: u64 = 32;
/// Seeds printed in full when rules are broken.
const REPORTED: usize = 10;

/// Runs the seeds `seed .. seed + schedules`; returns the violations by seed, and the seconds that
/// were simulated in all.
fn simulate(schedules: u64, seed: u64) -> (Vec<(u64, String)>, u64) {
    let (next, seconds) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let (fixtures, mut violations) = (fixtures::Fixtures::new(), Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= schedules {
                return violations;
            }
            let seed = seed.wrapping_add(at);
            match simulated(scenario(seed), &fixtures) {
                Ok(summary) => drop(seconds.fetch_add(summary.time.as_secs(), Ordering::Relaxed)),
                Err(violation) => violations.push((seed, violation)),
            }
        }
    };
    let violations = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(schedules))
            .map(|_| scope.spawn(work))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a thread of the simulator"))
            .collect()
    });
    (violations, seconds.into_inner())
}

/// What happens in a scenario, or what it breaks.
fn simulated(scenario: Scenario, fixtures: &fixtures::Fixtures) -> Result<Summary, String> {
    let world = match scenario.seed % *REPLICAS_EVERY {
        0 => |scenario, fixtures: &fixtures::Fixtures| {
            replicas::simulate(scenario, fixtures.with_markers())
        },
        _ => world::simulate,
    };
    let run = || {
        if scenario.seed.is_multiple_of(EACH_CONTENTION) {
            contention::shares_follow_weights(scenario.seed, fixtures);
        }
        world(scenario, fixtures)
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| message(panic.as_ref()))
}

/// A whole scenario, or the part of it that is asked for.
fn scenario(seed: u64) -> Scenario {
    let (steps, without) = (
        from_environment("STEPS", scenario::STEPS),
        from_environment("WITHOUT", 0),
    );
    Scenario {
        seed,
        steps,
        without,
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".into())
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number"))
    })
}

#[test]
fn simulate_crashes_and_keep_every_promise() {
    let (schedules, seed) = (
        from_environment("SCHEDULES", 400),
        from_environment("SEED", 1),
    );
    // One seed alone is a replay: its panic may speak for itself.
    if schedules > 1 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let begun = Instant::now();
    let (violations, seconds) = simulate(schedules, seed);
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{schedules} schedules from seed {seed} in {took:.0} s: {:.0} a second, {:.0} simulated hours a minute, {} violations",
        schedules as f64 / took,
        seconds as f64 / 60.0 / took,
        violations.len()
    );
    let fixtures = fixtures::Fixtures::new();
    for (seed, violation) in violations.iter().take(REPORTED) {
        let Scenario { steps, without, .. } =
            scenario(*seed).shrunk(|scenario| simulated(scenario, &fixtures).is_err());
        println!("  SEED={seed} (STEPS={steps} WITHOUT={without}): {violation}");
    }
    assert!(
        violations.is_empty(),
        "replay one with SCHEDULES=1 SEED={}",
        violations[0].0
    );
}

#[test]
fn a_seed_always_leads_to_the_same_end() {
    let fixtures = fixtures::Fixtures::new();
    for seed in 0..20 {
        for run in [world::simulate, replicas::simulate] {
            let scenario = Scenario::of(seed);
            assert_eq!(run(scenario, &fixtures), run(scenario, &fixtures));
        }
    }
}
