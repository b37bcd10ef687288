//! What follows a run that came to nothing.

use super::*;

impl World {
    /// A job with one step and one task for failures.
    pub(super) fn alarming_job(&mut self, seconds: u64) {
        let job = NewJob {
            settings: Arc::new(settings(every(seconds))),
            steps: Arc::new(submission(None, [order(1)])),
            on_failure: Arc::new(submission(None, [order(7)])),
        };
        self.create("a", Arc::new(job));
    }

    /// What was said to have happened, by the schedulers that followed.
    pub(super) fn alarms(&self) -> Vec<String> {
        let labels = self.remembered.labels("on_failure");
        labels.into_iter().collect()
    }
}

#[test]
fn a_failed_run_is_followed_by_the_tasks_for_that_and_a_good_one_is_not() {
    let mut w = World::new(5);
    w.alarming_job(10);
    w.seconds(10.0);
    w.succeed_all();
    assert!(w.alarms().is_empty());
    w.seconds(10.0);
    w.fail_all();
    assert_eq!(w.alarms(), ["FAILED"]);
    assert_eq!(w.states(), [(10, Succeeded), (20, Failed)]);
}

#[test]
fn due_times_that_are_missed_together_are_one_failure() {
    let mut w = World::new(5);
    w.alarming_job(10);
    w.now = w.now + Duration::from_secs(45);
    w.take_over();
    w.seconds(0.0);
    assert_eq!(w.states().len(), 4);
    assert_eq!(w.alarms(), ["MISSED"]);
    w.take_over();
    w.seconds(0.0);
    assert_eq!(w.alarms(), ["MISSED"], "once");
}

#[test]
fn a_run_that_fails_in_the_moment_in_which_its_due_time_was_missed_is_a_failure_of_its_own() {
    let mut w = World::new(5);
    w.alarming_job(10);
    w.now = w.now + Duration::from_secs(25);
    w.take_over();
    w.seconds(0.0);
    w.succeed_all();
    let missed = w.now;
    assert_eq!(w.states(), [(10, Missed), (20, Succeeded)]);
    w.backfill(&[10]);
    w.seconds(0.0);
    w.fail_all();
    assert_eq!((w.now, w.alarms().len()), (missed, 2));
    assert_eq!(w.states(), [(10, Failed), (20, Succeeded)]);
}
