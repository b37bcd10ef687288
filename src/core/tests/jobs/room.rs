//! The limits of a namespace leave no room: runs of its jobs wait for it, and word of a failure
//! does not.

use super::*;
use crate::core::model::limits::Limits;

fn limited(limits: Limits) -> World {
    World::limited(5, limits)
}

fn rate(tasks: u32) -> Limits {
    Limits {
        submit_rate: Some(tasks),
        ..Limits::default()
    }
}

fn states_of(w: &World, state: RunState) -> usize {
    let runs = w.remembered.job_runs.values();
    runs.filter(|run| run.state == state).count()
}

#[test]
fn runs_that_are_due_together_start_as_the_rate_of_submits_allows() {
    let mut w = limited(rate(2));
    for name in ["a", "b", "c", "d", "e"] {
        w.job(name, 100, |_| {});
    }
    w.seconds(100.0);
    assert_eq!((states_of(&w, Running), states_of(&w, Waiting)), (2, 3));
    let waiting = w
        .remembered
        .job_runs
        .values()
        .find(|run| run.state == Waiting);
    let detail = &*waiting.expect("one waits").detail;
    assert_eq!(
        detail,
        "the limit submit_rate (2) of the namespace is reached"
    );
    w.seconds(1.0);
    assert_eq!((states_of(&w, Running), states_of(&w, Waiting)), (4, 1));
    w.rebuild();
    w.seconds(1.0);
    assert_eq!((states_of(&w, Running), states_of(&w, Waiting)), (5, 0));
    let runs = w.remembered.job_runs.values();
    let started = runs.map(|run| (run.attempt, &*run.detail));
    assert!(started.eq([(1, ""); 5]), "each had one attempt");
}

#[test]
fn a_line_of_runs_waits_while_the_queue_is_full() {
    let mut w = limited(Limits {
        queued_tasks: 1,
        ..Limits::default()
    });
    w.job("b", 100_000, |_| {});
    w.job("a", 100, |settings| settings.overlap = Overlap::QueueAll);
    w.run_now("b").expect("nothing runs");
    w.seconds(300.0);
    assert_eq!(states_of(&w, Waiting), 3);
    for handle in w.runs() {
        w.succeed(handle, [1]);
    }
    for _ in 0..3 {
        w.seconds(1.0);
        w.succeed_all();
    }
    assert_eq!(states_of(&w, Succeeded), 4, "no run was lost");
}

#[test]
fn a_run_that_is_repeated_waits_for_room_with_its_attempts() {
    let mut w = limited(rate(1));
    w.job("a", 100, |settings| {
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: Some(1),
            delay: Duration::ZERO,
        });
    });
    w.seconds(100.0);
    w.fail_all();
    assert_eq!(w.states(), [(100, Retrying)]);
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert!(run.handle.is_some(), "that of the attempt that failed");
    w.seconds(1.0);
    assert_eq!(w.states(), [(100, Running)]);
    w.fail_all();
    assert_eq!(w.states(), [(100, Failed)], "it had its two attempts");
}

#[test]
fn word_of_a_failure_is_not_held_back() {
    let mut w = limited(Limits {
        queued_tasks: 1,
        open_schedulers: 1,
        ..rate(1)
    });
    w.alarming_job(100);
    w.job("b", 100_000, |_| {});
    w.seconds(100.0);
    w.fail_all();
    w.run_now("b").expect("it waits for room, or runs");
    assert_eq!(w.alarms(), ["FAILED"]);
}

#[test]
fn a_later_due_time_takes_the_place_of_one_that_waits_for_room() {
    for overlap in [Overlap::KeepNewest, Overlap::CancelRunning] {
        let mut w = limited(Limits {
            queued_tasks: 1,
            ..Limits::default()
        });
        w.job("b", 100_000, |_| {});
        w.job("a", 10, |settings| settings.overlap = overlap);
        w.run_now("b").expect("nothing runs");
        w.seconds(10.0);
        w.seconds(10.0);
        let states: Vec<RunState> = w
            .remembered
            .job_runs
            .values()
            .map(|run| run.state)
            .collect();
        assert_eq!(states, [Running, Skipped, Waiting], "{overlap:?}");
        w.succeed_all();
        w.seconds(1.0);
        let states: Vec<RunState> = w
            .remembered
            .job_runs
            .values()
            .map(|run| run.state)
            .collect();
        assert_eq!(states, [Succeeded, Skipped, Running], "{overlap:?}");
    }
}

#[test]
fn runs_side_by_side_that_wait_for_room_try_again_once_a_second() {
    let mut w = limited(Limits {
        queued_tasks: 1,
        waiting_runs: 3,
        ..Limits::default()
    });
    w.job("b", 100_000, |_| {});
    w.job("a", 10, |settings| settings.overlap = Overlap::Allow);
    w.run_now("b").expect("nothing runs");
    for _ in 0..5 {
        w.seconds(10.0);
    }
    assert_eq!((states_of(&w, Waiting), states_of(&w, Skipped)), (3, 2));
    w.succeed_all();
    for _ in 0..3 {
        w.seconds(1.0);
        w.succeed_all();
    }
    assert_eq!(states_of(&w, Succeeded), 4);
}

#[test]
fn a_run_that_is_asked_for_without_room_is_answered_as_one_that_waits() {
    let mut w = limited(Limits {
        queued_tasks: 1,
        ..Limits::default()
    });
    w.job("b", 100_000, |_| {});
    w.job("a", 100_000, |_| {});
    w.run_now("b").expect("nothing runs");
    let run = w.run_now("a").expect("it waits");
    assert_eq!((run.state, run.handle, run.attempt), (Waiting, None, 0));
    let known = &w.remembered.job_runs[&run.key];
    assert_eq!(*known, run);
}

#[test]
fn of_runs_that_start_together_no_more_do_than_there_is_room_for() {
    let mut w = limited(Limits {
        open_schedulers: 100,
        queued_tasks: 3,
        ..Limits::default()
    });
    for name in ["a", "b", "c", "d", "e"] {
        w.job(name, 100, |_| {});
    }
    w.seconds(100.0);
    assert_eq!((states_of(&w, Running), states_of(&w, Waiting)), (3, 2));
}

#[test]
fn a_target_that_there_was_no_room_to_ask_is_asked_by_the_next_owner() {
    let mut w = limited(Limits {
        queued_tasks: 2,
        ..Limits::default()
    });
    let mut settings = settings(every(1000));
    settings.claimed = true;
    w.create("a", of(settings, [order(1), order(2)]));
    w.job("b", 100_000, |_| {});
    w.seconds(1000.0);
    w.claimed("one");
    let other = w.run_now("b").expect("nothing runs");
    w.seconds(15.0);
    assert_eq!(w.remembered.labels("job"), ["b"]);
    w.rebuild();
    w.seconds(5.0);
    assert_eq!(w.states()[0], (1000, Running));
    w.succeed(other.handle.expect("it runs"), [1]);
    w.seconds(1.0);
    let asks = w.runs()[0];
    w.succeed(asks, [1, 2]);
    assert_eq!(w.states()[0], (1000, Succeeded));
}

#[test]
fn a_limit_of_open_schedulers_lets_runs_start_together() {
    let mut w = limited(Limits {
        open_schedulers: 1,
        ..Limits::default()
    });
    for name in ["a", "b", "c"] {
        w.job(name, 100, |_| {});
    }
    w.seconds(100.0);
    assert_eq!(states_of(&w, Running), 3, "each is open for a moment");
}

#[test]
fn runs_side_by_side_that_wait_for_room_begin_in_their_order() {
    let mut w = limited(Limits {
        queued_tasks: 1,
        ..Limits::default()
    });
    w.job("b", 100_000, |_| {});
    w.job("a", 100_000, |settings| settings.overlap = Overlap::Allow);
    w.run_now("b").expect("nothing runs");
    let first = w.run_now("a").expect("it waits");
    w.succeed_all();
    let second = w.run_now("a").expect("it waits");
    assert_eq!(second.state, Waiting);
    w.seconds(1.0);
    let states = [first, second].map(|run| w.remembered.job_runs[&run.key].state);
    assert_eq!(states, [Running, Waiting]);
}

#[test]
fn a_target_that_its_job_names_no_more_is_not_asked_and_says_nothing() {
    let mut w = limited(Limits {
        queued_tasks: 2,
        ..Limits::default()
    });
    let mut claimed = settings(every(1000));
    claimed.claimed = true;
    w.create("a", of(claimed.clone(), [order(1), order(2)]));
    w.job("b", 100_000, |_| {});
    w.seconds(1000.0);
    w.claimed("one");
    w.run_now("b").expect("nothing runs");
    w.seconds(15.0);
    w.update("a", of(claimed, []));
    w.seconds(1.0);
    let again = (1000, Waiting, Some(RunReason::ClaimantLost));
    assert_eq!(w.ends()[0], again);
}
