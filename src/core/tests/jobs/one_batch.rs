//! Calls that one batch decides, one after the other, before anything of them is carried out.

use super::{claims::at, *};
use crate::core::{Rerun, RunReport, RunToken, model::limits::Limits};

fn say(verb: JobVerb) -> Command {
    let caller = Caller {
        namespace: Namespace("default".into()),
        name: "ann".into(),
    };
    Command::Job { caller, verb }
}

fn failed(due: u64, token: RunToken) -> Command {
    let report = RunReport {
        token,
        succeeded: false,
        detail: "said".into(),
    };
    say(JobVerb::FinishRun {
        name: "a".into(),
        due: at(due),
        report,
        known: None,
    })
}

#[test]
fn a_cancelled_run_stays_cancelled_when_its_claimant_fails() {
    let mut w = World::new(5);
    w.claimed_job(|settings| {
        settings.rerun = Some(Rerun {
            within_window: false,
            max: Some(3),
            delay: Duration::ZERO,
        });
    });
    w.seconds(3600.0);
    let token = w.claimed("one");
    let cancel = JobVerb::CancelRun {
        name: "a".into(),
        due: at(3600),
    };
    w.commands([say(cancel), failed(3600, token)]);
    w.seconds(1.0);
    assert_eq!(w.ends(), [(3600, Cancelled, Some(RunReason::Asked))]);
}

#[test]
fn a_target_is_asked_though_the_job_is_deleted_before() {
    for crash in [false, true] {
        let mut w = World::new(5);
        let mut settings = settings(every(1000));
        settings.claimed = true;
        w.create("a", of(settings, [order(1), order(2)]));
        w.seconds(1000.0);
        let token = w.claimed("one");
        let delete = JobVerb::Delete {
            name: "a".into(),
            version: None,
        };
        w.commands([failed(1000, token), say(delete)]);
        assert_eq!(w.states(), [(1000, Running)], "{crash}");
        if crash {
            w.rebuild();
        }
        let handle = w.runs()[0];
        w.succeed(handle, [1]);
        w.succeed(handle, [2]);
        assert_eq!(w.states(), [(1000, Succeeded)], "{crash}");
    }
}

#[test]
fn steps_that_change_after_they_were_promised_room_are_held_to_the_limits() {
    let mut w = World::limited(
        5,
        Limits {
            queued_tasks: 2,
            ..Limits::default()
        },
    );
    w.job("a", 100_000, |_| {});
    let run = JobVerb::Run {
        name: "a".into(),
        request: None,
        from_order: None,
    };
    let larger = JobVerb::Update {
        name: "a".into(),
        job: of(settings(every(100_000)), (1..=3).map(order)),
        version: None,
    };
    w.commands([say(run), say(larger)]);
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert_eq!((run.state, run.reason), (Failed, Some(RunReason::Refused)));
}

#[test]
fn a_target_that_its_job_names_no_more_is_not_asked() {
    let mut w = World::new(5);
    let claimed = |steps: &[_]| {
        let mut settings = settings(every(1000));
        settings.claimed = true;
        match steps {
            [] => of(settings, []),
            _ => of(settings, [order(1), order(2)]),
        }
    };
    w.create("a", claimed(&[1]));
    w.seconds(1000.0);
    let token = w.claimed("one");
    let update = JobVerb::Update {
        name: "a".into(),
        job: claimed(&[]),
        version: None,
    };
    w.commands([failed(1000, token), say(update)]);
    assert_eq!(w.states(), [(1000, Failed)]);
    assert!(w.runs().is_empty(), "nobody asks");
}
