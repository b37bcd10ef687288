//! Runs that outside programs do: one claimant at a time, and none is forgotten.

use super::*;
use crate::core::{Claimant, RunClaim, RunClaimOutcome, RunReport, RunToken};

pub(super) const LEASE: Duration = Duration::from_secs(15);

pub(super) fn at(seconds: u64) -> Time {
    BEGIN + Duration::from_secs(seconds)
}

/// A job for claimants, once per day between 09:00 and 10:00: an hour from the begin.
pub(super) fn claimed_daily(set: impl FnOnce(&mut JobSettings)) -> Arc<NewJob> {
    let mut settings = settings(RuleText::OncePer {
        period: Period::Day,
        after: "09:00".to_owned(),
        before: "10:00".to_owned(),
    });
    settings.claimed = true;
    set(&mut settings);
    of(settings, [])
}

impl World {
    pub(super) fn claimed_job(&mut self, set: impl FnOnce(&mut JobSettings)) {
        self.create("a", claimed_daily(set));
    }

    pub(super) fn claim_for(&mut self, owner: &str) -> JobReply {
        self.claim_of(None, owner).expect("it is there")
    }

    /// Claims the run of a due time, or the oldest.
    fn claim_of(&mut self, due: Option<Time>, owner: &str) -> Result<JobReply, Reject> {
        let claimant = Claimant {
            owner: owner.into(),
            request: None,
            lease: LEASE,
        };
        let verb = JobVerb::Claim {
            name: "a".into(),
            due,
            claimant,
        };
        self.ask_jobs(verb)
    }

    pub(super) fn claimed(&mut self, owner: &str) -> RunToken {
        match self.claim_for(owner) {
            JobReply::Claimed(claimed, true) => claimed.claim.token,
            other => panic!("{other:?}"),
        }
    }

    /// Who is in the way.
    fn refused(&mut self, owner: &str) -> Option<String> {
        match self.claim_for(owner) {
            JobReply::NotClaimed(None) => None,
            JobReply::NotClaimed(Some((_, claim))) => claim.map(|claim| claim.owner.to_string()),
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, token: RunToken, succeeded: bool) -> Result<(RunClaim, bool), Reject> {
        let verb = JobVerb::FinishRun {
            name: "a".into(),
            due: at(3600),
            report: RunReport {
                token,
                succeeded,
                detail: "said".into(),
            },
            known: None,
        };
        match self.ask_jobs(verb)? {
            JobReply::Finished(claim, _, changed) => Ok((claim, changed)),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn renew_run(&mut self, token: RunToken) -> Result<JobReply, Reject> {
        self.ask_jobs(JobVerb::RenewRun {
            name: "a".into(),
            due: at(3600),
            token,
        })
    }
}

#[test]
fn a_run_for_claims_has_no_order_to_begin_with() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    let verb = JobVerb::Run {
        name: "a".into(),
        request: None,
        from_order: Some(5),
    };
    let refused = Reject::Job(JobReject::OnlyForClaims);
    assert_eq!(w.ask_jobs(verb).err(), Some(refused));
    w.run_now("a").expect("it is offered");
}

#[test]
fn one_of_two_has_the_run_of_a_day_and_the_other_is_told_who() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    assert_eq!(w.refused("one"), None, "nothing is due");
    w.seconds(3600.0);
    assert_eq!(w.states(), [(3600, Waiting)]);
    let token = w.claimed("one");
    assert_eq!(w.refused("two").as_deref(), Some("one"));
    assert_eq!(w.states(), [(3600, Running)]);
    let (claim, changed) = w.finish(token, true).expect("it has it");
    assert!(changed && claim.is_finished() && claim.late.is_none());
    assert_eq!(w.states(), [(3600, Succeeded)]);
    assert!(!w.finish(token, true).expect("known").1, "once more");
    assert_eq!(w.refused("two"), None);
    w.seconds(86_400.0);
    let next = w.claimed("two");
    assert!(next > token);
}

#[test]
fn a_lost_claim_is_given_to_another_and_its_end_is_late() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let first = w.claimed("one");
    w.seconds(14.0);
    w.renew_run(first).expect("in time");
    w.seconds(14.0);
    assert_eq!(w.refused("two").as_deref(), Some("one"));
    w.seconds(1.0);
    let lost = (3600, Waiting, Some(RunReason::ClaimantLost));
    assert_eq!(w.ends(), [lost]);
    assert!(w.renew_run(first).is_err());
    let second = w.claimed("two");
    let (claim, changed) = w.finish(first, true).expect("it had it");
    assert!(changed && claim.late.is_some_and(|late| late.succeeded));
    let end = claim.end.expect("it has ended");
    assert_eq!(end.outcome, RunClaimOutcome::Lost);
    assert_eq!(w.states(), [(3600, Running)], "the other one goes on");
    w.finish(second, true).expect("it has it");
    assert_eq!(w.states(), [(3600, Succeeded)]);
    let run = w.remembered.job_runs.values().next().expect("a run");
    assert_eq!((run.attempt, &*run.by), (2, "two"));
}

#[test]
fn a_lease_is_as_long_while_the_time_of_the_service_runs_twice_as_fast() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    w.shard.set_lead(0);
    let token = w.claimed("one");
    for lead in 1..=14 {
        w.shard.set_lead(lead * 1_000_000);
        w.seconds(2.0);
    }
    w.renew_run(token).expect("14 seconds have passed");
    for lead in 15..=28 {
        w.shard.set_lead(lead * 1_000_000);
        w.seconds(2.0);
    }
    assert_eq!(w.refused("two").as_deref(), Some("one"));
    w.seconds(1.0);
    assert!(w.renew_run(token).is_err());
}

#[test]
fn work_that_nobody_else_has_taken_counts_although_it_is_late() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.seconds(20.0);
    let (claim, _) = w.finish(token, true).expect("it had it");
    assert!(claim.late.is_some());
    let late = (3600, Succeeded, Some(RunReason::CompletedLate));
    assert_eq!(w.ends(), [late]);
}

#[test]
fn what_nobody_claims_is_missed_and_what_is_lost_at_the_end_stays_lost() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(7200.0);
    let missed = (3600, Missed, Some(RunReason::NotClaimed));
    assert_eq!(w.ends(), [missed]);
    w.seconds(86_390.0 - 3600.0);
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.seconds(20.0);
    let lost = (90_000, Lost, Some(RunReason::ClaimantLost));
    assert_eq!(w.ends(), [missed, lost]);
    assert!(matches!(w.claim_for("two"), JobReply::NotClaimed(_)));
    let verb = JobVerb::FinishRun {
        name: "a".into(),
        due: at(90_000),
        report: RunReport {
            token,
            succeeded: true,
            detail: "".into(),
        },
        known: None,
    };
    w.ask_jobs(verb).expect("it had it");
    assert_eq!(w.states(), [(3600, Missed), (90_000, Lost)]);
}

#[test]
fn a_claim_survives_a_crash_with_a_whole_lease_and_tokens_never_fall() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.seconds(14.0);
    w.rebuild();
    w.seconds(14.0);
    w.renew_run(token).expect("a whole lease");
    let before = w.shard.digest(w.now).jobs;
    w.rebuild();
    assert_eq!(w.shard.digest(w.now).jobs, before);
    w.seconds(20.0);
    assert!(w.claimed("two") > token);
}

#[test]
fn an_outage_of_the_service_ends_no_claim() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.shard.set_outage(w.now, true);
    w.seconds(100.0);
    w.shard.set_outage(w.now, false);
    w.seconds(14.0);
    w.renew_run(token).expect("a whole lease since");
}

#[test]
fn a_reported_failure_is_offered_again_by_the_rule_for_that_and_max_runtime_ends_a_claim() {
    let mut w = World::new(5);
    w.claimed_job(|settings| {
        settings.rerun = Some(crate::core::Rerun {
            within_window: true,
            max: None,
            delay: Duration::from_secs(60),
        });
        settings.max_runtime = Some(Duration::from_secs(10));
    });
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.finish(token, false).expect("it has it");
    assert_eq!(w.states(), [(3600, Retrying)]);
    assert!(matches!(w.claim_for("two"), JobReply::NotClaimed(Some(_))));
    w.seconds(60.0);
    let token = w.claimed("two");
    w.seconds(10.0);
    let over = (3600, Retrying, Some(RunReason::MaxRuntime));
    assert_eq!(w.ends(), [over]);
    assert!(w.renew_run(token).is_err());
    let (claim, _) = w.finish(token, true).expect("it had it");
    assert!(claim.late.is_some());
}

#[test]
fn a_cancelled_run_ends_the_claim_and_a_deleted_job_all_of_them() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let token = w.claimed("one");
    let verb = JobVerb::CancelRun {
        name: "a".into(),
        due: at(3600),
    };
    w.ask_jobs(verb).expect("it runs");
    let cancelled = (3600, Cancelled, Some(RunReason::Asked));
    assert_eq!(w.ends(), [cancelled]);
    assert!(w.renew_run(token).is_err());
    w.seconds(86_400.0);
    w.claimed("two");
    let gone = JobVerb::Delete {
        name: "a".into(),
        version: None,
    };
    w.ask_jobs(gone).expect("it is there");
    let deleted = (90_000, Cancelled, Some(RunReason::JobDeleted));
    assert_eq!(w.ends(), [cancelled, deleted]);
}

#[test]
fn the_target_has_the_last_word_on_a_lost_claim() {
    for is_done in [true, false] {
        let mut w = World::new(5);
        let mut settings = settings(every(1000));
        settings.claimed = true;
        let question = [order(1), order(2)];
        w.create("a", of(settings, question));
        w.seconds(1000.0);
        w.claimed("one");
        w.seconds(15.0);
        let asks = (1000, Running, Some(RunReason::ClaimantLost));
        assert_eq!(w.ends(), [asks]);
        assert!(matches!(w.claim_for("two"), JobReply::NotClaimed(Some(_))));
        w.rebuild();
        w.seconds(0.0);
        let handle = w.runs()[0];
        w.succeed(handle, [1]);
        match is_done {
            true => w.succeed(handle, [2]),
            false => w.fail(handle, 2),
        }
        if is_done {
            assert_eq!(w.states(), [(1000, Succeeded)]);
        } else {
            let again = (1000, Waiting, Some(RunReason::ClaimantLost));
            assert_eq!(w.ends(), [again]);
            w.claimed("two");
        }
    }
}

#[test]
fn a_target_that_answers_a_new_owner_at_once_is_not_asked_again() {
    let mut w = World::new(5);
    let mut settings = settings(every(3600));
    settings.claimed = true;
    settings.rerun = Some(crate::core::Rerun {
        within_window: false,
        max: Some(3),
        delay: Duration::from_secs(60),
    });
    w.create("a", of(settings, [order(1)]));
    w.seconds(3600.0);
    let token = w.claimed("one");
    w.finish(token, false).expect("it is known");
    let handle = w.runs()[0];
    w.rebuild();
    w.fail(handle, 1);
    assert_eq!(w.states(), [(3600, Retrying)]);
    assert_eq!(w.remembered.labels("job").len(), 1, "asked once");
    assert_eq!((w.status().jobs.running, w.status().jobs.waiting), (0, 1));
}

#[test]
fn a_run_is_claimed_by_its_due_time() {
    let mut w = World::new(5);
    let mut settings = settings(every(1000));
    settings.claimed = true;
    settings.overlap = Overlap::QueueAll;
    w.create("a", of(settings, []));
    w.seconds(1500.0);
    let mut claim = |due| w.claim_of(Some(at(due)), "one");
    for wrong in [500, 2000] {
        assert!(matches!(claim(wrong), Ok(JobReply::NotClaimed(None))));
    }
    let Ok(JobReply::Claimed(claimed, true)) = claim(1000) else {
        panic!("it can be claimed");
    };
    assert_eq!(claimed.claim.run.due, at(1000));
    let Ok(JobReply::NotClaimed(Some((_, Some(holder))))) = claim(1000) else {
        panic!("it is claimed");
    };
    assert_eq!(&*holder.owner, "one");
}
