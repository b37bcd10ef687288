//! Runs that are offered to claimants: every offer comes to an end, and every claim is accounted
//! for.

use super::{
    claims::{at, claimed_daily},
    *,
};
use crate::core::{Claimant, Rerun, RunReport, RunToken};

const DAY: f64 = 86_400.0;

/// A job of a shape, for claimants.
fn claimed(rule: RuleText, set: impl FnOnce(&mut JobSettings)) -> Arc<NewJob> {
    let mut settings = settings(rule);
    settings.claimed = true;
    set(&mut settings);
    of(settings, [])
}

fn not_claimed(due: i64) -> (i64, RunState, Option<RunReason>) {
    (due, Missed, Some(RunReason::NotClaimed))
}

impl World {
    /// A job for claimants whose target says whether the work is done, with a lost claim of its
    /// run: the target is asked.
    fn asking(&mut self) -> Handle {
        let mut settings = settings(every(1000));
        settings.claimed = true;
        self.create("a", of(settings, [order(1), order(2)]));
        self.seconds(1000.0);
        self.claimed("one");
        self.seconds(15.0);
        self.runs()[0]
    }

    /// What the target says.
    fn answer(&mut self, handle: Handle, is_done: bool) {
        self.succeed(handle, [1]);
        match is_done {
            true => self.succeed(handle, [2]),
            false => self.fail(handle, 2),
        }
    }
}

#[test]
fn what_is_caught_up_is_offered_until_the_next_due_time() {
    let mut w = World::new(5);
    w.create(
        "a",
        claimed(every(1000), |settings| {
            settings.misfire = Misfire::CatchUp(2);
        }),
    );
    w.now = w.now + Duration::from_secs(2_900);
    w.take_over();
    w.seconds(0.0);
    assert_eq!(w.states(), [(1000, Waiting), (2000, Waiting)]);
    w.seconds(100.0);
    let ends = [not_claimed(1000), not_claimed(2000), (3000, Waiting, None)];
    assert_eq!(w.ends(), ends);
}

#[test]
fn an_offer_without_a_next_due_time_ends_after_a_week() {
    let ended = ScheduleText {
        end: "2027-01-15T08:20:00Z".to_owned(),
        ..settings(every(1000)).schedule
    };
    let mut w = World::new(5);
    let job = claimed(every(1000), |settings| settings.schedule = ended);
    w.create("a", job);
    w.seconds(1000.0);
    assert_eq!(w.states(), [(1000, Waiting)]);
    w.seconds(7.0 * DAY - 1.0);
    assert_eq!(w.states(), [(1000, Waiting)]);
    w.take_over();
    w.seconds(1.0);
    assert_eq!(w.ends(), [not_claimed(1000)]);
}

#[test]
fn what_queues_or_is_backfilled_is_offered_for_a_week() {
    let mut w = World::new(5);
    let queues = |settings: &mut JobSettings| settings.overlap = Overlap::QueueAll;
    w.create("a", claimed(every(500_000), queues));
    w.now = w.now + Duration::from_secs(500_000);
    w.take_over();
    w.seconds(0.0);
    w.backfill(&[500_000 - 400_000]);
    let offered: Vec<Option<f64>> = w.remembered.job_runs.values().map(closes_in).collect();
    assert_eq!(offered, [Some(500_000.0 + 7.0 * DAY); 2]);
    w.seconds(7.0 * DAY);
    assert_eq!(w.states()[..2], [(100_000, Missed), (500_000, Missed)]);
}

fn closes_in(run: &RunImage) -> Option<f64> {
    run.closes.map(|closes| closes.since(BEGIN).as_secs_f64())
}

#[test]
fn an_offer_that_follows_another_job_ends_with_the_next_one() {
    let mut w = World::new(5);
    w.job("b", 1000, |_| {});
    w.create("a", claimed(RuleText::After("b".to_owned()), |_| {}));
    for _ in 0..2 {
        w.seconds(1000.0);
        w.succeed_all();
    }
    let runs = w.remembered.job_runs.range(RunKey::all_of(JobNo(2)));
    let ends: Vec<_> = runs.map(|(_, run)| (run.state, run.reason)).collect();
    assert_eq!(
        ends,
        [(Missed, Some(RunReason::NotClaimed)), (Waiting, None)]
    );
    w.seconds(7.0 * DAY);
    let offered = |run: &RunImage| run.key.job == JobNo(2) && run.state == Waiting;
    assert!(!w.remembered.job_runs.values().any(offered));
}

#[test]
fn what_is_not_claimed_because_nothing_may_start_says_so() {
    let mut w = World::new(5);
    w.create("a", claimed(every(1000), |_| {}));
    w.seconds(1000.0);
    let pause = JobVerb::Pause {
        name: "a".into(),
        reason: "a release".into(),
    };
    w.ask_jobs(pause).expect("it is there");
    w.seconds(1000.0);
    assert_eq!(w.ends(), [(1000, Skipped, Some(RunReason::JobPaused))]);
    w.ask_jobs(JobVerb::Resume("a".into()))
        .expect("it is there");
    w.seconds(1000.0);
    assert_eq!(w.states().last(), Some(&(3000, Waiting)));
    let stop = stop_verb(crate::core::StopMode::Drain, "a release".into());
    w.ask_jobs(stop).expect("it stops");
    w.seconds(1000.0);
    let stopped = (3000, Missed, Some(RunReason::AgentStopped));
    assert_eq!(w.ends().last(), Some(&stopped));
}

/// A job for claimants, of which a run of a backfill is claimed for long, and its token.
fn behind_a_backfill(job: Arc<NewJob>, began: u64, backfilled: u64) -> (World, RunToken) {
    let mut w = World::new(5);
    w.create("a", job);
    w.now = w.now + Duration::from_secs(began);
    w.take_over();
    w.seconds(0.0);
    w.backfill(&[backfilled]);
    let claimant = Claimant {
        owner: "one".into(),
        request: None,
        lease: Duration::from_secs(100_000),
    };
    let (name, due) = ("a".into(), Some(at(backfilled)));
    let verb = JobVerb::Claim {
        name,
        due,
        claimant,
    };
    match w.ask_jobs(verb) {
        Ok(JobReply::Claimed(claimed, true)) => (w, claimed.claim.token),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_due_time_that_waits_for_a_backfill_is_offered_when_that_has_ended() {
    let (mut w, token) = behind_a_backfill(claimed(every(1000), |_| {}), 2_500, 1_000);
    w.seconds(2_000.0);
    let skipped = (4000, Skipped, Some(RunReason::StillRunning));
    assert_eq!(w.ends()[2..], [(3000, Waiting, None), skipped]);
    w.rebuild();
    let finish = JobVerb::FinishRun {
        name: "a".into(),
        due: at(1000),
        report: RunReport {
            token,
            succeeded: true,
            detail: "".into(),
        },
        known: None,
    };
    w.ask_jobs(finish).expect("it has it");
    w.claimed("two");
    assert_eq!(w.ends()[2], (3000, Running, None));
}

#[test]
fn a_window_that_closes_during_a_backfill_has_closed_and_was_not_left_unclaimed() {
    let (mut w, _) = behind_a_backfill(claimed_daily(|_| {}), 86_400, 3_600);
    w.seconds(7_200.0);
    let closed = (90_000, Missed, Some(RunReason::WindowClosed));
    assert_eq!(w.ends().last(), Some(&closed));
}

#[test]
fn a_run_whose_claim_cannot_be_read_is_offered_again() {
    let mut w = World::new(5);
    w.create("a", claimed(every(1000), |_| {}));
    w.seconds(1000.0);
    let first = w.claimed("one");
    w.remembered.jobs.claims.clear();
    w.crash_and_set_back(Duration::ZERO);
    w.seconds(0.0);
    let lost = (1000, Waiting, Some(RunReason::ClaimantLost));
    assert_eq!(w.ends(), [lost]);
    assert!(w.claimed("two") > first);
}

#[test]
fn cancelling_a_run_of_which_the_target_is_asked_offers_it_no_more() {
    for is_done in [true, false] {
        let mut w = World::new(5);
        let handle = w.asking();
        let due = at(1000);
        let name = "a".into();
        w.ask_jobs(JobVerb::CancelRun { name, due })
            .expect("it goes on");
        w.rebuild();
        w.answer(handle, is_done);
        let end = match is_done {
            true => (1000, Succeeded, None),
            false => (1000, Cancelled, Some(RunReason::Asked)),
        };
        assert_eq!(w.ends(), [end]);
    }
}

#[test]
fn deleting_a_job_of_which_the_target_is_asked_leaves_the_answer() {
    for (is_done, is_cancelled) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut w = World::new(5);
        let handle = w.asking();
        if is_cancelled {
            let (name, due) = ("a".into(), at(1000));
            w.ask_jobs(JobVerb::CancelRun { name, due })
                .expect("it goes on");
        }
        let gone = JobVerb::Delete {
            name: "a".into(),
            version: None,
        };
        w.ask_jobs(gone).expect("it is there");
        w.rebuild();
        w.answer(handle, is_done);
        let end = match is_done {
            true => (1000, Succeeded, None),
            false => (1000, Cancelled, Some(RunReason::JobDeleted)),
        };
        assert_eq!(w.ends(), [end]);
    }
}

#[test]
fn a_claimed_run_is_repeated_only_while_it_could_be_claimed() {
    for (delay, expected) in [(20, Retrying), (100, Failed)] {
        let mut w = World::new(5);
        w.create(
            "a",
            claimed(every(1000), |settings| {
                settings.rerun = Some(Rerun {
                    within_window: false,
                    max: Some(3),
                    delay: Duration::from_secs(delay),
                });
            }),
        );
        w.seconds(1950.0);
        let token = w.claimed("one");
        let report = RunReport {
            token,
            succeeded: false,
            detail: "".into(),
        };
        let finish = JobVerb::FinishRun {
            name: "a".into(),
            due: at(1000),
            report,
            known: None,
        };
        w.ask_jobs(finish).expect("it is claimed");
        assert_eq!(w.states(), [(1000, expected)]);
        w.seconds(50.0);
        assert_eq!(w.states(), [(1000, Failed), (2000, Waiting)]);
    }
}

#[test]
fn bad_old_days_of_claimants_do_not_pause_their_job() {
    let mut w = World::new(5);
    w.create(
        "a",
        claimed(every(1000), |settings| {
            settings.misfire = Misfire::Skip;
            settings.pause_after_failures = Some(1);
        }),
    );
    w.now = w.now + Duration::from_secs(3_500);
    w.take_over();
    w.seconds(0.0);
    w.backfill(&[1000]);
    w.claimed("one");
    w.seconds(8.0 * DAY);
    assert_eq!(w.states()[0], (1000, Lost));
    assert!(w.remembered.jobs.jobs[0].1.paused.is_none());
}

#[test]
fn a_job_that_is_changed_offers_what_waits_no_longer_than_it_says_now() {
    let mut w = World::new(5);
    let queues = |settings: &mut JobSettings| settings.overlap = Overlap::QueueAll;
    w.create("a", claimed(every(1000), queues));
    w.seconds(1000.0);
    w.update("a", claimed(every(300), |_| {}));
    w.rebuild();
    assert_eq!(w.states(), [(1000, Waiting)]);
    w.seconds(200.0);
    assert_eq!(w.ends(), [not_claimed(1000), (1200, Waiting, None)]);
}
