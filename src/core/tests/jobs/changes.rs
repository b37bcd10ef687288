//! A job changes, or ends, while due times of it have passed.

use super::*;
use crate::core::{
    StopMode,
    schedule::{Schedule, TimeZones},
};

/// A name of which the delay is longer than it takes until the job is changed.
const NAME: &str = "b";
const CHANGED_AFTER: u64 = 2;

fn jittered(every_seconds: u64, tasks: i64) -> Arc<NewJob> {
    let mut settings = settings(every(every_seconds));
    settings.schedule.jitter = Duration::from_secs(25);
    of(settings, (1..=tasks).map(order))
}

impl World {
    pub(super) fn update(&mut self, name: &str, job: Arc<NewJob>) {
        let (name, version) = (name.into(), None);
        self.ask_jobs(JobVerb::Update { name, job, version })
            .expect("it is there");
    }

    pub(super) fn delete(&mut self, name: &str) {
        let (name, version) = (name.into(), None);
        self.ask_jobs(JobVerb::Delete { name, version })
            .expect("it is there");
    }

    fn stop_agent(&mut self) {
        let (mode, reason) = (StopMode::Drain, "".into());
        self.ask_jobs(stop_verb(mode, reason)).expect("it stops");
    }
}

/// A job that is due every 30 s, has had no start of its first due time, and is to have it soon.
fn before_its_start() -> World {
    let mut w = World::new(5);
    let job = jittered(30, 1);
    let schedule: Schedule = job.settings.schedule.check(&TimeZones::bundled()).unwrap();
    assert!(schedule.delay(NAME).as_secs() > CHANGED_AFTER);
    w.create(NAME, job);
    w.seconds((30 + CHANGED_AFTER) as f64);
    assert_eq!(w.states(), []);
    w
}

#[test]
fn the_next_due_time_of_all_is_that_of_the_job() {
    let mut w = World::new(5);
    w.create(NAME, jittered(30, 1));
    let due = w.shard.status(w.now).jobs.next_due;
    assert_eq!(due.map(|due| (due.0 - BEGIN.0) / 1_000_000), Some(30));
}

#[test]
fn a_due_time_that_has_not_started_yet_starts_by_the_new_definition() {
    let mut w = before_its_start();
    w.update(NAME, jittered(30, 2));
    assert_eq!(w.states(), [], "the jitter is waited for");
    w.rebuild();
    w.seconds(25.0);
    assert_eq!(w.states(), [(30, Running)]);
    let handle = w.runs()[0];
    assert_eq!(w.running(handle).len(), 1);
    w.succeed(handle, [1]);
    w.succeed(handle, [2]);
    w.seconds(30.0);
    assert_eq!(w.states(), [(30, Succeeded), (60, Running)]);
}

#[test]
fn a_due_time_that_the_new_schedule_may_not_have_starts_before_the_change() {
    let mut w = before_its_start();
    w.update(NAME, jittered(7, 1));
    assert_eq!(w.states(), [(30, Running)]);
    w.seconds(25.0);
    let next = w.states().get(1).map(|(due, _)| *due);
    assert_ne!(next, Some(28), "what it was not due at by then is none");
}

#[test]
fn a_due_time_that_has_not_started_yet_goes_with_its_job() {
    let mut w = before_its_start();
    w.delete(NAME);
    assert_eq!(w.ends(), [(30, Skipped, Some(RunReason::JobDeleted))]);
}

/// A job that is due every 600 s, of a stopped agent, at 1500 s.
fn stopped_for_two(misfire: Misfire) -> World {
    let mut w = World::new(5);
    w.job("a", 600, |settings| settings.misfire = misfire);
    w.stop_agent();
    w.seconds(1500.0);
    assert_eq!(w.states(), []);
    w
}

#[test]
fn what_is_to_be_caught_up_waits_for_the_agent_when_its_job_changes() {
    for (misfire, states) in [
        (Misfire::Skip, [Missed, Missed]),
        (Misfire::RunOnce, [Missed, Waiting]),
        (Misfire::CatchUp(2), [Waiting, Waiting]),
    ] {
        let mut w = stopped_for_two(misfire);
        let mut new = settings(every(600));
        new.misfire = misfire;
        w.update("a", of(new, [order(1), order(2)]));
        let reason = |state| (state == Missed).then_some(RunReason::AgentStopped);
        let ends = [(600, states[0]), (1200, states[1])];
        let ends = ends.map(|(due, state)| (due, state, reason(state)));
        assert_eq!(w.ends(), ends, "{misfire:?}");
        w.rebuild();
        w.ask_jobs(JobVerb::StartAgent).expect("it starts");
        let running = states.contains(&Waiting);
        assert_eq!(w.runs().len(), usize::from(running), "{misfire:?}");
    }
}

#[test]
fn no_more_is_caught_up_however_often_a_job_changes_while_the_agent_is_stopped() {
    for (misfire, states) in [
        (Misfire::Skip, [Missed, Missed, Missed, Missed]),
        (Misfire::RunOnce, [Missed, Missed, Missed, Waiting]),
        (Misfire::CatchUp(2), [Missed, Missed, Waiting, Waiting]),
        (Misfire::CatchUp(3), [Missed, Waiting, Waiting, Waiting]),
    ] {
        let mut w = stopped_for_two(misfire);
        for (steps, seconds) in [(2, 1200.0), (3, 0.0)] {
            let mut new = settings(every(600));
            new.misfire = misfire;
            w.update("a", of(new, (1..=steps).map(order)));
            w.seconds(seconds);
        }
        let found: Vec<RunState> = w.states().into_iter().map(|(_, state)| state).collect();
        assert_eq!(found, states, "{misfire:?}");
    }
}

#[test]
fn no_more_is_caught_up_of_a_stop_when_a_job_has_changed_before_its_end() {
    for (misfire, seconds, states) in [
        (Misfire::RunOnce, 1000.0, [Missed, Missed, Missed, Running]),
        // The last one is served in time.
        (Misfire::RunOnce, 930.0, [Missed, Missed, Missed, Running]),
        (
            Misfire::CatchUp(2),
            1000.0,
            [Missed, Missed, Running, Waiting],
        ),
        (
            Misfire::CatchUp(3),
            1000.0,
            [Missed, Running, Waiting, Waiting],
        ),
    ] {
        let mut w = stopped_for_two(misfire);
        let mut new = settings(every(600));
        new.misfire = misfire;
        w.update("a", of(new, [order(1), order(2)]));
        w.seconds(seconds);
        w.ask_jobs(JobVerb::StartAgent).expect("it starts");
        let found: Vec<RunState> = w.states().into_iter().map(|(_, state)| state).collect();
        assert_eq!(found, states, "{misfire:?} {seconds}");
    }
}

#[test]
fn what_is_to_be_caught_up_is_there_after_a_pause() {
    let mut w = stopped_for_two(Misfire::RunOnce);
    let (name, reason): (Arc<str>, Arc<str>) = ("a".into(), "".into());
    let pause = JobVerb::Pause {
        name: name.clone(),
        reason,
    };
    w.ask_jobs(pause).expect("it is there");
    assert_eq!(w.states(), [(600, Missed), (1200, Waiting)]);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    w.seconds(600.0);
    assert_eq!(w.states(), [(600, Missed), (1200, Waiting)]);
    w.ask_jobs(JobVerb::Resume(name)).expect("it is there");
    assert_eq!(w.states()[1..], [(1200, Running), (1800, Skipped)]);
}

/// A run that goes on, of a job that is deleted, with half a minute of 30 s left.
fn deleted_while_it_runs() -> World {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.max_runtime = Some(Duration::from_secs(30));
    });
    w.seconds(1000.0);
    w.delete("a");
    w
}

#[test]
fn a_run_of_a_deleted_job_takes_no_longer_than_it_may() {
    for crash in [false, true] {
        let mut w = deleted_while_it_runs();
        if crash {
            w.rebuild();
        }
        w.seconds(29.0);
        assert!(w.stops.is_empty());
        w.seconds(1.0);
        assert_eq!(w.stops.len(), 1, "{crash}");
        let handle = w.runs()[0];
        w.report(handle, 1, crate::core::Report::Stopped);
        let timed_out = (1000, TimedOut, Some(RunReason::MaxRuntime));
        assert_eq!(w.ends(), [timed_out]);
        w.rebuild();
    }
}

#[test]
fn a_run_of_a_deleted_job_is_cancelled_by_its_name_also_when_another_job_has_that() {
    for another in [false, true] {
        let mut w = deleted_while_it_runs();
        if another {
            w.job("a", 1000, |_| {});
        }
        let cancel = || JobVerb::CancelRun {
            name: "a".into(),
            due: BEGIN + Duration::from_secs(1000),
        };
        w.ask_jobs(cancel()).expect("it goes on");
        let handle = w.runs()[0];
        w.report(handle, 1, crate::core::Report::Stopped);
        let ends = w.ends();
        assert_eq!(ends, [(1000, Cancelled, Some(RunReason::Asked))]);
        assert!(w.ask_jobs(cancel()).is_err(), "it is over");
    }
}

#[test]
fn what_runs_may_take_as_long_as_the_job_says_now() {
    for rebuilt in [false, true] {
        let mut w = World::new(5);
        w.job("a", 1000, |_| {});
        w.seconds(1000.0);
        let mut limited = settings(every(1000));
        limited.max_runtime = Some(Duration::from_secs(30));
        w.update("a", of(limited, [order(1)]));
        if rebuilt {
            w.rebuild();
        }
        w.seconds(29.0);
        assert!(w.stops.is_empty(), "{rebuilt}");
        w.seconds(1.0);
        assert_eq!(w.stops.len(), 1, "{rebuilt}");
    }
}

#[test]
fn an_update_after_the_clock_was_set_back_repeats_no_due_time() {
    let mut w = World::new(5);
    w.job("a", 60, |_| {});
    for _ in 0..3 {
        w.seconds(60.0);
        w.succeed_all();
    }
    let ran = w.ends();
    w.crash_and_set_back(Duration::from_secs(150));
    let mut other = settings(every(60));
    other.overlap = Overlap::QueueOne;
    w.update("a", of(other, [order(1)]));
    w.seconds(209.0);
    assert_eq!(w.ends(), ran);
    w.seconds(1.0);
    assert_eq!(w.states().last(), Some(&(240, Running)));
}

#[test]
fn another_schedule_after_the_clock_was_set_back_repeats_no_due_time() {
    let mut w = World::new(5);
    w.job("a", 60, |_| {});
    for _ in 0..3 {
        w.seconds(60.0);
        w.succeed_all();
    }
    let ran = w.ends();
    w.crash_and_set_back(Duration::from_secs(150));
    w.update("a", of(settings(every(30)), [order(1)]));
    w.seconds(179.0);
    assert_eq!(w.ends(), ran);
    w.seconds(1.0);
    assert_eq!(w.states().last(), Some(&(210, Running)));
}

#[test]
fn a_schedule_that_has_ended_repeats_no_due_time_when_the_clock_is_set_back() {
    for other in [60, 30] {
        let mut w = World::new(5);
        let mut ending = settings(every(60));
        ending.schedule.end = "2027-01-15T08:03:30Z".into();
        w.create("a", of(ending.clone(), [order(1)]));
        for _ in 0..3 {
            w.seconds(60.0);
            w.succeed_all();
        }
        let ran = w.ends();
        assert!(ran.len() == 3, "{ran:?}");
        w.crash_and_set_back(Duration::from_secs(150));
        ending.overlap = Overlap::QueueOne;
        ending.schedule.rule = every(other);
        w.update("a", of(ending, [order(1)]));
        w.seconds(600.0);
        assert_eq!(w.ends()[..3], ran);
    }
}

#[test]
fn a_start_that_was_put_off_is_not_too_late_when_the_jitter_shrinks() {
    let mut w = World::new(5);
    let mut jittered = settings(every(3_600));
    jittered.schedule.jitter = Duration::from_secs(1_800);
    let schedule: Schedule = jittered.schedule.check(&TimeZones::bundled()).unwrap();
    assert!(schedule.delay(NAME).as_secs() > 300);
    w.create(NAME, of(jittered, [order(1)]));
    w.seconds(3_600.0);
    w.seconds(300.0);
    w.update(NAME, of(settings(every(3_600)), [order(1)]));
    assert_eq!(w.states(), [(3_600, Running)]);
}

#[test]
fn a_run_that_had_begun_is_cancelled_with_its_job_and_does_not_count_as_never_begun() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: Some(1),
            delay: Duration::from_secs(60),
        });
    });
    w.seconds(1000.0);
    w.fail_all();
    w.delete("a");
    assert_eq!(w.ends(), [(1000, Cancelled, Some(RunReason::JobDeleted))]);
}

#[test]
fn a_change_that_is_said_again_changes_nothing() {
    let mut w = World::new(5);
    w.job("a", 100, |_| {});
    let verb = || JobVerb::Update {
        name: "a".into(),
        job: of(settings(every(70)), [order(1)]),
        version: Some(1),
    };
    for is_first in [true, false] {
        let Ok(JobReply::Job(job, _, changed)) = w.ask_jobs(verb()) else {
            panic!("it is taken for another one's change");
        };
        assert_eq!((job.version, changed), (2, is_first));
    }
}

#[test]
fn a_run_that_has_taken_too_long_is_not_repeated_once_it_is_cancelled() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.max_runtime = Some(Duration::from_secs(30));
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::from_secs(60),
        });
    });
    w.seconds(1030.0);
    assert_eq!(w.stops.len(), 1);
    let cancel = JobVerb::CancelRun {
        name: "a".into(),
        due: BEGIN + Duration::from_secs(1000),
    };
    w.ask_jobs(cancel).expect("it goes on");
    let handle = w.runs()[0];
    w.report(handle, 1, crate::core::Report::Stopped);
    assert_eq!(w.ends(), [(1000, Cancelled, Some(RunReason::Asked))]);
}
