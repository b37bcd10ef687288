//! Promises about time: connections that went silent are given up, and the shard moves on.

use super::{Facts, Verdict};
use crate::proxy::Purpose;

const SECOND_US: i64 = 1_000_000;
/// A shard that takes longer has stopped. What it ought to take is printed, not judged: this
/// machine may be busy.
const STOPPED_US: i64 = 45 * SECOND_US;

/// How long the service may keep a connection that has gone silent, generously: several times the
/// limit that is meant to end it.
fn give_up_limit(purpose: Purpose) -> i64 {
    let seconds = match purpose {
        // Answers are waited for as long as a partition may take to be made.
        Purpose::Maintenance => 900,
        // A text may run for ever, so the server is asked about it now and then.
        Purpose::Target => 180,
        _ => 90,
    };
    seconds * SECOND_US
}

/// It is still open, and within its limit: nothing is known of it yet.
pub(crate) fn is_undecided(purpose: Purpose, kept: i64, open: bool) -> bool {
    open && kept <= give_up_limit(purpose)
}

pub(super) fn silent_connections_are_given_up(facts: &Facts, verdict: &mut Verdict) {
    for (purpose, kept, open) in &facts.silenced {
        if is_undecided(*purpose, *kept, *open) {
            continue;
        }
        let given_up = *kept <= give_up_limit(*purpose);
        verdict.expect("silent connections are given up", given_up, || {
            let still = if *open { "still kept" } else { "kept" };
            format!("{purpose:?}: {still} after {} s", kept / SECOND_US)
        });
    }
}

/// Faults that make connections go silent one by one.
pub(super) fn silences_connections(kind: &str) -> bool {
    kind.starts_with("HalfOpen") && kind != "HalfOpen"
}

/// Faults after which nobody is told that the shard has to move on.
pub(super) fn may_stop_the_shard(kind: &str) -> bool {
    kind.starts_with("HalfOpen") || kind.starts_with("ClockOf")
}

/// Whatever went silent, and whatever the clocks said.
pub(super) fn the_shard_moves_on(facts: &Facts, verdict: &mut Verdict) {
    let faults = facts.faults.iter();
    for (kind, fault) in faults
        .filter(|(kind, _)| may_stop_the_shard(kind))
        .flat_map(|(kind, faults)| faults.iter().map(move |fault| (kind, fault)))
    {
        let stood_still = facts.standstill(fault);
        verdict.expect("the shard moves on", stood_still < STOPPED_US, || {
            format!("{kind}: no batch for {} s", stood_still / SECOND_US)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answer, Entry};

    /// What is said of a history with one fault, of 1 s from the first second on.
    fn verdict(kind: &str, entries: impl IntoIterator<Item = Entry>) -> Verdict {
        let fault = Entry::Fault {
            kind: kind.into(),
            begun: SECOND_US,
            ended: 2 * SECOND_US,
            bites: 1,
            hurt: Vec::new(),
            what: String::new(),
        };
        let facts = Facts::gather(entries.into_iter().chain([fault]));
        let mut verdict = Verdict::default();
        silent_connections_are_given_up(&facts, &mut verdict);
        the_shard_moves_on(&facts, &mut verdict);
        verdict
    }

    fn silenced(kept: i64, open: bool) -> Entry {
        Entry::Silenced {
            purpose: Purpose::Writer,
            kept: kept * SECOND_US,
            open,
        }
    }

    fn batch(at: i64) -> Entry {
        Entry::Progress {
            at: at * SECOND_US,
            batch: at,
        }
    }

    fn answer(at: i64) -> Entry {
        Entry::Caller {
            call: String::new(),
            begun: 0,
            ended: at * SECOND_US,
            answer: Answer::Ok(()),
        }
    }

    #[test]
    fn a_connection_that_is_silent_for_a_short_time_is_not_judged() {
        let judged = |kept, open| {
            let verdict = verdict("HalfOpenWriter", [silenced(kept, open)]);
            let promise = "silent connections are given up";
            (
                verdict.checked.get(promise).copied().unwrap_or(0),
                verdict.violations.contains_key(promise),
            )
        };
        assert_eq!(judged(30, true), (0, false));
        assert_eq!(judged(30, false), (1, false));
        assert_eq!(judged(91, true), (1, true));
        assert_eq!(judged(91, false), (1, true));
    }

    #[test]
    fn a_shard_that_stops_for_good_does_not_move_on() {
        let moves_on =
            |entries: Vec<Entry>| verdict("HalfOpenWriter", entries).violations.is_empty();
        assert!(moves_on(vec![batch(1), batch(3), answer(4)]));
        assert!(moves_on(vec![batch(1), batch(9), answer(100)]));
        assert!(!moves_on(vec![batch(1), batch(90), answer(100)]));
        assert!(!moves_on(vec![batch(1), answer(100)]));
        assert!(!moves_on(vec![answer(100)]));
    }
}
