//! Runs behind those of another job, while nothing may start.

use super::*;

/// Successful runs of `a` under a stopped agent, and a job `b` that follows it and has an alarm.
fn after_runs_of_a_stopped_agent(misfire: Misfire, runs: usize) -> World {
    let mut w = World::new(5);
    w.job("a", 1000, |settings| settings.overlap = Overlap::Allow);
    let mut settings = settings(RuleText::After("a".to_owned()));
    settings.misfire = misfire;
    let b = NewJob {
        on_failure: Arc::new(submission(None, [order(7)])),
        ..(*of(settings, [order(1)])).clone()
    };
    w.create("b", Arc::new(b));
    for _ in 0..runs {
        w.run_now("a").expect("it may");
    }
    let (mode, reason) = (StopMode::Drain, "".into());
    w.ask_jobs(stop_verb(mode, reason)).expect("it stops");
    w.seconds(1.0);
    w.succeed_all();
    w
}

fn followed(w: &World) -> Vec<(RunState, Option<RunReason>)> {
    let runs = w.remembered.job_runs.range(RunKey::all_of(JobNo(2)));
    runs.map(|(_, run)| (run.state, run.reason)).collect()
}

#[test]
fn what_follows_under_a_stopped_agent_goes_by_the_rule_for_missed_due_times() {
    let missed = (Missed, Some(RunReason::AgentStopped));
    let waits = (Waiting, None);
    for (misfire, ends, alarms) in [
        (Misfire::Skip, [missed, missed, missed], 3),
        (Misfire::RunOnce, [missed, missed, waits], 2),
        (Misfire::CatchUp(2), [missed, waits, waits], 1),
    ] {
        let mut w = after_runs_of_a_stopped_agent(misfire, 3);
        assert_eq!(followed(&w), ends, "{misfire:?}");
        assert_eq!(w.remembered.labels("on_failure"), vec!["MISSED"; alarms]);
        w.rebuild();
        w.ask_jobs(JobVerb::StartAgent).expect("it starts");
        for _ in 0..3 {
            w.succeed_all();
        }
        let ends = ends.map(|end| if end == waits { (Succeeded, None) } else { end });
        assert_eq!(followed(&w), ends, "{misfire:?}");
    }
}
