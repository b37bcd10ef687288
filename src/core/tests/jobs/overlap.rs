//! What becomes of a due time while an earlier run goes on.

use super::*;
use crate::core::model::limits::Limits;

/// A job every ten seconds whose first run lasts for 35 s.
fn after_35s(overlap: Overlap) -> World {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.overlap = overlap);
    w.seconds(10.0);
    for _ in 0..5 {
        w.seconds(5.0);
    }
    w
}

#[test]
fn it_is_skipped() {
    let w = after_35s(Overlap::Skip);
    let skipped = |due| (due, Skipped, Some(RunReason::StillRunning));
    assert_eq!(w.ends(), [(10, Running, None), skipped(20), skipped(30)]);
}

#[test]
fn it_waits_for_its_turn() {
    let mut w = after_35s(Overlap::QueueOne);
    let full = (30, Skipped, Some(RunReason::QueueFull));
    assert_eq!(w.ends(), [(10, Running, None), (20, Waiting, None), full]);
    w.succeed_all();
    assert_eq!(w.states()[..2], [(10, Succeeded), (20, Running)]);
    let mut w = after_35s(Overlap::QueueAll);
    assert_eq!(w.states(), [(10, Running), (20, Waiting), (30, Waiting)]);
    w.succeed_all();
    assert_eq!(w.states(), [(10, Succeeded), (20, Running), (30, Waiting)]);
}

#[test]
fn it_takes_the_place_of_what_waits_or_runs() {
    let w = after_35s(Overlap::KeepNewest);
    let replaced = (20, Skipped, Some(RunReason::Replaced));
    assert_eq!(
        w.ends(),
        [(10, Running, None), replaced, (30, Waiting, None)]
    );
    let mut w = after_35s(Overlap::CancelRunning);
    assert_eq!(w.stops.len(), 1, "it is asked to stop once");
    let handle = w.runs()[0];
    w.report(handle, 1, crate::core::Report::Stopped);
    let cancelled = (10, Cancelled, Some(RunReason::Replaced));
    assert_eq!(w.ends(), [cancelled, replaced, (30, Running, None)]);
}

#[test]
fn what_takes_too_long_as_it_comes_is_not_repeated_before_it() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| {
        settings.overlap = Overlap::CancelRunning;
        settings.max_runtime = Some(Duration::from_secs(8));
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::ZERO,
        });
    });
    w.seconds(10.0);
    // It is asked to stop, and has not done so when the next one is due.
    w.seconds(8.0);
    w.seconds(2.0);
    assert_eq!(w.states(), [(10, Running), (20, Waiting)]);
    w.report(w.runs()[0], 1, crate::core::Report::Stopped);
    let timed_out = (10, TimedOut, Some(RunReason::MaxRuntime));
    assert_eq!(w.ends(), [timed_out, (20, Running, None)]);
}

#[test]
fn it_runs_beside_the_earlier_one() {
    let w = after_35s(Overlap::Allow);
    assert_eq!(w.states(), [(10, Running), (20, Running), (30, Running)]);
}

#[test]
fn what_is_caught_up_runs_side_by_side_to_its_cap_and_the_rest_is_missed() {
    let mut w = World::new(50);
    w.job("a", 600, |settings| {
        settings.overlap = Overlap::Allow;
        settings.misfire = Misfire::CatchUp(5);
    });
    w.seconds(600.0);
    // Nobody serves for a day, and the first run still goes on.
    let day = 86_400;
    w.now = w.now + Duration::from_secs(day - 1);
    w.take_over();
    w.seconds(0.0);
    let last = 600 + (day as i64 - 600);
    let due: Vec<i64> = (2..=last / 600).map(|number| number * 600).collect();
    let (missed, caught_up) = due.split_at(due.len() - 5);
    let no_server = Some(RunReason::NoServer);
    let ends = w.ends();
    let is_range =
        |end: &(i64, RunState, Option<RunReason>)| *end == (missed[0], Missed, no_server);
    assert_eq!(ends[0], (600, Running, None));
    assert!(is_range(&ends[1]), "{:?}", ends[1]);
    let running: Vec<i64> = (ends[1..].iter())
        .filter(|(_, state, _)| *state == Running)
        .map(|(due, ..)| *due)
        .collect();
    assert_eq!(running, caught_up, "side by side, and beside the first one");
    let rows = w.remembered.job_runs.range(RunKey::all_of(JobNo(1)));
    let counted: i64 = rows
        .filter(|(_, run)| run.state == Missed)
        .map(|(_, run)| run.count)
        .sum();
    assert_eq!(counted, missed.len() as i64, "each of the others has a row");
}

#[test]
fn what_is_caught_up_gives_way_to_no_later_due_time() {
    for overlap in [Overlap::KeepNewest, Overlap::CancelRunning] {
        let mut w = World::new(5);
        w.job("a", 60, |settings| {
            settings.overlap = overlap;
            settings.misfire = Misfire::CatchUp(3);
        });
        // The last one is served in time, and comes behind the three before it.
        w.now = w.now + Duration::from_secs(601);
        w.take_over();
        w.seconds(0.0);
        let line = [
            (420, Running),
            (480, Waiting),
            (540, Waiting),
            (600, Waiting),
        ];
        assert_eq!(w.states()[6..], line, "{overlap:?}");
        w.seconds(59.0);
        let replaced = (600, Skipped, Some(RunReason::Replaced));
        assert_eq!(w.ends()[9..], [replaced, (660, Waiting, None)]);
        assert!(w.stops.is_empty(), "{overlap:?}");
        for _ in 0..4 {
            w.succeed_all();
        }
        let ran = w.states()[6..]
            .iter()
            .filter(|(_, state)| *state == Succeeded)
            .count();
        assert_eq!(ran, 4, "{overlap:?}");
    }
}

#[test]
fn a_run_that_is_asked_for_has_its_turn_or_is_refused() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    let run = w.run_now("a").expect("nothing runs");
    assert_eq!((run.state, &*run.by), (Running, "ann"));
    assert_eq!(w.run_now("a").err(), Some(JobReject::JobRuns(run.key.due)));
    w.succeed_all();
    let again = w.run_now("a").expect("nothing runs any more");
    assert!(again.key.due > run.key.due && again.key.due.0 % 1_000_000 != 0);
}

#[test]
fn a_run_that_is_asked_for_waits_beside_the_newest_due_time() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.overlap = Overlap::KeepNewest);
    w.seconds(10.0);
    let asked = w.run_now("a").expect("it waits");
    w.seconds(20.0);
    let line = [(10, Running), (10, Waiting), (20, Skipped), (30, Waiting)];
    assert_eq!(w.states(), line);
    w.succeed_all();
    assert_eq!(w.remembered.job_runs[&asked.key].state, Running);
}

#[test]
fn a_request_has_one_run_also_after_a_crash() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    let ask_from = |w: &mut World, from_order| {
        let verb = JobVerb::Run {
            name: "a".into(),
            request: Some(uuid::Uuid::from_u128(7)),
            from_order,
        };
        match w.ask_jobs(verb) {
            Ok(JobReply::Run(run, changed)) => Ok((run.key, changed)),
            Ok(other) => panic!("{other:?}"),
            Err(reject) => Err(reject),
        }
    };
    let ask = |w: &mut World| ask_from(w, None).expect("it has a run");
    let (first, changed) = ask(&mut w);
    assert!(changed);
    // Under the same id it is another request.
    let reused = Err(Reject::RequestIdReused);
    assert_eq!(ask_from(&mut w, Some(5)), reused);
    w.succeed_all();
    w.seconds(1.0);
    assert_eq!(ask(&mut w), (first, false));
    w.take_over();
    assert_eq!(ask(&mut w), (first, false));
    assert_eq!(ask_from(&mut w, Some(5)), reused);
}

#[test]
fn a_failed_run_counts_as_one_when_a_later_due_time_takes_its_place() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| {
        settings.overlap = Overlap::CancelRunning;
        settings.pause_after_failures = Some(2);
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: None,
            delay: Duration::from_secs(60),
        });
    });
    for _ in 0..3 {
        w.seconds(10.0);
        w.fail_all();
    }
    let replaced = Some(RunReason::Replaced);
    assert_eq!(
        w.ends()[..2],
        [(10, Failed, replaced), (20, Failed, replaced)]
    );
    assert_eq!(w.status().jobs.paused, 1);
}

#[test]
fn so_many_runs_wait_at_most_also_when_somebody_asks_for_them() {
    let limits = Limits {
        waiting_runs: 3,
        ..Limits::default()
    };
    for overlap in [Overlap::QueueAll, Overlap::Allow] {
        let mut w = World::limited(5, limits);
        w.job("a", 1000, |settings| settings.overlap = overlap);
        for _ in 0..3 {
            w.run_now("a").expect("it is one of three");
        }
        assert_eq!(w.run_now("a").err(), Some(JobReject::RunsWait(3)));
        w.succeed_all();
        w.run_now("a").expect("there is room");
    }
}
