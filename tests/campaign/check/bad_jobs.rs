//! Histories of jobs in which a promise is broken, and ones beside them in which it is kept: the
//! checks tell them apart.

use super::{Facts, Verdict};
use crate::{
    history::Entry,
    jobs::{JobEntry, JobRun},
};

const SECOND_US: i64 = 1_000_000;
const SUCCEEDED: i32 = 4;
const LOST: i32 = 10;

/// A job that is due each second, and one that claimants do.
fn defined() -> Vec<JobEntry> {
    let job = |job: &str| JobEntry::Defined {
        job: job.into(),
        every: SECOND_US,
        side_by_side: job == "beside",
        claimed: job == "claimed",
        repeats: Some(i32::from(job == "repeated")),
        overlap: None,
    };
    ["job", "beside", "claimed", "repeated"].map(job).into()
}

/// What became of the due time of a second.
fn run(job: &str, due: i64) -> JobRun {
    JobRun {
        job: job.into(),
        due: due * SECOND_US,
        last: None,
        state: SUCCEEDED,
        attempt: 1,
        started: Some(due * SECOND_US),
        ended: Some(due * SECOND_US + 1),
        unasked: false,
        reason: None,
        catches_up: false,
    }
}

fn opened(job: &str, due: i64, handle: &str) -> JobEntry {
    JobEntry::Opened {
        job: job.into(),
        due: due * SECOND_US,
        handle: handle.into(),
    }
}

/// Whether the promise is checked in this history, and whether it is kept.
fn judged(promise: &str, entries: Vec<JobEntry>) -> (bool, bool) {
    let entries = defined().into_iter().chain(entries).map(Entry::Job);
    let verdict = Verdict::of(&Facts::gather(entries));
    (
        verdict.checked.contains_key(promise),
        !verdict.violations.contains_key(promise),
    )
}

#[track_caller]
fn tells_apart(promise: &str, good: Vec<JobEntry>, bad: Vec<JobEntry>) {
    assert_eq!(judged(promise, good), (true, true), "good");
    assert_eq!(judged(promise, bad), (true, false), "bad");
}

#[test]
fn a_due_time_with_two_schedulers_or_without_a_row_is_noticed() {
    let promise = "a due time has one run";
    let of = |job: &str, attempt, handles: &[&str]| {
        let opened = handles.iter().map(|handle| opened(job, 7, handle));
        let run = JobRun {
            attempt,
            ..run(job, 7)
        };
        opened.chain([JobEntry::Run(run)]).collect()
    };
    let with = |attempt, handles: &[&str]| of("repeated", attempt, handles);
    tells_apart(promise, with(1, &["a"]), with(1, &["a", "b"]));
    tells_apart(promise, with(2, &["a", "b"]), with(2, &["a"]));
    tells_apart(promise, with(1, &["a"]), with(1, &[]));
    // More attempts than the job allows, each with a scheduler.
    let three = || with(3, &["a", "b", "c"]);
    tells_apart(promise, with(2, &["a", "b"]), three());
    tells_apart(promise, of("job", 1, &["a"]), of("job", 2, &["a", "b"]));
    assert_eq!(judged(promise, vec![opened("job", 7, "a")]), (true, false));
}

#[test]
fn a_due_time_that_is_passed_over_or_counted_twice_is_noticed() {
    let promise = "every due time has a row";
    let range = |last: i64, then: i64| {
        let range = JobRun {
            last: Some(last * SECOND_US),
            ..run("job", 2)
        };
        [run("job", 1), range, run("job", then)]
            .map(JobEntry::Run)
            .into()
    };
    tells_apart(promise, range(9, 10), range(9, 11));
    tells_apart(promise, range(9, 10), range(10, 10));
}

#[test]
fn a_job_that_is_due_no_more_is_noticed() {
    let stopped = |at: i64, rows: &[i64]| {
        let jobs = defined().into_iter().map(|defined| match defined {
            JobEntry::Defined { job, .. } => job,
            other => panic!("{other:?}"),
        });
        let runs = jobs.flat_map(|job| rows.iter().map(move |due| run(&job, *due)));
        let at = JobEntry::StoppedForGood {
            at: at * SECOND_US + 1,
        };
        runs.map(JobEntry::Run).chain([at]).collect::<Vec<_>>()
    };
    let promise = "every due time has a row";
    tells_apart(promise, stopped(60, &[58, 59, 60]), stopped(60, &[28, 29]));
    tells_apart(promise, stopped(60, &[57, 58]), stopped(60, &[]));
}

#[test]
fn a_set_clock_alone_excuses_no_runs_side_by_side() {
    let meet = || {
        let first = JobRun {
            ended: Some(9 * SECOND_US),
            ..run("job", 7)
        };
        [first, run("job", 8)].map(|run| Entry::Job(JobEntry::Run(run)))
    };
    let fault = |kind: &str, begun: i64, hurt: &[usize]| Entry::Fault {
        kind: kind.into(),
        begun: begun * SECOND_US,
        ended: (begun + 1) * SECOND_US,
        bites: 1,
        hurt: hurt.into(),
        what: String::new(),
    };
    let is_kept = |faults: Vec<Entry>| {
        let defined = defined().into_iter().map(Entry::Job);
        let entries = defined.chain(meet()).chain(faults);
        let verdict = Verdict::of(&Facts::gather(entries));
        let promise = "runs go on as their job allows";
        !verdict.violations.contains_key(promise)
    };
    let set = || fault("ClockOfJournal", 1, &[]);
    assert!(!is_kept(vec![set()]));
    assert!(!is_kept(vec![set(), fault("Kill", 30, &[0])]));
    assert!(
        is_kept(vec![set(), fault("Kill", 3, &[0])]),
        "it may go back"
    );
}

#[test]
fn runs_side_by_side_are_noticed_where_they_may_not_be() {
    let promise = "runs go on as their job allows";
    let meet = |job: &str, at: i64| {
        let first = JobRun {
            ended: Some(at * SECOND_US),
            ..run(job, 1)
        };
        [first, run(job, 2)].map(JobEntry::Run).into()
    };
    tells_apart(promise, meet("job", 2), meet("job", 3));
    assert_eq!(judged(promise, meet("beside", 3)), (false, true));
}

#[test]
fn work_that_is_done_twice_or_was_never_done_is_noticed() {
    let promise = "a claimed run is finished once";
    let settled = |token| JobEntry::Settled {
        job: "claimed".into(),
        due: SECOND_US,
        token,
    };
    let with = |state, mut entries: Vec<JobEntry>| {
        entries.push(JobEntry::Run(JobRun {
            state,
            ..run("claimed", 1)
        }));
        entries
    };
    let once = || with(SUCCEEDED, vec![settled(1)]);
    tells_apart(
        promise,
        once(),
        with(SUCCEEDED, vec![settled(1), settled(2)]),
    );
    tells_apart(promise, once(), with(SUCCEEDED, vec![]));
    let unasked = JobRun {
        state: LOST,
        unasked: true,
        ..run("claimed", 1)
    };
    tells_apart(
        promise,
        vec![settled(1), JobEntry::Run(unasked)],
        with(LOST, vec![settled(1)]),
    );
    let acknowledged = || JobEntry::Finished {
        job: "claimed".into(),
        due: SECOND_US,
        token: 1,
    };
    tells_apart(
        promise,
        with(SUCCEEDED, vec![settled(1), acknowledged()]),
        with(LOST, vec![settled(1), acknowledged()]),
    );
    let claim = |token, outcome| JobEntry::Claim {
        job: "claimed".into(),
        due: SECOND_US,
        token,
        outcome,
    };
    let claims = |second| {
        let claims = vec![settled(1), claim(1, Some(1)), claim(2, second)];
        with(SUCCEEDED, claims)
    };
    tells_apart(promise, claims(Some(3)), claims(Some(1)));
}

#[test]
fn what_a_stopped_agent_fires_is_noticed() {
    let stopped = |after| vec![JobEntry::Stopped { before: 5, after }];
    tells_apart("a stopped agent fires nothing", stopped(5), stopped(6));
}

#[test]
fn a_run_without_an_end_is_noticed() {
    let ends = |state| {
        vec![JobEntry::Run(JobRun {
            state,
            ..run("job", 1)
        })]
    };
    tells_apart("every run ends", ends(LOST), ends(2));
    let drained = |left| vec![JobEntry::Drained { left }];
    tells_apart("every run ends", drained(0), drained(1));
}
