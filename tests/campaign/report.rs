//! What a campaign came to, for people; and whether it proves anything.

use crate::{
    check::{Facts, Fault, Verdict},
    fixture::Fixture,
};
use std::sync::atomic::Ordering::Relaxed;

/// Less than this, and nothing was attacked.
const LEAST_OPERATIONS: u64 = 1_000;

/// What a run proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Result {
    /// All promises held under faults that bit.
    Green,
    /// A promise was broken.
    Broken,
    /// Nothing is proved, because of this.
    Invalid(String),
}

/// Prints what happened, and judges.
pub(crate) fn report(fixture: &Fixture, facts: &Facts, verdict: &Verdict, given_up: u64) -> Result {
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
    promises(verdict);
    let cut: u64 = fixture
        .servers
        .iter()
        .map(|server| server.proxy.counters().acknowledgements_cut.load(Relaxed))
        .sum();
    let says = |text: &str| {
        fixture
            .servers
            .iter()
            .map(|server| server.lines_with(text))
            .sum::<u64>()
    };
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
    println!(
        "batches of unknown fate {}",
        says("the fate of a batch is unknown")
    );
    println!(
        "commits without acknowledgement {cut}, recognised when sent again {}",
        says("had committed")
    );
    let ended: u64 = fixture
        .servers
        .iter()
        .map(|server| server.ended_by_itself.load(Relaxed))
        .sum();
    println!("servers that ended by themselves {ended}; calls given up {given_up}");
    broken(verdict);
    if !verdict.violations.is_empty() {
        return Result::Broken;
    }
    invalid(facts, verdict).map_or(Result::Green, Result::Invalid)
}

/// What was held against each promise.
pub(crate) fn promises(verdict: &Verdict) {
    println!("promises (things held against them):");
    for (promise, count) in &verdict.checked {
        println!("  {promise:50} {count:9}");
    }
}

/// What broke which promise.
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
    let toothless = facts
        .faults
        .iter()
        .find(|(_, faults)| 10 * bit(faults) < 9 * faults.len());
    if let Some((kind, faults)) = toothless {
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
