//! Runs that fail are repeated, take too long, or pause their job.

use super::*;
use crate::core::{Report, Rerun};

#[test]
fn a_failed_run_is_repeated_under_its_due_time() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(1),
            delay: Duration::from_secs(5),
        });
    });
    w.seconds(1000.0);
    w.fail_all();
    assert_eq!(w.states(), [(1000, Retrying)]);
    w.rebuild();
    w.seconds(5.0);
    assert_eq!(w.states(), [(1000, Running)]);
    w.fail_all();
    let run = w.remembered.job_runs.values().next().expect("it is there");
    assert_eq!((run.state, run.attempt, run.failed), (Failed, 2, 1));
}

#[test]
fn a_run_that_a_pause_holds_is_named_as_what_is_in_the_way() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(1),
            delay: Duration::from_secs(5),
        });
    });
    w.seconds(1000.0);
    w.fail_all();
    let due = BEGIN + Duration::from_secs(1000);
    assert_eq!(w.run_now("a").err(), Some(JobReject::JobRuns(due)));
    let (name, reason) = ("a".into(), "".into());
    w.ask_jobs(JobVerb::Pause { name, reason })
        .expect("it is there");
    assert_eq!(w.run_now("a").err(), Some(JobReject::RunHeld(due)));
}

#[test]
fn a_run_is_repeated_while_its_window_is_open_and_not_later() {
    let rule = RuleText::OncePer {
        period: Period::Day,
        after: "09:00".to_owned(),
        before: "10:00".to_owned(),
    };
    for (away, end) in [
        (3_000, (3_600, Running, None)),
        (3_700, (3_600, Failed, Some(RunReason::WindowClosed))),
    ] {
        let mut w = World::new(5);
        let mut settings = settings(rule.clone());
        settings.rerun = Some(Rerun {
            within_window: true,
            max: None,
            delay: Duration::from_secs(60),
        });
        w.create("a", of(settings, [order(1)]));
        w.seconds(3_600.0);
        w.fail_all();
        assert_eq!(w.states(), [(3_600, Retrying)]);
        // Nobody serves for a while.
        w.now = w.now + Duration::from_secs(away);
        w.take_over();
        w.seconds(0.0);
        assert_eq!(w.ends(), [end], "{away} s later");
    }
}

#[test]
fn a_run_that_takes_too_long_is_cancelled() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.max_runtime = Some(Duration::from_secs(30))
    });
    w.seconds(1000.0);
    w.rebuild();
    w.seconds(29.0);
    assert!(w.stops.is_empty());
    w.seconds(1.0);
    assert_eq!(w.stops.len(), 1);
    let handle = w.runs()[0];
    w.report(handle, 1, Report::Stopped);
    let timed_out = (1000, TimedOut, Some(RunReason::MaxRuntime));
    assert_eq!(w.ends(), [timed_out]);
}

#[test]
fn failures_in_a_row_pause_the_job_and_a_resume_goes_on() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.pause_after_failures = Some(2));
    for _ in 0..2 {
        w.seconds(10.0);
        w.fail_all();
    }
    assert_eq!((w.status().jobs.paused, w.status().jobs.failing), (1, 1));
    w.seconds(15.0);
    w.take_over();
    w.seconds(10.0);
    assert_eq!(w.states(), [(10, Failed), (20, Failed)]);
    w.ask_jobs(JobVerb::Resume("a".into()))
        .expect("it is there");
    w.seconds(5.0);
    let skipped = |due| (due, Skipped, Some(RunReason::JobPaused));
    assert_eq!(
        w.ends()[2..],
        [skipped(30), skipped(40), (50, Running, None)]
    );
}

#[test]
fn a_run_is_cancelled_by_a_caller() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.overlap = Overlap::QueueOne);
    w.seconds(20.0);
    for seconds in [20, 10] {
        let due = BEGIN + Duration::from_secs(seconds);
        let verb = JobVerb::CancelRun {
            name: "a".into(),
            due,
        };
        w.ask_jobs(verb).expect("it is open");
    }
    let asked = Some(RunReason::Asked);
    assert_eq!(w.ends(), [(10, Running, asked), (20, Cancelled, asked)]);
    let handle = w.runs()[0];
    w.report(handle, 1, Report::Stopped);
    assert_eq!(w.states(), [(10, Cancelled), (20, Cancelled)]);
}

#[test]
fn a_run_whose_scheduler_is_gone_is_lost() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    w.seconds(10.0);
    let handle = w.runs()[0];
    w.remembered.forget(handle);
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(0.0);
    assert_eq!(w.ends(), [(10, Lost, Some(RunReason::SchedulerGone))]);
}

#[test]
fn a_run_that_took_too_long_has_timed_out_though_its_scheduler_is_gone() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.max_runtime = Some(Duration::from_secs(8));
    });
    w.seconds(1008.0);
    let too_long = Some(RunReason::MaxRuntime);
    assert_eq!(w.ends(), [(1000, Running, too_long)]);
    let handle = w.runs()[0];
    w.remembered.forget(handle);
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(0.0);
    assert_eq!(w.ends(), [(1000, TimedOut, too_long)]);
}

#[test]
fn a_run_that_is_over_leaves_no_timer_behind() {
    let mut w = World::new(5);
    w.job("a", 100_000, |settings| {
        settings.overlap = Overlap::Allow;
        settings.max_runtime = Some(Duration::from_secs(30_000));
    });
    let next = w.shard.jobs.next_due();
    for _ in 0..3 {
        w.run_now("a").expect("it may");
        w.seconds(1.0);
    }
    assert!(w.shard.jobs.next_due() < next);
    w.succeed_all();
    assert_eq!(w.shard.jobs.next_due(), next);
}

#[test]
fn a_run_takes_as_long_as_it_may_by_the_present_definition() {
    let with = |seconds| {
        let mut settings = settings(every(1000));
        settings.max_runtime = Some(Duration::from_secs(seconds));
        of(settings, [order(1)])
    };
    let mut w = World::new(5);
    w.create("a", with(30));
    w.seconds(1000.0);
    let update = JobVerb::Update {
        name: "a".into(),
        job: with(60),
        version: None,
    };
    w.ask_jobs(update).expect("it is there");
    w.seconds(30.0);
    assert!(w.stops.is_empty());
    w.seconds(30.0);
    assert_eq!(w.stops.len(), 1);
}
