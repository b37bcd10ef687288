//! Marks as a run could leave them, and what is said of them.

use super::*;
use crate::history::{Asked, Done, Entry};

const SECOND_US: i64 = 1_000_000;

/// Three servers, each called at the beginning and at the end, and so many tasks that run at
/// the same time.
fn at_the_same_time(tasks: i64) -> Facts {
    let marks = (1..=tasks).map(|token| {
        let mark = |start, number| Mark {
            token,
            seq: None,
            start,
            number,
            pid: token as i32,
            server: 0,
            hold: None,
        };
        (token, vec![mark(true, token), mark(false, tasks + token)])
    });
    Facts {
        final_calls: [0, 1, 2, 0, 1, 2]
            .map(|server| (server, Answer::Ok(())))
            .into(),
        marks: marks.collect(),
        ..Facts::default()
    }
}

fn moment(number: i64, at: i64) -> Entry {
    Entry::Moment {
        number,
        asked: at,
        answered: at,
    }
}

/// A task that may start once is submitted, and starts twice.
fn started_twice() -> [Entry; 3] {
    let asked = Asked {
        token: 1,
        work: Work::Marked,
        order: None,
        at_most_once: false,
        attempts: 1,
        uses: None,
    };
    let submit = Entry::Submit {
        begun: 0,
        ended: 1,
        handle: "a".into(),
        request: "r".into(),
        tasks: vec![asked],
        answer: Answer::Ok((1, 1)),
    };
    let mark = |number| {
        Entry::Mark(Mark {
            token: 1,
            seq: None,
            start: true,
            number,
            pid: 1,
            server: 0,
            hold: None,
        })
    };
    [submit, mark(2), mark(4)]
}

/// In between the target crashes.
fn with_a_crash(fault: Option<&str>, end: &str) -> Facts {
    let crash = Entry::Crash {
        database: "app".into(),
        at: 50 * SECOND_US,
        line: format!("server process (PID 7) was terminated by {end}"),
    };
    let fault = fault.map(|kind| Entry::Fault {
        kind: kind.into(),
        begun: 49 * SECOND_US,
        ended: 51 * SECOND_US,
        bites: 1,
        hurt: vec![],
        what: String::new(),
    });
    let moments = [
        moment(1, 0),
        moment(3, 40 * SECOND_US),
        moment(5, 60 * SECOND_US),
    ];
    let entries = started_twice().into_iter().chain([crash]);
    Facts::gather(entries.chain(moments).chain(fault))
}

#[test]
fn each_start_is_an_attempt_of_its_own() {
    let promise = "nothing begins again without a reason";
    for (attempt, is_reason) in [(2, true), (1, false)] {
        let done = Done {
            done_no: 1,
            seq: 1,
            order: None,
            outcome: 1,
            attempt,
            started: 0,
            ended: 1,
            error: String::new(),
            retry_of: None,
        };
        let row = Entry::Logged(Logged {
            handle: "a".into(),
            seq: 1,
            token: 1,
            kind: "sql".into(),
            submitted: 0,
            retry_of: None,
            retried_as: None,
            done: Some(done),
        });
        let entries = started_twice().into_iter();
        let verdict = Verdict::of(&Facts::gather(entries.chain([row])));
        assert_eq!(!verdict.violations.contains_key(promise), is_reason);
    }
}

#[test]
fn a_server_that_is_too_slow_once_has_not_lost_its_owner_s_tasks() {
    let promise = "what others run survives its owner";
    let pause = |ended| Entry::Fault {
        kind: "Pause".into(),
        begun: 5 * SECOND_US,
        ended: ended * SECOND_US,
        bites: 1,
        hurt: vec![0],
        what: String::new(),
    };
    // The task starts between ten and twenty seconds after the beginning.
    let moments = || [moment(1, 10 * SECOND_US), moment(3, 20 * SECOND_US)];
    for (ended, owners, is_kept) in [(11, 1, true), (9, 2, false), (9, 3, true)] {
        let entries = started_twice().into_iter().chain(moments());
        let facts = Facts {
            batches: vec![(1, 1, 1, 1); owners],
            ..Facts::gather(entries.chain([pause(ended)]))
        };
        let violations = Verdict::of(&facts).violations;
        assert_eq!(
            !violations.contains_key(promise),
            is_kept,
            "{ended}, {owners}"
        );
    }
}

#[test]
fn a_crash_that_was_not_planned_accuses_nobody() {
    let promise = "what others run survives its owner";
    let is_accused = |facts: &Facts| Verdict::of(facts).violations.contains_key(promise);
    let (killed, aborted) = ("signal 9: Killed", "signal 6: Aborted");
    // No fault has one abort, so that is none of the plan's though it comes with one.
    for (fault, end) in [("Kill", killed), ("PostgresCrash", aborted)] {
        let unplanned = with_a_crash(Some(fault), end);
        assert!(!is_accused(&unplanned));
        assert_eq!(unplanned.unplanned_crashes().count(), 1);
    }
    let planned = with_a_crash(Some("PostgresCrash"), killed);
    assert!(is_accused(&planned));
    assert_eq!(planned.unplanned_crashes().count(), 0);
}

#[test]
fn a_server_that_is_called_twice_has_its_slots_once() {
    let verdict = |tasks| Verdict::of(&at_the_same_time(tasks));
    let promise = "no more runs than there are slots";
    assert!(
        !verdict(3 * i64::from(SLOTS))
            .violations
            .contains_key(promise)
    );
    assert!(
        verdict(3 * i64::from(SLOTS) + 1)
            .violations
            .contains_key(promise)
    );
    assert!(!verdict(0).checked.contains_key(promise));
}
