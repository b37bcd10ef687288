//! The result of a campaign for people, and whether it proves anything.

use crate::{
    check::{Facts, Fault, Verdict},
    fixture::Fixture,
    server::Server,
};
use std::sync::atomic::Ordering::Relaxed;

/// A run with fewer checks proves nothing.
const LEAST_OPERATIONS: u64 = 1_000;

/// What a run proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Result {
    /// All promises held under faults that bit.
    Green,
    /// A promise was broken.
    Broken,
    /// Nothing is proved, for this reason.
    Invalid(String),
}

/// Prints what happened, and returns what it proves.
pub(crate) fn report(fixture: &Fixture, facts: &Facts, verdict: &Verdict, given_up: u64) -> Result {
    faults(facts);
    promises(verdict);
    load(facts, verdict);
    servers(fixture, given_up);
    broken(verdict);
    if !verdict.violations.is_empty() {
        return Result::Broken;
    }
    invalid(facts, verdict).map_or(Result::Green, Result::Invalid)
}

fn faults(facts: &Facts) {
    println!(
        "faults (times it bit / times injected, bites; longest silence of the streams: median, longest, ms):"
    );
    for (kind, faults) in &facts.faults {
        let bit = faults.iter().filter(|fault| fault.bites > 0).count();
        let bites: u64 = faults.iter().map(|fault| fault.bites).sum();
        let mut silences: Vec<i64> = faults
            .iter()
            .map(|fault| facts.silence(fault) / 1000)
            .collect();
        silences.sort_unstable();
        let (median, longest) = (silences[silences.len() / 2], silences[silences.len() - 1]);
        println!(
            "  {kind:18} {bit:4} / {:4} {bites:8} {median:8} {longest:8}",
            faults.len()
        );
    }
}

fn load(facts: &Facts, verdict: &Verdict) {
    let tasks: usize = facts.log.values().map(Vec::len).sum();
    println!(
        "conversations {}, calls {}, streams {}, tasks {tasks}",
        facts.limits.len(),
        facts.requests.len(),
        facts.streams.len()
    );
    println!("operations checked {}", verdict.operations());
    println!("ownerships of the shard {}", facts.batches.len());
    println!(
        "attempts lost and fenced {}",
        facts.attempts.get(&3).copied().unwrap_or(0)
    );
}

fn servers(fixture: &Fixture, given_up: u64) {
    let sum = |count: &dyn Fn(&Server) -> u64| fixture.servers.iter().map(count).sum::<u64>();
    let cut = sum(&|server| server.proxy.counters().acknowledgements_cut.load(Relaxed));
    let unknown = sum(&|server| server.lines_with("of a batch is unknown"));
    let recognised = sum(&|server| server.lines_with("had committed"));
    let ended = sum(&|server| server.ended_by_itself.load(Relaxed));
    println!("batches of unknown outcome {unknown}");
    println!("commits without acknowledgement {cut}, recognised when sent again {recognised}");
    println!("servers that ended by themselves {ended}; calls given up {given_up}");
}

/// Prints how often each promise was checked.
pub(crate) fn promises(verdict: &Verdict) {
    println!("promises (checks of each):");
    for (promise, count) in &verdict.checked {
        println!("  {promise:50} {count:9}");
    }
}

/// Prints the violations.
pub(crate) fn broken(verdict: &Verdict) {
    for (promise, violations) in &verdict.violations {
        println!("BROKEN: {promise}");
        violations
            .iter()
            .for_each(|violation| println!("  {violation}"));
    }
}

/// Why a run without a violation proves nothing.
fn invalid(facts: &Facts, verdict: &Verdict) -> Option<String> {
    let bit = |faults: &[Fault]| faults.iter().filter(|fault| fault.bites > 0).count();
    let without_effect = facts
        .faults
        .iter()
        .find(|(_, faults)| 10 * bit(faults) < 9 * faults.len());
    if let Some((kind, faults)) = without_effect {
        return Some(format!(
            "only {} of {} faults of the kind {kind} bit",
            bit(faults),
            faults.len()
        ));
    }
    if facts.faults.is_empty() {
        return Some("nothing went wrong".into());
    }
    let few = verdict.checked.iter().find(|(_, count)| **count == 0);
    if verdict.checked.len() < 15 || few.is_some() {
        return Some("a promise was not put to the test".into());
    }
    (verdict.operations() < LEAST_OPERATIONS)
        .then(|| format!("only {} operations", verdict.operations()))
}
