//! A job that an owner cannot read, and a later one can.

use super::*;
use crate::core::{JobImage, JobState, Rerun};

type Defined = Vec<(JobImage, JobState)>;

impl World {
    /// The next owner cannot read a job.
    fn unreadable(&mut self) -> Defined {
        let jobs = std::mem::take(&mut self.remembered.jobs.jobs);
        let there = jobs.iter().filter(|(job, _)| !job.deleted);
        self.remembered.jobs.unreadable = there.map(|(job, _)| job.key.clone()).collect();
        self.crash_and_set_back(Duration::ZERO);
        jobs
    }

    /// The next owner can read them.
    fn readable(&mut self, jobs: Defined) {
        self.remembered.jobs.unreadable.clear();
        self.remembered.jobs.jobs = jobs;
        self.crash_and_set_back(Duration::ZERO);
        self.seconds(0.0);
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
