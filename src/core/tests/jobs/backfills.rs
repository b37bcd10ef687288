//! Due times in the past have runs after all.

use super::*;
use crate::core::{Backfill, RunCause};

impl World {
    /// Asks for runs of these due times, in seconds; returns those that have one now.
    fn backfill(&mut self, due: &[u64]) -> Vec<u64> {
        let due = due.iter().map(|due| BEGIN + Duration::from_secs(*due));
        let asked = Backfill {
            due: due.collect(),
            ranges: Vec::new(),
        };
        let name = "a".into();
        match self.ask_jobs(JobVerb::Backfill { name, asked }) {
            Ok(JobReply::Backfilled(due)) => {
                let seconds = |due: &Time| due.since(BEGIN).as_secs();
                due.iter().map(seconds).collect()
            }
            other => panic!("{other:?}"),
        }
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
    assert_eq!(w.backfill(&[100]), [0; 0], "nor when it is over");
    w.rebuild();
    assert_eq!(w.states()[..2], [(100, Succeeded), (200, Running)]);
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert_eq!(run.cause, RunCause::Backfilled);
}

#[test]
fn what_waits_of_a_backfill_keeps_no_due_time_from_its_run() {
    let mut w = World::new(5);
    w.job("a", 100, |_| {});
    w.now = w.now + Duration::from_secs(450);
    w.take_over();
    w.seconds(0.0);
    w.succeed_all();
    w.backfill(&[100, 200, 300]);
    w.seconds(50.0);
    let met = w.ends();
    assert_eq!(
        met.last(),
        Some(&(500, Skipped, Some(RunReason::StillRunning)))
    );
    w.succeed_all();
    w.succeed_all();
    w.succeed_all();
    w.seconds(100.0);
    assert_eq!(w.states().last(), Some(&(600, Running)));
}
