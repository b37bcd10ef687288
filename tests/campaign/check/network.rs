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

pub(super) fn silent_connections_are_given_up(facts: &Facts, verdict: &mut Verdict) {
    for (purpose, kept, open) in &facts.silenced {
        let given_up = *kept <= give_up_limit(*purpose);
        verdict.expect("silent connections are given up", given_up, || {
            let still = if *open { "still kept" } else { "kept" };
            format!("{purpose:?}: {still} after {} s", kept / SECOND_US)
        });
    }
}

/// Whatever went silent, and whatever the clocks said.
pub(super) fn the_shard_moves_on(facts: &Facts, verdict: &mut Verdict) {
    let faults = facts.faults.iter();
    let judged = |kind: &str| kind.starts_with("HalfOpen") || kind.starts_with("ClockOf");
    for (kind, fault) in faults
        .filter(|(kind, _)| judged(kind))
        .flat_map(|(kind, faults)| faults.iter().map(move |fault| (kind, fault)))
    {
        let stood_still = facts.standstill(fault);
        verdict.expect("the shard moves on", stood_still < STOPPED_US, || {
            format!("{kind}: no batch for {} s", stood_still / SECOND_US)
        });
    }
}
