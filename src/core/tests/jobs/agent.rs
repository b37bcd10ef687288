//! The agent as a whole is stopped and started.

use super::*;

fn stop(w: &mut World, mode: StopMode) -> (usize, bool) {
    let reason = "a release".into();
    match w.ask_jobs(stop_verb(mode, reason)) {
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

/// A paused job of which somebody asked for runs while the agent fires, and which is stopped.
fn paused_and_stopped(set: impl FnOnce(&mut JobSettings)) -> World {
    let mut w = World::new(5);
    w.job("a", 1000, set);
    let (name, reason) = ("a".into(), "".into());
    w.ask_jobs(JobVerb::Pause { name, reason })
        .expect("it is there");
    w.run_now("a").expect("also of a paused job");
    w
}

#[test]
fn a_run_that_was_asked_for_has_its_turn_when_the_agent_starts_though_its_job_is_paused() {
    let mut w = paused_and_stopped(|settings| settings.overlap = Overlap::QueueAll);
    w.run_now("a").expect("it waits");
    stop(&mut w, StopMode::Drain);
    w.succeed_all();
    assert_eq!(w.states(), [(0, Succeeded), (0, Waiting)]);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    assert_eq!(w.states(), [(0, Succeeded), (0, Running)]);
}

#[test]
fn a_run_that_was_asked_for_is_repeated_though_its_job_is_paused() {
    let mut w = paused_and_stopped(|settings| {
        settings.rerun = Some(crate::core::Rerun {
            within_window: false,
            max: Some(1),
            delay: Duration::from_secs(5),
        });
    });
    w.fail_all();
    assert_eq!(w.states(), [(0, Retrying)]);
    stop(&mut w, StopMode::Drain);
    w.seconds(5.0);
    assert_eq!(w.states(), [(0, Retrying)]);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    assert_eq!(w.states(), [(0, Running)]);
}

#[test]
fn an_operator_is_told_of_the_runs_of_the_own_namespace() {
    let mut w = World::new(500);
    for number in 0..150 {
        w.job(&format!("job-{number:03}"), 10, |_| {});
    }
    w.seconds(10.0);
    let caller = Caller {
        namespace: Namespace("other".into()),
        name: "bob".into(),
    };
    let job = of(settings(every(1000)), [order(1)]);
    let name: Arc<str> = "own".into();
    let verb = JobVerb::Create {
        name: name.clone(),
        job,
    };
    w.command(Command::Job {
        caller: caller.clone(),
        verb,
    });
    let verb = JobVerb::Run {
        name,
        request: None,
        from_order: None,
    };
    w.command(Command::Job {
        caller: caller.clone(),
        verb,
    });
    let verb = stop_verb(StopMode::Drain, "".into());
    let Some(Reply::Job(reply)) = w.command(Command::Job { caller, verb }) else {
        panic!("no answer");
    };
    let JobReply::Agent(view, true) = *reply else {
        panic!("{reply:?}");
    };
    let named: Vec<&str> = view.running.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!((named, view.count), (vec!["own"], 151));
}

#[test]
fn what_is_paused_or_stopped_is_not_late() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    let (name, reason) = ("a".into(), "".into());
    w.ask_jobs(JobVerb::Pause { name, reason })
        .expect("it is there");
    w.seconds(3600.0);
    assert_eq!((w.status().jobs.late, w.status().jobs.paused), (0, 1));
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    stop(&mut w, StopMode::Drain);
    w.seconds(3600.0);
    assert_eq!(w.status().jobs.late, 0);
}
