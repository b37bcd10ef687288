//! A job that an owner cannot read, and a later one can.

use super::*;
use crate::core::Rerun;

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
    let jobs = std::mem::take(&mut w.remembered.jobs.jobs);
    w.remembered.jobs.unreadable = jobs.iter().map(|(job, _)| job.key.clone()).collect();
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(100.0);
    assert_eq!(w.states(), [(1000, Retrying)]);
    w.remembered.jobs.unreadable.clear();
    w.remembered.jobs.jobs = jobs;
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(0.0);
    assert_eq!(w.states(), [(1000, Running)]);
}
