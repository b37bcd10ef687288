//! Histories of claims in which a promise is broken, and ones beside them in which it is kept: the
//! checks tell them apart.

use super::{Facts, Verdict};
use crate::{
    claims::{Call, ClaimEntry, Definition, Phase, Use},
    history::{Answer, Asked, Entry, Logged, Mark, Work},
};
use rallypoint_client::api::ClaimEnd;

const SECOND_US: i64 = 1_000_000;

/// A claim on one resource, by the times in seconds at which something is known of it.
pub(super) struct Claimed {
    id: u64,
    name: &'static str,
    permits: Option<u32>,
    also: Option<&'static str>,
    entries: Vec<Entry>,
}

pub(super) fn claim(id: u64, name: &'static str, permits: Option<u32>) -> Claimed {
    Claimed {
        id,
        name,
        permits,
        also: None,
        entries: Vec::new(),
    }
}

pub(super) fn seconds(at: f64) -> i64 {
    (at * SECOND_US as f64) as i64
}

impl Claimed {
    pub(super) fn note(mut self, what: ClaimEntry) -> Claimed {
        self.entries.push(Entry::Claim { id: self.id, what });
        self
    }

    /// It is to be about another resource, too, in the same way.
    pub(super) fn also(&mut self, name: &'static str) {
        self.also = Some(name);
    }

    pub(super) fn asked(self, at: f64) -> Claimed {
        let names = [Some(self.name), self.also].into_iter().flatten();
        let uses = names.map(|name| Use {
            name: name.into(),
            permits: self.permits,
        });
        let uses = uses.collect();
        self.note(ClaimEntry::Asked {
            at: seconds(at),
            uses,
            lease: 2 * SECOND_US,
            renewed_by_caller: true,
        })
    }

    pub(super) fn shown(self, call: Call, at: f64, phase: Phase) -> Claimed {
        let claim = self.id as i64;
        self.note(ClaimEntry::Shown {
            call,
            begun: seconds(at),
            at: seconds(at),
            claim,
            phase,
        })
    }

    pub(super) fn waits(self, at: f64) -> Claimed {
        self.shown(Call::Renew, at, Phase::Waiting)
    }

    pub(super) fn granted(self, at: f64, token: i64) -> Claimed {
        self.shown(Call::Acquire, at, Phase::Held(token))
    }

    pub(super) fn held(self, from: f64, to: f64, marks: (i64, i64)) -> Claimed {
        let held = |at, mark| ClaimEntry::Held {
            at: seconds(at),
            mark: Some(mark),
        };
        self.note(held(from, marks.0)).note(held(to, marks.1))
    }

    pub(super) fn ended(self, at: f64, how: ClaimEnd) -> Claimed {
        self.shown(Call::Release, at, Phase::Ended(how.into()))
    }

    pub(super) fn left(self, at: f64) -> Claimed {
        self.note(ClaimEntry::Left { at: seconds(at) })
    }
}

pub(super) fn resource(name: &str, capacity: u32, at: f64) -> Entry {
    defined(name, capacity, None, at)
}

fn defined(name: &str, capacity: u32, refill: Option<(u32, i64)>, at: f64) -> Entry {
    Entry::Resource {
        begun: seconds(at),
        ended: seconds(at),
        name: name.into(),
        definition: Some(Definition {
            capacity,
            lock_delay: 0,
            max_hold: None,
            refill,
            reader_preferred: name == "news",
        }),
        answer: Answer::Ok(()),
    }
}

/// A moment every second, and a batch every half a second, for a minute.
fn minute() -> impl Iterator<Item = Entry> {
    (0..120).flat_map(|half| {
        let at = half * SECOND_US / 2;
        let moment = Entry::Moment {
            number: half * 1_000,
            asked: at,
            answered: at,
        };
        [Entry::Progress { at, batch: half }, moment]
    })
}

/// Whether the promise is checked in this history, and whether it is kept.
pub(super) fn judged(promise: &str, resources: Vec<Entry>, claims: Vec<Claimed>) -> (bool, bool) {
    let claims = claims.into_iter().flat_map(|claim| claim.entries);
    let entries = resources.into_iter().chain(claims).chain(minute());
    let verdict = Verdict::of(&Facts::gather(entries));
    (
        verdict.checked.contains_key(promise),
        !verdict.violations.contains_key(promise),
    )
}

#[track_caller]
pub(super) fn tells_apart(
    promise: &str,
    resources: fn() -> Vec<Entry>,
    good: Vec<Claimed>,
    bad: Vec<Claimed>,
) {
    assert_eq!(judged(promise, resources(), good), (true, true), "good");
    assert_eq!(judged(promise, resources(), bad), (true, false), "bad");
}

pub(super) fn lock() -> Vec<Entry> {
    vec![resource("lock", 1, 0.0)]
}

/// Two claims, of which the second is granted at a time.
fn two(name: &'static str, permits: [Option<u32>; 2], second: f64, mark: i64) -> Vec<Claimed> {
    let first = claim(1, name, permits[0]).asked(1.0).granted(1.1, 1);
    let second_one = claim(2, name, permits[1]).asked(1.2).granted(second, 2);
    vec![
        first
            .held(1.2, 3.0, (10, 20))
            .ended(3.1, ClaimEnd::Released),
        second_one.held(second + 0.1, second + 0.2, (mark, mark + 1)),
    ]
}

#[test]
fn two_holders_of_a_lock_are_noticed_by_their_marks() {
    let good = two("lock", [None, None], 3.5, 21);
    // By their times they follow one another.
    let bad = two("lock", [None, None], 3.5, 15);
    tells_apart("holds respect mode and capacity", lock, good, bad);
}

#[test]
fn two_holders_of_a_lock_are_noticed_by_their_times() {
    let good = two("lock", [None, None], 3.5, 21);
    let bad = two("lock", [None, None], 2.5, 21);
    tells_apart("holds respect mode and capacity", lock, good, bad);
}

#[test]
fn a_reader_beside_a_writer_is_noticed_and_so_is_a_permit_too_many() {
    let pool = || vec![resource("pool", 3, 0.0)];
    let promise = "holds respect mode and capacity";
    let beside = |permits| two("pool", permits, 2.0, 15);
    tells_apart(
        promise,
        pool,
        beside([Some(1), Some(2)]),
        beside([Some(2), Some(2)]),
    );
    tells_apart(
        promise,
        pool,
        beside([Some(1), Some(2)]),
        beside([Some(1), None]),
    );
}

#[test]
fn what_was_granted_before_the_capacity_was_lowered_may_go_on() {
    let promise = "holds respect mode and capacity";
    let lowered = |at| vec![resource("pool", 3, 0.0), resource("pool", 1, at)];
    let both = || two("pool", [Some(1), Some(1)], 2.0, 15);
    assert_eq!(judged(promise, lowered(2.1), both()), (true, true));
    assert_eq!(judged(promise, lowered(0.5), both()), (true, false));
}

#[test]
fn a_task_that_runs_while_a_caller_holds_its_lock_is_noticed() {
    let promise = "holds respect mode and capacity";
    let task = |start: i64, token: i64| {
        let asked = Asked {
            token: 7,
            work: Work::Marked,
            order: None,
            at_most_once: false,
            attempts: 1,
            uses: Some(0),
        };
        let mark = |start, number| {
            Entry::Mark(Mark {
                token: 7,
                seq: Some(1),
                start,
                number,
                pid: 1,
                server: 0,
                hold: Some(token),
            })
        };
        vec![
            resource("tasks/*", 1, 0.0),
            Entry::Submit {
                begun: 0,
                ended: 1,
                handle: "h".into(),
                request: "r".into(),
                tasks: vec![asked],
                answer: Answer::Ok((1, 1)),
            },
            Entry::Logged(Logged {
                handle: "h".into(),
                seq: 1,
                token: 7,
                kind: "sql".into(),
                submitted: 0,
                retry_of: None,
                retried_as: None,
                done: None,
            }),
            mark(true, start),
            mark(false, start + 2),
        ]
    };
    let caller = || {
        let one = claim(1, "tasks/1", None).asked(1.0).granted(1.1, 5);
        vec![
            one.held(1.2, 3.0, (2_500, 5_500))
                .ended(3.1, ClaimEnd::Released),
        ]
    };
    assert_eq!(judged(promise, task(9_000, 6), caller()), (true, true));
    assert_eq!(judged(promise, task(4_000, 6), caller()), (true, false));
    // Its token is lower than that of the hold before.
    let rise = "fencing tokens rise";
    assert_eq!(judged(rise, task(9_000, 6), caller()), (true, true));
    assert_eq!(judged(rise, task(9_000, 4), caller()), (true, false));
}

#[test]
fn a_token_that_falls_or_is_given_twice_is_noticed() {
    let after = |token| {
        vec![
            claim(1, "lock", None).asked(1.0).granted(1.1, 5),
            claim(2, "key", None).asked(2.0).granted(2.1, token),
        ]
    };
    tells_apart("fencing tokens rise", lock, after(6), after(4));
    tells_apart("fencing tokens rise", lock, after(6), after(5));
}

#[test]
fn who_is_granted_past_an_earlier_one_is_noticed() {
    let promise = "grants keep the line";
    let granted = |first, second| {
        vec![
            claim(1, "lock", None)
                .asked(1.0)
                .waits(1.5)
                .granted(3.0, first),
            claim(2, "lock", None).asked(1.2).granted(3.0, second),
        ]
    };
    tells_apart(promise, lock, granted(1, 2), granted(2, 1));
    // One that was never granted waited longer.
    let waits_until = |at| {
        vec![
            claim(1, "lock", None).asked(1.0).waits(at).left(9.0),
            claim(2, "lock", None).asked(1.2).granted(3.0, 1),
        ]
    };
    tells_apart(promise, lock, waits_until(2.0), waits_until(3.5));
}

#[test]
fn readers_pass_a_writer_only_where_they_are_preferred() {
    let promise = "grants keep the line";
    let passed = |name| {
        vec![
            claim(1, name, None).asked(1.0).granted(3.0, 2),
            claim(2, name, Some(1)).asked(1.2).granted(3.0, 1),
        ]
    };
    let both = || vec![resource("news", 4, 0.0), resource("rw", 4, 0.0)];
    tells_apart(promise, both, passed("news"), passed("rw"));
}

#[test]
fn more_permits_than_have_come_back_are_noticed() {
    let rate = || vec![defined("rate", 2, Some((1, SECOND_US)), 0.0)];
    let grants = |third: f64| {
        let grant = |id: u64, at: f64| claim(id, "rate", Some(1)).asked(at).granted(at, id as i64);
        vec![grant(1, 1.0), grant(2, 1.1), grant(3, third)]
    };
    tells_apart("rates are kept", rate, grants(2.1), grants(1.8));
}

#[test]
fn a_claim_that_is_lost_within_its_lease_is_noticed() {
    let lost = |at| {
        let held = claim(1, "lock", None).asked(1.0).granted(1.1, 1);
        let renewed = held.shown(Call::Renew, 2.0, Phase::Held(1));
        vec![renewed.ended(at, ClaimEnd::Expired)]
    };
    let promise = "a renewed claim lives for its lease";
    tells_apart(promise, lock, lost(4.1), lost(3.9));
}

#[test]
fn a_call_that_makes_two_claims_is_noticed() {
    let promise = "a repeated claim is one";
    let repeated = |second| {
        let failed = ClaimEntry::Failed {
            call: Call::Acquire,
            begun: 0,
            at: 1,
            refused: false,
            why: String::new(),
        };
        let mut one = claim(1, "lock", None).asked(1.0).note(failed).waits(1.1);
        one.entries.push(Entry::Claim {
            id: 1,
            what: ClaimEntry::Shown {
                call: Call::Acquire,
                begun: seconds(2.0),
                at: seconds(2.0),
                claim: second,
                phase: Phase::Waiting,
            },
        });
        vec![one]
    };
    tells_apart(promise, lock, repeated(1), repeated(2));
}

#[test]
fn claims_that_are_left_open_are_noticed() {
    let judged = |count| {
        judged(
            "every claim ends",
            vec![Entry::OpenClaims { count }],
            vec![],
        )
    };
    assert_eq!(judged(0), (true, true));
    assert_eq!(judged(1), (true, false));
}
