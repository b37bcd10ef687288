//! The agent as a whole is stopped and started.

use super::*;
use crate::core::StopMode;

fn stop(w: &mut World, mode: StopMode) -> (usize, bool) {
    let reason = "a release".into();
    match w.ask_jobs(JobVerb::StopAgent { mode, reason }) {
        Ok(JobReply::Agent(view, changed)) => (view.count, changed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_agent_fires_nothing_and_says_what_still_runs() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    w.seconds(10.0);
    assert_eq!(stop(&mut w, StopMode::Drain), (1, true));
    assert_eq!(stop(&mut w, StopMode::Drain), (1, false));
    w.succeed_all();
    w.seconds(15.0);
    w.take_over();
    w.seconds(10.0);
    assert_eq!(w.states(), [(10, Succeeded)]);
    assert_eq!(w.run_now("a").err(), Some(JobReject::AgentStopped));
    assert!(w.status().jobs.agent.is_stopped);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    let missed = (20, Missed, Some(RunReason::AgentStopped));
    assert_eq!(w.ends()[1..], [missed, (30, Running, None)]);
}

#[test]
fn what_runs_and_what_waits_is_cancelled_if_the_operator_says_so() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.overlap = Overlap::QueueOne);
    w.seconds(20.0);
    assert_eq!(stop(&mut w, StopMode::Drain), (1, true));
    assert_eq!(stop(&mut w, StopMode::CancelRunning), (1, false));
    let handle = w.runs()[0];
    w.report(handle, 1, crate::core::Report::Stopped);
    let stopped = Some(RunReason::AgentStopped);
    assert_eq!(
        w.ends(),
        [(10, Cancelled, stopped), (20, Cancelled, stopped)]
    );
}
