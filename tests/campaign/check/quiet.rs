//! Times in which the service was there without a break: it wrote batches, under one owner, and
//! nothing was wrong with what an owner keeps its own lease by.

use super::{Facts, facts::AFTERMATH_US};

/// A pause between two batches in which callers may have been unable to renew.
const PAUSE_US: i64 = 800_000;
/// A pause between two renewals of an owner's lease after which it may have taken itself for cut
/// off, and given all claims a new lease: less than the 2.4 s that it takes for that.
const UNRENEWED_US: i64 = 1_500_000;
/// Faults that do not touch an owner's connections to its database, unless batches stop.
const HARMLESS: [&str; 10] = [
    "HalfOpenTarget",
    "HalfOpenPeer",
    "HalfOpenCallers",
    "PeersApart",
    "CallersApart",
    "CallersVanish",
    "Http2Abuse",
    "SlowReaders",
    "CommitCut",
    "ClockOfTarget",
];

/// Those of these times between which more passed than so much.
fn pauses(times: &[i64], most: i64) -> impl Iterator<Item = (i64, i64)> {
    let pairs = times.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(move |(from, to)| to - from > most)
}

/// In order, each from its beginning to its end.
pub(super) struct Quiet(Vec<(i64, i64)>);

impl Quiet {
    pub(super) fn of(facts: &Facts) -> Quiet {
        let mut breaks: Vec<(i64, i64)> = facts.claims.epochs.iter().map(|at| (*at, *at)).collect();
        let mut batches = facts.progress.clone();
        batches.sort_unstable();
        breaks.extend(pauses(&batches, PAUSE_US));
        breaks.extend(pauses(&facts.claims.renewed, UNRENEWED_US));
        let faults = facts.faults.iter();
        let harmful = faults.filter(|(kind, _)| !HARMLESS.contains(&kind.as_str()));
        let harmful = harmful.flat_map(|(_, faults)| faults);
        breaks.extend(harmful.map(|fault| (fault.begun, fault.ended + AFTERMATH_US)));
        breaks.sort_unstable();
        let (mut quiet, mut since) = (Vec::new(), batches.first().copied());
        let end = batches.last().map(|last| (*last, *last));
        for (from, to) in breaks.into_iter().chain(end) {
            if let Some(begun) = since.filter(|begun| *begun < from) {
                quiet.push((begun, from));
            }
            since = since.map(|begun| begun.max(to));
        }
        Quiet(quiet)
    }

    /// When it has been quiet for so long, from this time on.
    pub(super) fn after(&self, from: i64, long: i64) -> Option<i64> {
        let mut ends = self.0.iter().map(|(since, until)| {
            let end = from.max(*since).saturating_add(long);
            (end <= *until).then_some(end)
        });
        ends.find_map(|end| end)
    }

    /// Whether it was quiet then, and for so long before.
    pub(super) fn at(&self, at: i64, long: i64) -> bool {
        let mut quiet = self.0.iter();
        quiet.any(|(since, until)| since.saturating_add(long) <= at && at <= *until)
    }
}
