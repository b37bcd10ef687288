//! Histories in which due times meet runs of their job against its rule, and ones beside them in
//! which the rule is kept: the checks tell them apart.

use super::{Facts, Verdict};
use crate::{
    history::Entry,
    jobs::{JobEntry, JobRun},
};
use rallypoint_client::api::Overlap;

const PROMISE: &str = "due times meet runs by their rule";
const SECOND_US: i64 = 1_000_000;
const SUCCEEDED: i32 = 4;
const CANCELLED: i32 = 6;
const SKIPPED: i32 = 8;
const REPLACED: Option<i32> = Some(JobRun::REPLACED);

/// The run of the due time of a second goes on between these.
fn ran(due: i64, started: i64, ended: i64) -> JobRun {
    JobRun {
        job: "job".into(),
        due: due * SECOND_US,
        last: None,
        state: SUCCEEDED,
        attempt: 1,
        started: Some(started * SECOND_US),
        ended: Some(ended * SECOND_US),
        unasked: false,
        reason: None,
        catches_up: false,
    }
}

fn cancelled(due: i64, started: i64, ended: i64) -> JobRun {
    JobRun {
        state: CANCELLED,
        reason: REPLACED,
        ..ran(due, started, ended)
    }
}

/// A due time has no run, as was said then.
fn skipped(due: i64, at: i64, reason: Option<i32>) -> JobRun {
    JobRun {
        state: SKIPPED,
        reason,
        attempt: 0,
        started: None,
        ..ran(due, at, at)
    }
}

fn catching_up(run: JobRun) -> JobRun {
    JobRun {
        catches_up: true,
        ..run
    }
}

fn is_kept(overlap: Overlap, runs: Vec<JobRun>) -> bool {
    let defined = JobEntry::Defined {
        job: "job".into(),
        every: SECOND_US,
        side_by_side: overlap == Overlap::Allow,
        claimed: false,
        repeats: Some(0),
        overlap: Some(overlap.into()),
    };
    let runs = runs.into_iter().map(JobEntry::Run);
    let entries = [defined].into_iter().chain(runs).map(Entry::Job);
    let verdict = Verdict::of(&Facts::gather(entries));
    assert!(verdict.checked.contains_key(PROMISE));
    !verdict.violations.contains_key(PROMISE)
}

#[track_caller]
fn tells_apart(overlap: Overlap, good: Vec<JobRun>, bad: Vec<JobRun>) {
    assert!(is_kept(overlap, good), "good");
    assert!(!is_kept(overlap, bad), "bad");
}

#[test]
fn a_due_time_that_is_skipped_for_nobody_is_noticed() {
    let still = Some(JobRun::STILL_RUNNING);
    let of = |ended| vec![ran(1, 1, ended), skipped(2, 2, still), ran(7, 7, 8)];
    tells_apart(Overlap::Skip, of(3), of(1));
}

#[test]
fn a_due_time_that_waits_where_it_is_to_be_skipped_is_noticed() {
    let still = Some(JobRun::STILL_RUNNING);
    // The third due time had its fate while the run of the first went on: so had the second.
    let of = |second| vec![ran(1, 1, 5), second, skipped(3, 3, still), ran(7, 7, 8)];
    let waits = ran(2, 5, 6);
    tells_apart(Overlap::Skip, of(skipped(2, 2, still)), of(waits.clone()));
    assert!(is_kept(Overlap::Skip, of(catching_up(waits))));
}

#[test]
fn two_that_wait_where_one_may_are_noticed() {
    let full = Some(JobRun::QUEUE_FULL);
    let of = |third| vec![ran(1, 1, 5), ran(2, 5, 6), third, skipped(4, 4, full)];
    tells_apart(Overlap::QueueOne, of(skipped(3, 3, full)), of(ran(3, 6, 7)));
    assert!(is_kept(Overlap::QueueOne, of(catching_up(ran(3, 6, 7)))));
}

#[test]
fn a_due_time_that_is_skipped_though_none_waits_is_noticed() {
    let full = Some(JobRun::QUEUE_FULL);
    let of = |second| vec![ran(1, 1, 5), ran(2, second, 6), skipped(3, 3, full)];
    tells_apart(Overlap::QueueOne, of(5), of(2));
}

#[test]
fn due_times_that_all_have_runs_are_not_skipped_and_begin_in_turn() {
    let of = |second, third| vec![ran(1, 1, 5), ran(2, second, 8), ran(3, third, 8)];
    tells_apart(Overlap::QueueAll, of(5, 6), of(6, 5));
    let skipped = |reason| vec![ran(1, 1, 5), skipped(2, 2, Some(reason))];
    let paused = 4;
    tells_apart(
        Overlap::QueueAll,
        skipped(paused),
        skipped(JobRun::QUEUE_FULL),
    );
    tells_apart(
        Overlap::Allow,
        skipped(paused),
        skipped(JobRun::STILL_RUNNING),
    );
}

#[test]
fn runs_may_be_side_by_side_where_the_rule_says_so() {
    let beside = || vec![ran(1, 1, 5), ran(2, 2, 4), ran(3, 3, 9)];
    assert!(is_kept(Overlap::Allow, beside()));
}

#[test]
fn whoever_replaces_an_older_one_is_kept_and_no_older_one_is() {
    let of = |older, newer| vec![ran(1, 1, 5), older, newer];
    let replaced = |due| skipped(due, 3, REPLACED);
    tells_apart(
        Overlap::KeepNewest,
        of(replaced(2), ran(3, 5, 6)),
        of(ran(2, 5, 6), replaced(3)),
    );
    let two = |third| vec![ran(1, 1, 5), ran(2, third, 6), replaced(3), ran(4, 6, 7)];
    tells_apart(Overlap::KeepNewest, two(2), two(5));
}

#[test]
fn what_ran_on_though_a_later_due_time_was_there_is_noticed() {
    let of = |first| vec![first, skipped(2, 3, REPLACED), ran(3, 5, 6), ran(7, 7, 8)];
    tells_apart(
        Overlap::CancelRunning,
        vec![cancelled(1, 1, 3), ran(2, 3, 6)],
        vec![ran(1, 1, 3), cancelled(2, 3, 6)],
    );
    // A third due time had its fate, so the second one had, and nothing was cancelled for it.
    let third = |first| vec![first, ran(2, 6, 7), skipped(3, 3, Some(4)), ran(9, 9, 10)];
    tells_apart(
        Overlap::CancelRunning,
        third(cancelled(1, 1, 6)),
        third(ran(1, 1, 6)),
    );
    assert!(is_kept(Overlap::CancelRunning, of(cancelled(1, 1, 5))));
}
