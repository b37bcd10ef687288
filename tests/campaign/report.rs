//! The result of a campaign for people, and whether it proves anything.

use crate::{
    check::{Facts, Fault, Verdict, is_undecided},
    fixture::Fixture,
    plan::Kind,
    proxy::Purpose,
    server::{LEASE, Server},
};
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed, time::Duration};

/// A run with fewer checks proves nothing.
const LEAST_OPERATIONS: u64 = 1_000;
/// A run of so many minutes proves nothing about a kind of fault that did not bite in it.
const LONG_RUN_MINUTES: f64 = 10.0;

/// What a run proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// All promises held under faults that bit.
    Green,
    /// These promises were broken, each with its first violation.
    Broken(String),
    /// Nothing is proved, for this reason.
    Invalid(String),
}

/// Prints what happened.
pub(crate) fn report(fixture: &Fixture, facts: &Facts, verdict: &Verdict) {
    faults(facts);
    crashes(facts);
    silenced(facts);
    promises(verdict);
    load(facts, verdict);
    servers(fixture);
    broken(verdict);
    let seldom = toothless(facts, 9);
    seldom.iter().for_each(|kind| println!("SELDOM: {kind}"));
}

/// What a run of so many minutes proves that was to show these kinds of faults.
pub(crate) fn result(facts: &Facts, verdict: &Verdict, minutes: f64, named: &[Kind]) -> Proof {
    if !verdict.violations.is_empty() {
        return Proof::Broken(first_violations(verdict));
    }
    let toothless = toothless(facts, 5).into_iter().next();
    crashed(facts)
        .or_else(|| toothless.filter(|_| minutes >= LONG_RUN_MINUTES))
        .or_else(|| without_effect(facts, named))
        .or_else(|| invalid(facts, verdict))
        .map_or(Proof::Green, Proof::Invalid)
}

fn first_violations(verdict: &Verdict) -> String {
    let violations = verdict.violations.iter();
    let first = violations.map(|(promise, violations)| format!("{promise}: {}", violations[0]));
    first.collect::<Vec<_>>().join("; ")
}

/// A crash that nobody has brought about, unless it is one of those that come with set clocks.
fn crashed(facts: &Facts) -> Option<String> {
    let mut crashes = facts.unplanned_crashes();
    let crash = crashes.find(|crash| crash.is_unexplained())?;
    let (database, line) = (&crash.database, &crash.line);
    Some(format!("the Postgres of {database} crashed: {line}"))
}

/// Crashes that were not planned. Each is one more fault; of what began again around it nothing can
/// be judged.
fn crashes(facts: &Facts) {
    for crash in facts.unplanned_crashes() {
        let (database, line, at) = (&crash.database, &crash.line, crash.at);
        println!("NOT PLANNED: the Postgres of {database} crashed at {at}: {line}");
    }
}

/// The kinds among these of which no fault bit.
fn without_effect(facts: &Facts, named: &[Kind]) -> Option<String> {
    let has_bitten = |kind: &Kind| {
        let faults = facts.faults.get(&format!("{kind:?}"));
        faults.is_some_and(|faults| bit(faults) > 0)
    };
    let without: Vec<&Kind> = named.iter().filter(|kind| !has_bitten(kind)).collect();
    (!without.is_empty()).then(|| format!("named in FAULTS, and had no effect: {without:?}"))
}

fn faults(facts: &Facts) {
    println!(
        "faults (times it bit / times injected, bites; \
         longest silence of the streams: median, longest, ms; \
         longest time without a batch: median, longest, ms; lease + 1 s: {}):",
        (LEASE + Duration::from_secs(1)).as_millis()
    );
    for (kind, faults) in &facts.faults {
        let bites: u64 = faults.iter().map(|fault| fault.bites).sum();
        let silence = spread(faults.iter().map(|fault| facts.silence(fault)));
        let standstill = spread(faults.iter().map(|fault| facts.standstill(fault)));
        println!(
            "  {kind:20} {:4} / {:4} {bites:8} {silence} {standstill}",
            bit(faults),
            faults.len()
        );
    }
}

/// How long the service kept connections on which nobody answered any more.
fn silenced(facts: &Facts) {
    let mut by_purpose: BTreeMap<Purpose, Vec<(i64, bool)>> = BTreeMap::new();
    for (purpose, kept, open) in &facts.silenced {
        by_purpose.entry(*purpose).or_default().push((*kept, *open));
    }
    println!(
        "connections that went silent (how many; kept: median, longest, ms; \
         still kept; of these not judged, since their limit is not over):"
    );
    for (purpose, kept) in by_purpose {
        let open = kept.iter().filter(|(_, open)| *open).count();
        let undecided = kept
            .iter()
            .filter(|(kept, open)| is_undecided(purpose, *kept, *open))
            .count();
        let times = spread(kept.iter().map(|(kept, _)| *kept));
        println!(
            "  {:20} {:4} {times} {open:4} {undecided:4}",
            format!("{purpose:?}"),
            kept.len()
        );
    }
}

/// Median and longest of times in microseconds, in milliseconds.
fn spread(times: impl Iterator<Item = i64>) -> String {
    let mut times: Vec<i64> = times.map(|us| us / 1000).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    format!("{median:8} {longest:8}")
}

fn bit(faults: &[Fault]) -> usize {
    faults.iter().filter(|fault| fault.bites > 0).count()
}

/// Kinds of which fewer than so many in ten bit.
fn toothless(facts: &Facts, in_ten: usize) -> Vec<String> {
    let few = |faults: &[Fault]| 10 * bit(faults) < in_ten * faults.len();
    let few = facts.faults.iter().filter(|(_, faults)| few(faults));
    few.map(|(kind, faults)| {
        let (bit, injected) = (bit(faults), faults.len());
        format!("only {bit} of {injected} faults of the kind {kind} bit")
    })
    .collect()
}

/// Prints how much was done.
pub(crate) fn load(facts: &Facts, verdict: &Verdict) {
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

fn servers(fixture: &Fixture) {
    let sum = |count: &dyn Fn(&Server) -> u64| fixture.servers.iter().map(count).sum::<u64>();
    let cut = sum(&|server| server.journal.counters().acknowledgements_cut.load(Relaxed));
    let unknown = sum(&|server| server.lines_with("of a batch is unknown"));
    let recognised = sum(&|server| server.lines_with("had committed"));
    println!("batches of unknown outcome {unknown}");
    println!("commits without acknowledgement {cut}, recognised when sent again {recognised}");
}

/// Prints how often each promise was checked.
pub(crate) fn promises(verdict: &Verdict) {
    println!("promises (checks of each):");
    for (promise, count) in verdict.checks() {
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
pub(crate) fn invalid(facts: &Facts, verdict: &Verdict) -> Option<String> {
    if facts.faults.values().all(|faults| bit(faults) == 0) {
        return Some("nothing went wrong: no fault had an effect".into());
    }
    let (unchecked, unlisted) = (verdict.unchecked(facts), verdict.unlisted());
    if !unchecked.is_empty() {
        return Some(format!("never checked: {}", unchecked.join("; ")));
    }
    if !unlisted.is_empty() {
        return Some(format!("not among the promises: {}", unlisted.join("; ")));
    }
    (verdict.operations() < LEAST_OPERATIONS)
        .then(|| format!("only {} operations", verdict.operations()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Crash;

    /// Of each of these kinds one fault, which bit so often.
    fn facts(kinds: &[(Kind, u64)]) -> Facts {
        let fault = |bites| Fault {
            begun: 0,
            ended: 1,
            bites,
            hurt: Vec::new(),
        };
        let faults = kinds.iter();
        Facts {
            faults: faults
                .map(|(kind, bites)| (format!("{kind:?}"), vec![fault(*bites)]))
                .collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn a_short_run_in_which_nothing_bit_proves_nothing() {
        let judged = |kinds: &[_], named: &[_]| {
            result(&facts(kinds), &Verdict::of_all_promises(), 0.0, named)
        };
        assert_eq!(judged(&[(Kind::Kill, 1)], &[]), Proof::Green);
        assert_eq!(
            judged(&[(Kind::Kill, 1), (Kind::Pause, 0)], &[]),
            Proof::Green
        );
        let proves_nothing = |kinds: &[_], named: &[_]| {
            let judged = judged(kinds, named);
            assert!(matches!(judged, Proof::Invalid(_)), "{judged:?}");
        };
        proves_nothing(&[(Kind::Kill, 0)], &[]);
        proves_nothing(&[], &[]);
        let both = [Kind::Kill, Kind::Pause];
        proves_nothing(&[(Kind::Kill, 1), (Kind::Pause, 0)], &both);
        assert_eq!(judged(&both.map(|kind| (kind, 1)), &both), Proof::Green);
    }

    #[test]
    fn a_run_in_which_postgres_crashed_for_no_known_reason_proves_nothing() {
        let judged = |kind, line: &str| {
            let crash = Crash {
                database: "app".into(),
                at: 1,
                line: line.into(),
            };
            let facts = Facts {
                crashes: vec![crash],
                ..facts(&[(kind, 1)])
            };
            result(&facts, &Verdict::of_all_promises(), 0.0, &[])
        };
        for line in ["terminated by signal 11: Segmentation fault", "PANIC:  no"] {
            let alone = judged(Kind::Kill, line);
            assert!(matches!(alone, Proof::Invalid(why) if why.contains(line)));
            assert_eq!(judged(Kind::PostgresCrash, line), Proof::Green);
        }
        let under_a_set_clock = "terminated by signal 6: Aborted";
        assert_eq!(judged(Kind::Kill, under_a_set_clock), Proof::Green);
    }

    #[test]
    fn a_call_that_was_given_up_breaks_a_promise() {
        let judged = |given_up| {
            let facts = Facts {
                given_up: Some(given_up),
                ..facts(&[(Kind::Kill, 1)])
            };
            let violations = Verdict::of(&facts).violations;
            let verdict = Verdict {
                violations,
                ..Verdict::of_all_promises()
            };
            result(&facts, &verdict, 0.0, &[])
        };
        let broken = judged(1);
        let named = |why: &String| why.starts_with("no call is given up: ");
        assert!(
            matches!(&broken, Proof::Broken(why) if named(why)),
            "{broken:?}"
        );
        assert_eq!(judged(0), Proof::Green);
    }
}
