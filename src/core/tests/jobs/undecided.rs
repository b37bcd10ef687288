//! A run has ended while its job was unreadable, and the next owner is asked something before it
//! has decided how.

use super::{
    large_batches::sized,
    unreadable::{Defined, claimed_on_a_target},
    *,
};
use crate::core::model::limits::{CALL_BYTES, Limits};

/// Undecided runs of one job.
const RUNS: usize = 35;
/// Rows of runs that a batch bears where those are many.
const MOST: usize = 10;

impl World {
    /// The next owner can read the jobs, and has decided nothing yet.
    fn just_read(&mut self, jobs: Defined) {
        self.remembered.jobs.unreadable.clear();
        self.remembered.jobs.jobs = jobs;
        self.take_over_with_changes();
    }

    fn states_of(&self, job: JobNo) -> Vec<RunState> {
        let runs = self.remembered.job_runs.range(RunKey::all_of(job));
        runs.map(|(_, run)| run.state).collect()
    }
}

/// What would end the first run.
fn verbs() -> [(JobVerb, RunReason); 3] {
    let name: Arc<str> = "a".into();
    let cancel = JobVerb::CancelRun {
        name: Arc::clone(&name),
        due: BEGIN + Duration::from_secs(1000),
    };
    let version = None;
    let stop = stop_verb(StopMode::CancelRunning, "".into());
    [
        (cancel, RunReason::Asked),
        (JobVerb::Delete { name, version }, RunReason::JobDeleted),
        (stop, RunReason::AgentStopped),
    ]
}

#[test]
fn how_a_run_has_ended_stays_whatever_comes_first() {
    for is_done in [true, false] {
        for (verb, reason) in verbs() {
            let mut w = World::new(5);
            w.job("a", 1000, |_| {});
            w.seconds(1000.0);
            let jobs = w.unreadable();
            match is_done {
                true => w.succeed_all(),
                false => w.fail_all(),
            }
            w.just_read(jobs);
            w.command(by_ann(verb));
            let state = if is_done { Succeeded } else { Failed };
            assert_eq!(w.ends(), [(1000, state, None)], "{reason:?}");
        }
    }
}

#[test]
fn a_success_of_a_deleted_job_is_not_cancelled() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    w.seconds(1000.0);
    w.delete("a");
    let jobs = w.unreadable();
    w.succeed_all();
    w.just_read(jobs);
    let [(cancel, _), ..] = verbs();
    w.command(by_ann(cancel));
    assert_eq!(w.ends(), [(1000, Succeeded, None)]);
}

#[test]
fn a_target_has_the_last_word_whatever_comes_first() {
    for (verb, reason) in verbs() {
        let mut w = claimed_on_a_target(Overlap::Skip);
        let jobs = w.unreadable();
        w.seconds(15.0);
        let lost = Some(RunReason::ClaimantLost);
        assert_eq!(w.ends(), [(1000, Retrying, lost)]);
        w.just_read(jobs);
        w.command(by_ann(verb));
        assert_eq!(w.ends(), [(1000, Running, Some(reason))]);
        w.succeed_all();
        assert_eq!(w.ends(), [(1000, Succeeded, None)], "{reason:?}");
    }
}

#[test]
fn a_target_has_the_last_word_though_a_due_time_cancels_what_runs() {
    let mut w = claimed_on_a_target(Overlap::CancelRunning);
    let jobs = w.unreadable();
    w.seconds(1000.0);
    w.just_read(jobs);
    let answer = w.claim_for("two");
    assert!(matches!(answer, JobReply::NotClaimed(Some(_))));
    let replaced = Some(RunReason::Replaced);
    let next = (2000, Waiting, None);
    assert_eq!(w.ends(), [(1000, Running, replaced), next]);
    w.succeed_all();
    assert_eq!(w.ends(), [(1000, Succeeded, None), next]);
}

#[test]
fn what_follows_a_success_does_so_though_earlier_runs_are_undecided() {
    for overlap in [Overlap::Skip, Overlap::CancelRunning] {
        let mut w = World::new(5);
        w.job("a", 1000, |_| {});
        let after = |name: &str| {
            let mut settings = settings(RuleText::After(name.to_owned()));
            settings.overlap = overlap;
            of(settings, [order(1)])
        };
        w.create("b", after("a"));
        w.create("c", after("b"));
        w.seconds(1000.0);
        w.succeed_all();
        w.run_now("c").expect("it may");
        w.seconds(1000.0);
        let jobs = w.unreadable();
        w.succeed_all();
        let followers = [JobNo(2), JobNo(3)];
        for job in followers {
            assert_eq!(w.states_of(job), [Retrying], "{overlap:?}");
        }
        w.readable(jobs);
        for job in followers {
            assert_eq!(w.states_of(job), [Succeeded, Running], "{overlap:?}");
        }
    }
}

#[test]
fn a_claimed_run_is_not_offered_again_in_front_of_one_that_follows() {
    let mut w = World::new(5);
    w.job("first", 1000, |_| {});
    let mut settings = settings(RuleText::After("first".to_owned()));
    settings.claimed = true;
    settings.overlap = Overlap::CancelRunning;
    w.create("a", of(settings, [order(1)]));
    w.seconds(1000.0);
    w.succeed_all();
    w.claimed("one");
    w.run_now("first").expect("it may");
    let jobs = w.unreadable();
    w.seconds(15.0);
    w.succeed_all();
    assert_eq!(w.states_of(JobNo(2)), [Retrying]);
    w.readable(jobs);
    assert_eq!(w.states_of(JobNo(2)), [Running, Waiting]);
    w.fail_all();
    assert_eq!(w.states_of(JobNo(2)), [Cancelled, Waiting]);
}

/// A run of `a` has succeeded, and many of `b`, which follows it, and nobody has decided how.
fn many_undecided() -> World {
    let limits = Limits {
        timers_per_batch: MOST,
        ..Limits::default()
    };
    let mut w = World::limited(5, limits);
    w.job("a", 864_000, |_| {});
    let mut after = settings(RuleText::After("a".to_owned()));
    after.overlap = Overlap::Allow;
    w.create("b", of(after, [order(1)]));
    w.run_now("a").expect("nothing runs");
    for _ in 0..RUNS {
        w.run_now("b").expect("side by side");
    }
    let runs = w.remembered.jobs.runs.iter_mut();
    runs.for_each(|run| run.state = Retrying);
    w.take_over_with_changes();
    w
}

fn succeeded(w: &World) -> usize {
    let runs = w.remembered.job_runs.values();
    runs.filter(|run| run.state == Succeeded).count()
}

/// Batches until nothing is due: each decides as much as it bears, and all end as they have ended.
fn decide_in_batches(w: &mut World) {
    let mut before = 0;
    loop {
        let now = succeeded(w);
        // A call decides one at least, and so does time that passes.
        assert!(now - before <= MOST + 2, "{before}, then {now}");
        before = now;
        if w.shard.next_due() > w.now {
            break;
        }
        w.commands([]);
    }
    assert_eq!(before, RUNS + 1);
}

#[test]
fn what_is_undecided_of_jobs_that_follow_is_decided_with_several_batches() {
    let mut w = many_undecided();
    decide_in_batches(&mut w);
    assert_eq!(w.states_of(JobNo(2)).last(), Some(&Running), "it follows");
}

#[test]
fn a_call_decides_no_more_than_its_batch_bears_and_changes_no_end() {
    let verbs = |due| {
        let name: Arc<str> = "b".into();
        let (version, reason) = (None, "".into());
        [
            JobVerb::CancelRun {
                name: Arc::clone(&name),
                due,
            },
            JobVerb::Delete {
                name: Arc::clone(&name),
                version,
            },
            JobVerb::Pause { name, reason },
        ]
    };
    for number in 0..3 {
        let mut w = many_undecided();
        let last = w.remembered.job_runs.keys().next_back();
        let due = last.expect("there are many").due;
        w.command(by_ann(verbs(due)[number].clone()));
        decide_in_batches(&mut w);
    }
}

#[test]
fn a_success_is_not_there_to_be_cancelled_though_nobody_has_decided_what_follows() {
    let mut w = many_undecided();
    let first = w.remembered.job_runs.keys().next();
    let cancel = JobVerb::CancelRun {
        name: "a".into(),
        due: first.expect("there is one").due,
    };
    let over = Some(Reject::Job(JobReject::UnknownRun));
    assert_eq!(w.ask_jobs(cancel).err(), over);
    assert_eq!(w.states_of(JobNo(1)), [Retrying]);
}

impl World {
    /// Deletes the first job, with as many calls as that takes.
    fn delete_in_batches(&mut self) -> usize {
        for calls in 1..=RUNS {
            let (name, version) = ("a".into(), None);
            let reply = self.ask_jobs(JobVerb::Delete { name, version });
            let Ok(JobReply::Job(_, _, is_deleted)) = reply else {
                panic!("{reply:?}");
            };
            if is_deleted {
                return calls;
            }
        }
        panic!("it goes on for ever");
    }
}

/// Many runs of a job have ended like this, and nobody has decided how.
fn many_ended(claimed: bool, end: impl Fn(&mut RunImage)) -> World {
    let limits = Limits {
        timers_per_batch: MOST,
        ..Limits::default()
    };
    let mut w = World::limited(RUNS as u32, limits);
    let mut side_by_side = settings(every(864_000));
    side_by_side.overlap = Overlap::Allow;
    side_by_side.claimed = claimed;
    let job = NewJob {
        settings: Arc::new(side_by_side),
        steps: Arc::new(submission(None, [order(1)])),
        on_failure: Arc::new(submission(None, [order(7)])),
    };
    w.create("a", Arc::new(job));
    for _ in 0..RUNS {
        w.run_now("a").expect("side by side");
    }
    for run in &mut w.remembered.jobs.runs {
        run.state = Retrying;
        end(run);
    }
    w.take_over_with_changes();
    w
}

#[test]
fn a_target_has_the_last_word_on_very_many_claims_of_a_job_that_is_deleted() {
    let mut w = many_ended(true, |run| run.reason = Some(RunReason::ClaimantLost));
    assert!(w.delete_in_batches() > 2);
    assert_eq!(w.states_of(JobNo(1)), [Running; RUNS]);
    w.succeed_all();
    assert_eq!(w.states_of(JobNo(1)), [Succeeded; RUNS]);
}

#[test]
fn tasks_follow_very_many_failures_of_a_job_that_is_deleted() {
    let mut w = many_ended(false, |run| run.failed = 1);
    assert!(w.delete_in_batches() > 2);
    assert_eq!(w.states_of(JobNo(1)), [Failed; RUNS]);
    assert_eq!(w.alarms(), ["FAILED"; RUNS]);
}

#[test]
fn what_follows_a_success_begins_though_the_agent_is_stopped_first() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    let follower = settings(RuleText::After("a".to_owned()));
    w.create("b", of(follower, [order(1)]));
    w.seconds(1000.0);
    let jobs = w.unreadable();
    w.succeed_all();
    w.just_read(jobs);
    let stop = stop_verb(StopMode::Drain, "".into());
    w.ask_jobs(stop).expect("it stops");
    assert_eq!(w.ends(), [(1000, Succeeded, None)]);
    assert_eq!(w.states_of(JobNo(2)), [Running]);
    assert!(w.status().jobs.agent.is_stopped);
}

#[test]
fn what_follows_a_success_begins_before_the_agent_stops_though_the_batch_is_full() {
    let mut w = World::new(5);
    w.job("a", 1000, |_| {});
    let follower = settings(RuleText::After("a".to_owned()));
    w.create("b", of(follower, [order(1)]));
    w.create("large", sized(every(864_000), CALL_BYTES, |_| {}));
    w.seconds(1000.0);
    let jobs = w.unreadable();
    w.succeed_all();
    w.just_read(jobs);
    let fill = JobVerb::Run {
        name: "large".into(),
        request: None,
        from_order: None,
    };
    let stop = stop_verb(StopMode::Drain, "".into());
    w.commands([by_ann(fill), by_ann(stop.clone())]);
    assert!(!w.status().jobs.agent.is_stopped);
    w.ask_jobs(stop).expect("it stops");
    assert!(w.status().jobs.agent.is_stopped);
    assert_eq!(w.states_of(JobNo(2)), [Running]);
}

#[test]
fn the_agent_stops_when_all_is_decided_with_several_batches() {
    let mut w = many_undecided();
    let mut goes_on = None;
    let mut stopped = Vec::new();
    loop {
        let stop = StopAgent {
            mode: StopMode::Drain,
            reason: "".into(),
            goes_on,
        };
        let reply = w.ask_jobs(JobVerb::StopAgent(stop)).expect("an answer");
        let JobReply::Agent(view, changed) = reply else {
            panic!("{reply:?}");
        };
        stopped.push(changed);
        goes_on = view.goes_on;
        if goes_on.is_none() {
            break;
        }
    }
    assert!(stopped.len() > 2, "{stopped:?}");
    let calls = stopped.iter().filter(|changed| **changed).count();
    assert_eq!((calls, stopped.last()), (1, Some(&true)));
    assert_eq!(succeeded(&w), RUNS + 1);
    assert_eq!(w.states_of(JobNo(2)).last(), Some(&Running), "it follows");
    assert!(w.status().jobs.agent.is_stopped);
}
