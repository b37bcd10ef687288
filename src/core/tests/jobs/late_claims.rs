//! Claims that had ended when their owners said how the work had gone.

use super::{claims::at, *};
use crate::core::{Epoch, KnownClaim, Rerun, RunClaim, RunReport, RunToken};

impl World {
    /// Says for the first time that the work of a claim is done.
    fn finish_late(&mut self, token: RunToken) -> (RunClaim, Option<RunImage>) {
        match self.say_late(token, true) {
            (claim, run, true) => (claim, run),
            other => panic!("{other:?}"),
        }
    }

    fn read_claim(&self, key: RunKey, token: RunToken, owner: Epoch) -> KnownClaim {
        let claims = self.remembered.job_claims.range((key, RunToken(0))..);
        let claims: Vec<RunClaim> = claims.map(|(_, claim)| claim.clone()).collect();
        let claim = claims.iter().find(|claim| claim.token == token).cloned();
        KnownClaim {
            owner,
            claim: claim.expect("it was given"),
            is_last: claims.last().is_some_and(|last| last.token == token),
            run: self.remembered.job_runs[&key].clone(),
        }
    }

    /// The claim as the journal has it, if it is forgotten, as FinishRun asks.
    fn say_late(&mut self, token: RunToken, succeeded: bool) -> (RunClaim, Option<RunImage>, bool) {
        let due = at(3600);
        let key = RunKey { job: JobNo(1), due };
        let verb = |known| JobVerb::FinishRun {
            name: "a".into(),
            due,
            report: RunReport {
                token,
                succeeded,
                detail: "".into(),
            },
            known,
        };
        let mut answered = self.ask_jobs(verb(None));
        if let Err(Reject::Job(JobReject::NoClaim(owner))) = answered {
            let known = self.read_claim(key, token, owner);
            answered = self.ask_jobs(verb(Some(Box::new(known))));
        }
        match answered {
            Ok(JobReply::Finished(claim, run, changed)) => (claim, run, changed),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_said_late_first_counts_however_often_it_is_said() {
    for (first, then) in [(true, true), (true, false), (false, true)] {
        for forgotten in [false, true] {
            let mut w = World::new(5);
            w.claimed_job(|_| {});
            w.seconds(3600.0);
            let token = w.claimed("one");
            w.seconds(20.0);
            let (claim, _, changed) = w.say_late(token, first);
            assert!(changed);
            let ends = w.ends();
            let expected = match first {
                true => (3600, Succeeded, Some(RunReason::CompletedLate)),
                false => (3600, Waiting, Some(RunReason::ClaimantLost)),
            };
            assert_eq!(ends, [expected]);
            if forgotten {
                w.take_over();
            }
            w.seconds(5.0);
            let (again, _, changed) = w.say_late(token, then);
            assert_eq!((again, changed), (claim, false), "{first}, then {then}");
            assert_eq!(w.ends(), ends, "{first}, then {then}");
        }
    }
}

#[test]
fn two_that_come_back_late_are_told_so_and_the_run_is_done_once() {
    for forgotten in [false, true] {
        let mut w = World::new(5);
        w.claimed_job(|_| {});
        w.seconds(3600.0);
        let first = w.claimed("one");
        w.seconds(20.0);
        let second = w.claimed("two");
        w.seconds(20.0);
        if forgotten {
            w.take_over();
        }
        w.finish_late(second);
        let done = (3600, Succeeded, Some(RunReason::CompletedLate));
        assert_eq!(w.ends(), [done]);
        let (claim, _) = w.finish_late(first);
        assert!(claim.late.is_some_and(|late| late.succeeded));
        assert_eq!(w.ends(), [done], "it was over");
    }
}

#[test]
fn a_late_end_counts_alike_whoever_remembers_the_claim() {
    for forgotten in [false, true] {
        let mut w = World::new(5);
        w.claimed_job(|_| {});
        w.seconds(3600.0);
        let token = w.claimed("one");
        w.seconds(20.0);
        if forgotten {
            w.take_over();
        }
        let (claim, run) = w.finish_late(token);
        assert!(claim.late.is_some_and(|late| late.succeeded));
        let late = (3600, Succeeded, Some(RunReason::CompletedLate));
        assert_eq!(w.ends(), [late]);
        assert_eq!(run.map(|run| run.state), Some(Succeeded));
    }
}

#[test]
fn a_run_that_is_over_stays_lost_whoever_remembers_the_claim() {
    for forgotten in [false, true] {
        let mut w = World::new(5);
        w.claimed_job(|_| {});
        w.seconds(7190.0);
        let token = w.claimed("one");
        w.seconds(20.0);
        if forgotten {
            w.take_over();
        }
        w.finish_late(token);
        let lost = (3600, Lost, Some(RunReason::ClaimantLost));
        assert_eq!(w.ends(), [lost]);
    }
}

#[test]
fn a_late_end_does_not_count_when_others_have_claimed_the_run_since() {
    for forgotten in [false, true] {
        let mut w = World::new(5);
        w.claimed_job(|_| {});
        w.seconds(3600.0);
        let first = w.claimed("one");
        w.seconds(20.0);
        w.claimed("two");
        w.seconds(20.0);
        if forgotten {
            w.take_over();
        }
        w.finish_late(first);
        let again = (3600, Waiting, Some(RunReason::ClaimantLost));
        assert_eq!(w.ends(), [again]);
    }
}

#[test]
fn a_late_end_counts_while_the_next_attempt_is_still_to_come() {
    for forgotten in [false, true] {
        let mut w = World::new(5);
        w.claimed_job(|settings| {
            settings.max_runtime = Some(Duration::from_secs(10));
            settings.rerun = Some(Rerun {
                within_window: true,
                max: None,
                delay: Duration::from_secs(60),
            });
        });
        w.seconds(3600.0);
        let token = w.claimed("one");
        w.seconds(10.0);
        assert_eq!(w.states(), [(3600, Retrying)]);
        if forgotten {
            w.take_over();
        }
        w.finish_late(token);
        let late = (3600, Succeeded, Some(RunReason::CompletedLate));
        assert_eq!(w.ends(), [late]);
        w.seconds(100.0);
        assert_eq!(w.ends(), [late], "it is over");
    }
}

/// A job that is claimed, with tasks that follow a failure.
fn followed_job(w: &mut World) {
    w.claimed_job(|_| {});
    let failing = NewJob {
        settings: w.remembered.jobs.jobs[0].0.settings.clone(),
        steps: Arc::new(submission(None, [])),
        on_failure: Arc::new(submission(None, [order(7)])),
    };
    let (name, version) = ("a".into(), None);
    let job = Arc::new(failing);
    w.ask_jobs(JobVerb::Update { name, job, version })
        .expect("it is there");
}

#[test]
fn each_that_comes_back_late_is_followed_by_the_tasks_for_that() {
    let mut w = World::new(5);
    followed_job(&mut w);
    w.seconds(3600.0);
    let first = w.claimed("one");
    w.seconds(20.0);
    let second = w.claimed("two");
    w.seconds(20.0);
    let _ = (w.finish_late(first), w.finish_late(second));
    assert_eq!(w.remembered.labels("on_failure"), ["LATE", "LATE"]);
}

#[test]
fn what_was_read_for_an_owner_that_is_gone_is_read_again() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.seconds(20.0);
    let due = at(3600);
    let report = RunReport {
        token,
        succeeded: true,
        detail: "".into(),
    };
    let finish = |known| JobVerb::FinishRun {
        name: "a".into(),
        due,
        report: report.clone(),
        known,
    };
    w.rebuild();
    w.seconds(1.0);
    let key = RunKey { job: JobNo(1), due };
    let known = KnownClaim {
        owner: Epoch(0),
        claim: w.remembered.job_claims[&(key, token)].clone(),
        is_last: true,
        run: w.remembered.job_runs[&key].clone(),
    };
    let answered = w.ask_jobs(finish(Some(Box::new(known.clone()))));
    let Err(Reject::Job(JobReject::NoClaim(owner))) = answered else {
        panic!("{answered:?}");
    };
    let known = KnownClaim { owner, ..known };
    w.ask_jobs(finish(Some(Box::new(known))))
        .expect("it is late");
}

#[test]
fn a_report_that_was_read_before_another_one_was_decided_changes_nothing() {
    let mut w = World::new(5);
    followed_job(&mut w);
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.seconds(20.0);
    // Longer than ended claims are remembered.
    w.seconds(3600.0);
    let due = at(3600);
    let finish = |known| JobVerb::FinishRun {
        name: "a".into(),
        due,
        report: RunReport {
            token,
            succeeded: true,
            detail: "".into(),
        },
        known,
    };
    let answered = w.ask_jobs(finish(None));
    let Err(Reject::Job(JobReject::NoClaim(owner))) = answered else {
        panic!("{answered:?}");
    };
    let known = w.read_claim(RunKey { job: JobNo(1), due }, token, owner);
    for is_first in [true, false] {
        let answered = w.ask_jobs(finish(Some(Box::new(known.clone()))));
        let Ok(JobReply::Finished(_, _, changed)) = answered else {
            panic!("{answered:?}");
        };
        assert_eq!(changed, is_first);
        w.seconds(1.0);
    }
    let late = w.remembered.labels("on_failure");
    assert_eq!(late.iter().filter(|label| *label == "LATE").count(), 1);
}
