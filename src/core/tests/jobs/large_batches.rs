//! Very much is to happen to jobs at once: one batch does as much as it bears, and the next ones do
//! the rest, over takeovers too.

use super::*;
use crate::core::{
    Packed,
    model::limits::{CALL_BYTES, Limits},
};

/// Jobs of which something is to happen at once.
const JOBS: usize = 2_000;
/// Rows of runs that a batch bears.
const MOST: usize = 100;
/// Bytes of the step of a large run.
const LARGE: usize = 1 << 20;

fn small_batches() -> World {
    let limits = Limits {
        timers_per_batch: MOST,
        ..Limits::default()
    };
    World::limited(0, limits)
}

fn name(number: usize) -> String {
    format!("job-{number}")
}

/// A job that is not due for long, with a step of so many bytes.
pub(super) fn sized(
    rule: RuleText,
    bytes: usize,
    set: impl FnOnce(&mut JobSettings),
) -> Arc<NewJob> {
    let mut settings = settings(rule);
    set(&mut settings);
    let mut job = (*of(settings, [order(1)])).clone();
    let step = vec![b'-'; bytes];
    Arc::make_mut(&mut job.steps).bodies = Packed::new([&step[..]]);
    Arc::new(job)
}

impl World {
    fn in_state(&self, state: RunState) -> usize {
        let runs = self.remembered.job_runs.values();
        runs.filter(|run| run.state == state).count()
    }

    /// Batches until nothing is due; the most runs that one of them has begun.
    fn most_begun(&mut self, begun_before: usize) -> usize {
        let (mut before, mut most) = (begun_before, 0);
        loop {
            let begun = self.in_state(Running);
            most = most.max(begun - before);
            before = begun;
            if self.shard.next_due() > self.now {
                return most;
            }
            self.commands([]);
        }
    }

    /// Under a stopped agent, so many jobs with a run that waits for its start.
    fn waiting_for_the_agent(&mut self, count: usize, bytes: usize) {
        for number in 0..count {
            let queue = |settings: &mut JobSettings| settings.overlap = Overlap::QueueAll;
            self.create(&name(number), sized(every(864_000), bytes, queue));
            self.run_now(&name(number)).expect("nothing runs");
            self.run_now(&name(number)).expect("it waits");
        }
        self.ask_jobs(stop_verb(StopMode::Drain, "".into()))
            .expect("it stops");
        self.set_slots(5_000);
        self.succeed_all();
        assert_eq!(self.in_state(Waiting), count);
    }
}

#[test]
fn runs_that_wait_for_the_agent_begin_with_several_batches() {
    let mut w = small_batches();
    w.waiting_for_the_agent(JOBS, 10);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    let most = w.most_begun(0);
    assert!(most <= MOST, "{most} runs began with one batch");
    assert_eq!(w.in_state(Running), JOBS);
}

#[test]
fn a_batch_begins_no_more_runs_than_their_bytes_allow() {
    let mut w = World::new(0);
    w.waiting_for_the_agent(20, LARGE);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    let most = w.most_begun(0);
    assert!(
        most <= CALL_BYTES / LARGE,
        "{most} runs began with one batch"
    );
    assert_eq!(w.in_state(Running), 20);
}

#[test]
fn turns_that_were_left_to_later_batches_survive_a_takeover() {
    let mut w = small_batches();
    w.waiting_for_the_agent(JOBS, 10);
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    assert!(w.in_state(Running) < JOBS);
    w.rebuild();
    w.most_begun(w.in_state(Running));
    assert_eq!(w.in_state(Running), JOBS);
}

#[test]
fn runs_are_cancelled_with_several_batches() {
    let mut w = small_batches();
    for number in 0..JOBS {
        w.job(&name(number), 864_000, |_| {});
        w.run_now(&name(number)).expect("nothing runs");
    }
    let mut goes_on = None;
    let (mut before, mut calls) = (0, 0);
    loop {
        let stop = StopAgent {
            mode: StopMode::CancelRunning,
            reason: "".into(),
            goes_on,
        };
        let reply = w.ask_jobs(JobVerb::StopAgent(stop)).expect("an answer");
        let JobReply::Agent(view, changed) = reply else {
            panic!("{reply:?}");
        };
        calls += 1;
        assert_eq!(changed, calls == 1);
        let runs = w.remembered.job_runs.values();
        let cancelled = runs.filter(|run| run.reason.is_some()).count();
        assert!(cancelled - before <= MOST, "{before}, then {cancelled}");
        (before, goes_on) = (cancelled, view.goes_on);
        if goes_on.is_none() {
            break;
        }
    }
    assert_eq!(before, JOBS);
    assert_eq!(w.in_state(Cancelled), JOBS);
}

#[test]
fn a_stop_does_not_go_on_when_the_agent_was_started_since() {
    let mut w = small_batches();
    for number in 0..2 * MOST {
        w.job(&name(number), 864_000, |_| {});
        w.run_now(&name(number)).expect("nothing runs");
    }
    let stop = |goes_on| {
        JobVerb::StopAgent(StopAgent {
            mode: StopMode::CancelRunning,
            reason: "".into(),
            goes_on,
        })
    };
    let goes_on = match w.ask_jobs(stop(None)) {
        Ok(JobReply::Agent(view, true)) => view.goes_on,
        other => panic!("{other:?}"),
    };
    assert!(goes_on.is_some());
    w.ask_jobs(JobVerb::StartAgent).expect("it starts");
    let reply = w.ask_jobs(stop(goes_on));
    let is_over = matches!(&reply, Ok(JobReply::Agent(view, false)) if view.goes_on.is_none());
    assert!(is_over, "{reply:?}");
    assert!(!w.status().jobs.agent.is_stopped);
    assert_eq!(w.in_state(Running), MOST);
}

#[test]
fn jobs_that_follow_one_begin_with_several_batches() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    for number in 0..20 {
        let rule = RuleText::After("a".to_owned());
        w.create(&name(number), sized(rule, LARGE, |_| {}));
    }
    w.seconds(10.0);
    w.succeed_all();
    let most = w.most_begun(0);
    assert!(
        most <= CALL_BYTES / LARGE + 1,
        "{most} runs began with one batch"
    );
    assert_eq!(w.in_state(Running), 20);
}

#[test]
fn due_times_that_are_caught_up_side_by_side_begin_with_several_batches() {
    let mut w = World::new(5);
    let side_by_side = |settings: &mut JobSettings| {
        settings.overlap = Overlap::Allow;
        settings.misfire = Misfire::CatchUp(20);
    };
    w.create("a", sized(every(1_000), LARGE, side_by_side));
    w.now = w.now + Duration::from_secs(30_999);
    w.take_over();
    let most = w.most_begun(0);
    assert!(
        most <= CALL_BYTES / LARGE,
        "{most} runs began with one batch"
    );
    assert_eq!(w.in_state(Running), 20, "all of them, and no more");
    assert_eq!(w.in_state(Missed), 10);
}

#[test]
fn no_more_jobs_follow_one_than_end_with_it_in_one_batch() {
    let limits = Limits {
        followers: 2,
        ..Limits::default()
    };
    let mut w = World::limited(5, limits);
    w.job("a", 10, |_| {});
    let follower = || of(settings(RuleText::After("a".to_owned())), [order(1)]);
    for number in 0..2 {
        w.create(&name(number), follower());
    }
    let one_more = JobVerb::Create {
        name: name(2).into(),
        job: follower(),
    };
    let rejected = w.ask_jobs(one_more).err();
    assert_eq!(
        rejected,
        Some(Reject::Job(JobReject::ManyFollow("a".into(), 2)))
    );
    let changed = of(
        settings(RuleText::After("a".to_owned())),
        [order(1), order(2)],
    );
    let update = JobVerb::Update {
        name: name(1).into(),
        job: changed,
        version: None,
    };
    w.ask_jobs(update).expect("it follows it already");
}
