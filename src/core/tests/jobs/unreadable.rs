//! A job that an owner cannot read, and a later one can.

use super::*;
use crate::core::{JobImage, JobState, Rerun, ShardId};

pub(super) type Defined = Vec<(JobImage, JobState)>;

impl World {
    /// The next owner cannot read a job.
    pub(super) fn unreadable(&mut self) -> Defined {
        let jobs = std::mem::take(&mut self.remembered.jobs.jobs);
        let there = jobs.iter().filter(|(job, _)| !job.deleted);
        self.remembered.jobs.unreadable = there.map(|(job, _)| job.key.clone()).collect();
        self.crash_and_set_back(Duration::ZERO);
        jobs
    }

    /// The next owner can read them.
    pub(super) fn readable(&mut self, jobs: Defined) {
        self.remembered.jobs.unreadable.clear();
        self.remembered.jobs.jobs = jobs;
        self.crash_and_set_back(Duration::ZERO);
        self.seconds(0.0);
    }

    /// The agent is stopped, and what it runs is cancelled.
    fn stop_all(&mut self) {
        let verb = stop_verb(StopMode::CancelRunning, "".into());
        self.ask_jobs(verb).expect("it stops");
    }
}

#[test]
fn what_is_to_be_repeated_waits_for_an_owner_that_can_read_its_job() {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::from_secs(60),
        });
    });
    w.seconds(1000.0);
    w.fail_all();
    let jobs = w.unreadable();
    w.seconds(100.0);
    assert_eq!(w.states(), [(1000, Retrying)]);
    w.readable(jobs);
    assert_eq!(w.states(), [(1000, Running)]);
}

#[test]
fn whether_a_failed_run_is_repeated_says_an_owner_that_can_read_its_job() {
    let rerun = Rerun {
        within_window: false,
        max: Some(1),
        delay: Duration::from_secs(60),
    };
    for rerun in [Some(rerun), None] {
        let mut w = World::new(5);
        w.job("a", 1000, |settings| settings.rerun = rerun);
        w.seconds(1000.0);
        let jobs = w.unreadable();
        w.fail_all();
        w.seconds(100.0);
        assert_eq!(w.states(), [(1000, Retrying)], "{rerun:?}");
        w.readable(jobs);
        if rerun.is_some() {
            assert_eq!(w.states(), [(1000, Retrying)]);
            w.seconds(60.0);
            assert_eq!(w.states(), [(1000, Running)]);
            w.fail_all();
        }
        assert_eq!(w.states(), [(1000, Failed)], "{rerun:?}");
        assert_eq!(w.status().jobs.failing, 1, "{rerun:?}");
    }
}

/// A run of a job that is repeated, and its scheduler.
pub(super) fn repeated() -> (World, Handle) {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| {
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::ZERO,
        });
    });
    w.seconds(1000.0);
    let handle = w.runs()[0];
    (w, handle)
}

/// A run of a job that is repeated, under an owner that can read neither job nor scheduler.
fn of_unreadable_scheduler() -> (World, Handle, Defined) {
    let (mut w, handle) = repeated();
    w.remembered.unreadable.insert(handle);
    let jobs = w.unreadable();
    w.seconds(100.0);
    assert_eq!(w.ends(), [(1000, Running, None)]);
    (w, handle, jobs)
}

#[test]
fn a_run_goes_on_whose_scheduler_could_not_be_read_while_its_job_could_not() {
    let (mut w, handle, jobs) = of_unreadable_scheduler();
    w.remembered.unreadable.clear();
    w.remembered.set_aside = true;
    w.readable(jobs);
    assert_eq!(w.ends(), [(1000, Running, None)]);
    assert_eq!(w.runs(), [handle], "no other one runs beside it");
    w.succeed_all();
    assert_eq!(w.states(), [(1000, Succeeded)]);
}

#[test]
fn a_run_that_was_cancelled_is_not_repeated_though_its_scheduler_is_gone() {
    let (mut w, handle, jobs) = of_unreadable_scheduler();
    w.stop_all();
    w.remembered.unreadable.clear();
    w.remembered.forget(handle);
    w.readable(jobs);
    let stopped = Some(RunReason::AgentStopped);
    assert_eq!(w.ends()[0], (1000, Cancelled, stopped));
    assert!(w.runs().is_empty(), "no other one runs");
}

#[test]
fn a_run_that_was_cancelled_is_so_once_its_scheduler_can_be_read() {
    let (mut w, _, jobs) = of_unreadable_scheduler();
    w.stop_all();
    let stopped = Some(RunReason::AgentStopped);
    assert_eq!(w.ends(), [(1000, Running, stopped)]);
    w.remembered.unreadable.clear();
    w.remembered.set_aside = true;
    w.readable(jobs);
    assert_eq!(w.ends(), [(1000, Cancelled, stopped)]);
    assert!(w.running.is_empty(), "it does not start again");
}

#[test]
fn a_failed_run_of_a_job_that_is_deleted_waits_for_no_decision() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    w.seconds(1000.0);
    w.delete("a");
    let jobs = w.unreadable();
    w.fail_all();
    assert_eq!(w.states(), [(1000, Retrying)]);
    w.readable(jobs);
    assert_eq!(w.states(), [(1000, Failed)]);
}

#[test]
fn what_follows_a_success_does_so_once_the_job_can_be_read() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    let follower = settings(RuleText::After("a".to_owned()));
    w.create("b", of(follower, [order(1)]));
    w.seconds(1000.0);
    w.fail_all();
    w.seconds(1000.0);
    let jobs = w.unreadable();
    w.succeed_all();
    assert_eq!(w.states(), [(1000, Failed), (2000, Retrying)]);
    w.readable(jobs);
    assert_eq!(w.states(), [(1000, Failed), (2000, Succeeded)]);
    assert_eq!(w.status().jobs.failing, 0);
    let runs = w.remembered.job_runs.range(RunKey::all_of(JobNo(2)));
    let states: Vec<_> = runs.map(|(_, run)| run.state).collect();
    assert_eq!(states, [Running]);
}

#[test]
fn what_may_have_succeeded_is_not_cancelled_while_its_job_is_unreadable() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    w.seconds(1000.0);
    let jobs = w.unreadable();
    w.succeed_all();
    w.stop_all();
    assert_eq!(w.states(), [(1000, Retrying)]);
    w.readable(jobs);
    assert_eq!(w.states(), [(1000, Succeeded)]);
}

/// A run that is claimed, and whose target can be asked.
pub(super) fn claimed_on_a_target(overlap: Overlap) -> World {
    let mut w = World::new(5);
    let mut settings = settings(every(1000));
    settings.claimed = true;
    settings.overlap = overlap;
    w.create("a", of(settings, [order(1)]));
    w.seconds(1000.0);
    w.claimed("one");
    w
}

#[test]
fn what_a_target_answers_counts_although_the_job_is_unreadable() {
    for is_done in [true, false] {
        let mut w = claimed_on_a_target(Overlap::Skip);
        w.seconds(15.0);
        let asks = (1000, Running, Some(RunReason::ClaimantLost));
        assert_eq!(w.ends(), [asks]);
        let jobs = w.unreadable();
        match is_done {
            true => w.succeed_all(),
            false => w.fail_all(),
        }
        assert_eq!(w.states(), [(1000, Retrying)]);
        w.readable(jobs);
        if is_done {
            assert_eq!(w.ends(), [(1000, Succeeded, None)]);
        } else {
            assert_eq!(w.ends(), [asks], "once more");
            w.fail_all();
            assert_eq!(w.states(), [(1000, Waiting)]);
        }
    }
}

#[test]
fn what_is_cancelled_while_its_job_is_unreadable_is_not_repeated() {
    let stopped = Some(RunReason::AgentStopped);
    for is_asked in [true, false] {
        let mut w = claimed_on_a_target(Overlap::Skip);
        if is_asked {
            w.seconds(15.0);
        }
        let jobs = w.unreadable();
        if !is_asked {
            w.seconds(1000.0);
        }
        let state = if is_asked { Running } else { Retrying };
        assert_eq!(w.states(), [(1000, state)]);
        w.stop_all();
        assert_eq!(w.ends(), [(1000, state, stopped)]);
        w.fail_all();
        assert_eq!(w.ends(), [(1000, Retrying, stopped)], "{is_asked}");
        w.readable(jobs);
        assert_eq!(w.ends()[0], (1000, Running, stopped), "{is_asked}");
        w.fail_all();
        assert_eq!(w.ends()[0], (1000, Cancelled, stopped), "{is_asked}");
    }
}

/// However often a run is cancelled that has asked its target, it waits for an owner that can read
/// its job, and asks anew: the work is done.
fn has_the_last_word(w: &mut World, jobs: Defined) {
    let stopped = Some(RunReason::AgentStopped);
    for _ in 0..2 {
        w.stop_all();
        assert_eq!(w.ends(), [(1000, Retrying, stopped)]);
    }
    w.readable(jobs);
    assert_eq!(w.ends(), [(1000, Running, stopped)]);
    w.succeed_all();
    assert_eq!(w.ends(), [(1000, Succeeded, None)]);
}

#[test]
fn a_target_that_was_not_reached_has_the_last_word_on_a_cancelled_run() {
    for is_cancelled in [false, true] {
        let mut w = claimed_on_a_target(Overlap::Skip);
        w.seconds(15.0);
        let jobs = w.unreadable();
        if is_cancelled {
            w.stop_all();
        }
        w.fail_all();
        has_the_last_word(&mut w, jobs);
    }
}

#[test]
fn a_target_that_was_not_asked_to_the_end_has_the_last_word_on_a_cancelled_run() {
    let mut w = claimed_on_a_target(Overlap::Skip);
    w.seconds(15.0);
    let jobs = w.unreadable();
    w.stop_all();
    // The next owner cannot read it either, and stops the question.
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(0.0);
    has_the_last_word(&mut w, jobs);
}

#[test]
fn a_target_is_asked_that_could_not_be_while_the_job_was_unreadable() {
    for is_gone in [true, false] {
        let mut w = claimed_on_a_target(Overlap::Skip);
        if is_gone {
            w.seconds(15.0);
            let gone = Handle::new(ShardId::default(), 1, [1; 10]);
            w.remembered.jobs.runs[0].handle = Some(gone);
        }
        let jobs = w.unreadable();
        w.seconds(1000.0);
        let lost = Some(RunReason::ClaimantLost);
        let state = if is_gone { Running } else { Retrying };
        assert_eq!(w.ends(), [(1000, state, lost)], "{is_gone}");
        w.readable(jobs);
        assert_eq!(w.ends()[0], (1000, Running, lost), "{is_gone}");
        w.succeed_all();
        assert_eq!(w.ends()[0], (1000, Succeeded, None), "{is_gone}");
    }
}
