//! Due times in the past have runs after all.

use super::*;
use crate::core::{Backfill, Overlap, Rerun, RunCause};

impl World {
    /// Asks for runs of these due times, in seconds; returns those that have one now.
    pub(super) fn backfill(&mut self, due: &[u64]) -> Vec<u64> {
        let asked = self.to_backfill(due);
        match self.try_backfill(asked) {
            Ok(JobReply::Backfilled(due)) => {
                let seconds = |due: &Time| due.since(BEGIN).as_secs();
                due.iter().map(seconds).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Runs for these due times are asked for, by what the journal has now.
    fn to_backfill(&self, due: &[u64]) -> Backfill {
        let due = due.iter().map(|due| BEGIN + Duration::from_secs(*due));
        let (job, state) = &self.remembered.jobs.jobs[0];
        Backfill {
            job: job.no,
            version: job.version,
            due: due.collect(),
            ranges: Vec::new(),
            seen: state.last_unscheduled,
        }
    }

    fn try_backfill(&mut self, asked: Backfill) -> Result<JobReply, Reject> {
        let name = "a".into();
        self.ask_jobs(JobVerb::Backfill { name, asked })
    }
}

#[test]
fn missed_due_times_run_one_after_the_other_and_once() {
    let mut w = World::new(5);
    w.job("a", 100, |_| {});
    w.now = w.now + Duration::from_secs(450);
    w.take_over();
    w.seconds(0.0);
    assert_eq!(
        w.states()[..3],
        [(100, Missed), (200, Missed), (300, Missed)]
    );
    w.succeed_all();
    assert_eq!(w.backfill(&[100, 200, 300, 500]), [100, 200, 300]);
    w.seconds(0.0);
    assert_eq!(w.states()[..2], [(100, Running), (200, Waiting)]);
    assert_eq!(w.backfill(&[100, 200]), [0; 0], "once");
    w.succeed_all();
    w.rebuild();
    assert_eq!(w.states()[..2], [(100, Succeeded), (200, Running)]);
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert_eq!(run.cause, RunCause::Backfilled);
}

#[test]
fn who_has_read_the_journal_before_another_backfill_reads_it_again() {
    let mut w = missed_three(Overlap::Skip);
    let read = w.to_backfill(&[100]);
    w.backfill(&[100, 200, 300]);
    w.succeed_all();
    let key = RunKey {
        job: JobNo(1),
        due: BEGIN + Duration::from_secs(100),
    };
    let before = w.remembered.job_runs[&key].clone();
    let late = Backfill {
        ranges: vec![RunImage {
            state: Missed,
            ..before.clone()
        }],
        ..read
    };
    let rejected = Err(Reject::Job(JobReject::RunsChanged));
    assert_eq!(w.try_backfill(late.clone()).map(drop), rejected);
    w.rebuild();
    assert_eq!(w.try_backfill(late).map(drop), rejected);
    assert_eq!(w.remembered.job_runs[&key], before);
}

#[test]
fn bad_old_days_do_not_pause_their_job() {
    let mut w = World::new(5);
    w.job("a", 100, |settings| settings.pause_after_failures = Some(1));
    w.now = w.now + Duration::from_secs(450);
    w.take_over();
    w.seconds(0.0);
    w.succeed_all();
    w.backfill(&[100]);
    w.fail_all();
    assert_eq!(w.states()[0], (100, Failed));
    assert!(w.remembered.jobs.jobs[0].1.paused.is_none());
}

#[test]
fn due_times_of_a_definition_that_has_changed_are_read_again() {
    let mut w = missed_three(Overlap::Skip);
    let read = w.to_backfill(&[100]);
    w.update("a", of(settings(every(70)), [order(1)]));
    let rejected = Err(Reject::Job(JobReject::RunsChanged));
    assert_eq!(w.try_backfill(read.clone()).map(drop), rejected);
    w.delete("a");
    w.job("a", 100, |_| {});
    assert_eq!(w.try_backfill(read).map(drop), rejected, "another job");
}

/// A job whose due times at 100 to 300 s were missed; at 450 s nothing goes on.
fn missed_three(overlap: Overlap) -> World {
    let mut w = World::new(5);
    w.job("a", 100, |settings| settings.overlap = overlap);
    w.now = w.now + Duration::from_secs(450);
    w.take_over();
    w.seconds(0.0);
    w.succeed_all();
    w
}

#[test]
fn a_due_time_waits_for_a_run_of_a_backfill_and_goes_before_the_others() {
    use Overlap::{CancelRunning, KeepNewest, QueueAll, QueueOne, Skip};
    for overlap in [Skip, QueueOne, QueueAll, KeepNewest, CancelRunning] {
        let mut w = missed_three(overlap);
        w.backfill(&[100, 200, 300]);
        w.seconds(50.0);
        let met = w.states();
        assert_eq!(met.last(), Some(&(500, Waiting)), "{overlap:?}");
        assert!(w.stops.is_empty(), "nobody cancels a run of a backfill");
        w.succeed_all();
        let next = w.states();
        assert_eq!(next[0..2], [(100, Succeeded), (200, Waiting)]);
        assert_eq!(next.last(), Some(&(500, Running)), "{overlap:?}");
        w.succeed_all();
        assert_eq!(w.states()[1], (200, Running));
        w.rebuild();
        w.succeed_all();
        w.succeed_all();
        let all = w.states();
        assert!(all.iter().all(|(_, state)| *state == Succeeded), "{all:?}");
    }
}

#[test]
fn due_times_meet_each_other_during_a_backfill_as_without_one() {
    let mut w = missed_three(Overlap::Skip);
    w.backfill(&[100]);
    w.seconds(50.0);
    w.seconds(100.0);
    let ends = w.ends();
    let skipped = (600, Skipped, Some(RunReason::StillRunning));
    assert_eq!(ends[4..], [(500, Waiting, None), skipped]);
    w.succeed_all();
    assert_eq!(w.states()[4], (500, Running));
}

#[test]
fn a_backfill_goes_on_beside_runs_that_may_go_on_side_by_side() {
    let mut w = missed_three(Overlap::Allow);
    w.seconds(50.0);
    w.backfill(&[100, 200]);
    assert_eq!(w.states()[..2], [(100, Running), (200, Waiting)]);
    w.seconds(100.0);
    assert_eq!(w.states()[4..], [(500, Running), (600, Running)]);
}

#[test]
fn a_backfill_keeps_nobody_from_running_the_job() {
    let mut w = missed_three(Overlap::Skip);
    w.backfill(&[100, 200]);
    let asked = w.run_now("a").expect("it waits for its turn");
    assert_eq!(asked.state, Waiting);
    w.succeed_all();
    let run = &w.remembered.job_runs[&asked.key];
    assert_eq!((run.state, w.states()[1]), (Running, (200, Waiting)));
}

/// A job that has missed due times, the last of which has run, and that repeats runs that fail.
fn beside_a_backfill(overlap: Overlap) -> World {
    let mut w = World::new(5);
    w.job("a", 100, |settings| {
        settings.overlap = overlap;
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::from_secs(60),
        });
    });
    w.now = w.now + Duration::from_secs(450);
    w.take_over();
    w.seconds(0.0);
    w.succeed_all();
    w
}

#[test]
fn a_run_of_a_backfill_that_is_to_be_repeated_keeps_no_due_time_waiting() {
    let mut w = beside_a_backfill(Overlap::Skip);
    w.backfill(&[100]);
    w.fail_all();
    assert_eq!(w.states()[0], (100, Retrying));
    w.seconds(50.0);
    assert_eq!(w.states()[4], (500, Running));
    w.seconds(10.0);
    assert_eq!(w.states()[0], (100, Waiting), "they are not side by side");
    w.succeed_all();
    assert_eq!(w.states()[0], (100, Running));
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert_eq!(run.attempt, 2);
}

#[test]
fn a_due_time_that_waits_for_a_backfill_begins_when_that_is_to_be_repeated() {
    for overlap in [Overlap::Skip, Overlap::CancelRunning] {
        let mut w = beside_a_backfill(overlap);
        w.backfill(&[100]);
        w.seconds(50.0);
        assert_eq!(w.states()[4], (500, Waiting), "{overlap:?}");
        w.fail_all();
        assert_eq!(w.states()[0], (100, Retrying), "{overlap:?}");
        assert_eq!(w.states()[4], (500, Running), "{overlap:?}");
    }
}

#[test]
fn a_run_that_was_asked_for_is_of_no_window_when_it_is_backfilled() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    w.seconds(100.0);
    let mut asked = w.to_backfill(&[50]);
    asked.due[0].0 += 1;
    w.try_backfill(asked).expect("it had no run");
    assert_eq!(w.remembered.jobs.jobs[0].1.last_due, None);
    w.backfill(&[50]);
    let last = Some(BEGIN + Duration::from_secs(50));
    assert_eq!(w.remembered.jobs.jobs[0].1.last_due, last);
}
