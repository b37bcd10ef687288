//! Every promise that a campaign puts to the test. A run in which one of them was never checked
//! proves nothing.

use super::{Facts, Verdict, network};

/// By name, as the checks name them, and which kinds of faults it takes to check one.
const PROMISES: [(&str, fn(&str) -> bool); 54] = [
    ("an acknowledged submit is kept", any),
    ("a repeated submit is one", any),
    ("refused means that nothing was done", any),
    ("nothing comes from nowhere, or by half", any),
    ("calls through the Rust client never fail", any),
    ("stock clients see no fault of the server", any),
    ("nothing is accepted after a release", any),
    ("an acknowledged retry is kept", is_of_one_version),
    ("a task has at most one retry", is_of_one_version),
    ("a repeated retry is one", is_of_one_version),
    ("a copy is as its original", is_of_one_version),
    (
        "a halt ends when its failures are repaired",
        is_of_one_version,
    ),
    ("every task has exactly one outcome", any),
    ("events are numbered without a gap", any),
    ("orders never overlap in the log", any),
    ("batches follow one another, epoch by epoch", any),
    ("everything is well after the last fault", any),
    ("everything ends", any),
    ("no call is given up", any),
    ("servers neither panic nor end by themselves", any),
    ("streams tell every event once, in order", any),
    ("streams tell what the log tells", any),
    ("a stream until ALL tells of all", any),
    ("outcomes agree with the witnesses", any),
    ("at most once is at most once", any),
    ("exactly once is exactly once", is_of_one_version),
    ("nothing begins again without a reason", any),
    ("what others run survives its owner", any),
    ("no task runs twice at a time", any),
    ("orders never overlap", any),
    ("limits hold", any),
    ("no more runs than there are slots", any),
    ("cancelled means cancelled", any),
    ("nothing is reported before it is done", any),
    ("holds respect mode and capacity", is_of_one_version),
    ("fencing tokens rise", is_of_one_version),
    ("grants keep the line", is_of_one_version),
    ("rates are kept", is_of_one_version),
    ("a renewed claim lives for its lease", is_of_one_version),
    ("a repeated claim is one", breaks_calls),
    ("nobody waits for the dead", is_of_one_version),
    ("a line moves when it may", seldom),
    ("what has ended stays ended", is_of_one_version),
    ("no hold is too long", is_of_one_version),
    ("every claim ends", is_of_one_version),
    ("a due time has one run", is_of_one_version),
    ("every due time has a row", is_of_one_version),
    ("runs go on as their job allows", is_of_one_version),
    ("due times meet runs by their rule", is_of_one_version),
    ("a claimed run is finished once", is_of_one_version),
    ("a stopped agent fires nothing", is_of_one_version),
    ("every run ends", is_of_one_version),
    (
        "silent connections are given up",
        network::silences_connections,
    ),
    ("the shard moves on", network::may_stop_the_shard),
];

fn any(_: &str) -> bool {
    true
}

/// Seen so seldom, behind nobody who has left, that a short run may have no example.
fn seldom(_: &str) -> bool {
    false
}

/// Two versions side by side meet no other faults, and the older one may not know all that is asked
/// for otherwise.
fn is_of_one_version(kind: &str) -> bool {
    !["Kill", "Stop"].contains(&kind)
}

/// Faults that leave the calls of claimants alone, so that none is repeated.
const BREAK_NO_CALLS: [&str; 6] = [
    "CallersVanish",
    "ClockOfTarget",
    "CommitCut",
    "HalfOpenTarget",
    "Http2Abuse",
    "SlowReaders",
];

fn breaks_calls(kind: &str) -> bool {
    is_of_one_version(kind) && !BREAK_NO_CALLS.contains(&kind)
}

impl Verdict {
    /// Every promise, and how often it was checked.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let listed = PROMISES.iter().map(|(promise, _)| *promise);
        let others = self
            .checked
            .keys()
            .copied()
            .filter(|promise| !is_listed(promise));
        let count = |promise| self.checked.get(promise).copied().unwrap_or(0);
        listed
            .chain(others)
            .map(move |promise| (promise, count(promise)))
    }

    /// The promises that the faults of this run put to the test, and that were not checked.
    pub(crate) fn unchecked(&self, facts: &Facts) -> Vec<&'static str> {
        let happened = |kinds: &fn(&str) -> bool| facts.faults.keys().any(|kind| kinds(kind));
        let required = PROMISES.iter().filter(|(_, kinds)| happened(kinds));
        let unchecked = required.filter(|(promise, _)| !self.checked.contains_key(promise));
        unchecked.map(|(promise, _)| *promise).collect()
    }

    /// What was checked and has no line above.
    pub(crate) fn unlisted(&self) -> Vec<&'static str> {
        let checked = self.checked.keys().copied();
        checked.filter(|promise| !is_listed(promise)).collect()
    }
}

#[cfg(test)]
impl Verdict {
    /// All promises were checked often.
    pub(crate) fn of_all_promises() -> Verdict {
        let checked = PROMISES.iter().map(|(promise, _)| (*promise, 1_000));
        Verdict {
            checked: checked.collect(),
            ..Verdict::default()
        }
    }
}

fn is_listed(promise: &str) -> bool {
    PROMISES.iter().any(|(listed, _)| *listed == promise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::Fault, report};

    fn facts(kind: &str) -> Facts {
        let fault = Fault {
            begun: 0,
            ended: 1,
            bites: 1,
            hurt: Vec::new(),
        };
        let faults = [(kind.to_owned(), vec![fault])].into();
        Facts {
            faults,
            ..Facts::default()
        }
    }

    /// A verdict in which all promises but these were checked often.
    fn verdict(without: &[&str]) -> Verdict {
        let mut verdict = Verdict::of_all_promises();
        let is_left = |promise: &&str, _: &mut u64| !without.contains(promise);
        verdict.checked.retain(is_left);
        verdict
    }

    #[test]
    fn a_run_proves_nothing_about_a_promise_that_was_never_checked() {
        let judged = |kind, without: &[&str]| report::invalid(&facts(kind), &verdict(without));
        assert_eq!(judged("Kill", &[]), None);
        for (promise, kinds) in PROMISES {
            for kind in ["Kill", "HalfOpenWriter"] {
                let is_invalid = judged(kind, &[promise]).is_some();
                assert_eq!(is_invalid, kinds(kind), "{promise}, {kind}");
            }
        }
    }

    #[test]
    fn a_fault_that_breaks_no_call_puts_repeated_claims_to_no_test() {
        let judged = |kind| report::invalid(&facts(kind), &verdict(&["a repeated claim is one"]));
        assert_eq!(judged("Http2Abuse"), None);
        assert!(judged("CallersApart").is_some());
    }

    #[test]
    fn a_promise_that_is_not_listed_is_noticed() {
        let mut verdict = verdict(&[]);
        verdict.expect("another promise", true, String::new);
        assert!(report::invalid(&facts("Kill"), &verdict).is_some());
    }
}
