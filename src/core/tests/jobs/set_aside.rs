//! An owner can read a job, and not the scheduler of its run; a later one can.

use super::{
    unreadable::{claimed_on_a_target, repeated},
    *,
};

impl World {
    /// The next owner sets this scheduler aside.
    fn set_aside(&mut self, handle: Handle) {
        self.remembered.unreadable = [handle].into();
        self.crash_and_set_back(Duration::ZERO);
        self.seconds(1.0);
    }

    /// The next owner can read it.
    fn read_again(&mut self) {
        self.remembered.unreadable.clear();
        self.remembered.set_aside = true;
        self.crash_and_set_back(Duration::ZERO);
        self.seconds(1.0);
    }
}

/// A run of a job that is repeated, under an owner that has set its scheduler aside.
fn of_set_aside() -> (World, Handle) {
    let (mut w, handle) = repeated();
    w.set_aside(handle);
    (w, handle)
}

fn cancel_first() -> JobVerb {
    JobVerb::CancelRun {
        name: "a".into(),
        due: BEGIN + Duration::from_secs(1000),
    }
}

const CANCELLING: (i64, RunState, Option<RunReason>) = (1000, Running, Some(RunReason::Asked));
const CANCELLED: (i64, RunState, Option<RunReason>) = (1000, Cancelled, Some(RunReason::Asked));

#[test]
fn a_run_is_not_repeated_whose_scheduler_may_go_on() {
    let (mut w, handle) = of_set_aside();
    w.seconds(999.0);
    let skipped = (2000, Skipped, Some(RunReason::StillRunning));
    assert_eq!(w.ends(), [(1000, Running, None), skipped]);
    assert_eq!(w.runs(), [handle], "no other one runs beside it");
    assert!(w.running.is_empty());
    w.read_again();
    assert_eq!(w.ends(), [(1000, Running, None), skipped]);
    w.succeed_all();
    assert_eq!(w.states(), [(1000, Succeeded), (2000, Skipped)]);
}

#[test]
fn a_run_is_repeated_once_its_scheduler_is_gone() {
    let (mut w, handle) = of_set_aside();
    w.remembered.forget(handle);
    w.read_again();
    assert_eq!(w.states(), [(1000, Running)]);
    assert_ne!(w.runs(), [handle]);
}

#[test]
fn a_run_is_cancelled_once_its_scheduler_can_be_read() {
    let (mut w, handle) = of_set_aside();
    w.ask_jobs(cancel_first()).expect("it goes on");
    assert_eq!(w.ends(), [CANCELLING]);
    w.read_again();
    assert_eq!(w.ends(), [CANCELLED]);
    assert_eq!(w.outcomes(handle), [(1, Outcome::Cancelled)]);
}

#[test]
fn a_job_that_is_defined_anew_does_not_wait_for_such_a_run() {
    let (mut w, _) = of_set_aside();
    w.ask_jobs(cancel_first()).expect("it goes on");
    w.delete("a");
    w.job("a", 1000, |_| {});
    w.seconds(999.0);
    assert_eq!((w.runs().len(), w.running.len()), (2, 1));
    w.read_again();
    assert_eq!(w.ends(), [CANCELLED]);
}

#[test]
fn a_target_is_asked_anew_when_who_asked_it_is_set_aside() {
    let mut w = claimed_on_a_target(Overlap::Skip);
    w.seconds(15.0);
    let handle = w.runs()[0];
    w.set_aside(handle);
    let asks = (1000, Running, Some(RunReason::ClaimantLost));
    assert_eq!(w.ends(), [asks]);
    assert_ne!(w.runs(), [handle]);
    w.succeed_all();
    assert_eq!(w.ends(), [(1000, Succeeded, None)]);
}
