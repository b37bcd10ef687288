//! Each due time of a job has a fate, and at most one run.

mod agent;
mod backfills;
mod changes;
mod claims;
mod failures;
mod followers;
mod kept_claims;
mod large_batches;
mod late_claims;
mod moved_windows;
mod offers;
mod one_batch;
mod overlap;
mod repeated;
mod room;
mod set_aside;
mod time_zones;
mod undecided;
mod unreadable;
mod weights;

use super::world::{Task, World, order, submission};
use crate::core::{
    Caller, Command, Handle, JobNo, JobReject, JobReply, JobSettings, JobVerb, Misfire, Namespace,
    NewJob, Outcome, Overlap, Reject, Reply, RunImage, RunKey, RunReason, RunState, Settings,
    StopAgent, StopMode, Time,
    schedule::{Period, RuleText, ScheduleText},
};
use std::{sync::Arc, time::Duration};

fn every(seconds: u64) -> RuleText {
    RuleText::Interval {
        every: Duration::from_secs(seconds),
        phase: Duration::ZERO,
    }
}

fn settings(rule: RuleText) -> JobSettings {
    JobSettings {
        schedule: ScheduleText {
            rule,
            time_zone: "UTC".to_owned(),
            dst_gap: None,
            dst_fold: None,
            jitter: Duration::ZERO,
            start: String::new(),
            end: String::new(),
            exclude: Vec::new(),
        },
        overlap: Overlap::Skip,
        misfire: Misfire::Skip,
        rerun: None,
        max_runtime: None,
        pause_after_failures: None,
        scheduler: Arc::new(Settings::default()),
        claimed: false,
    }
}

fn of(settings: JobSettings, steps: impl IntoIterator<Item = Task>) -> Arc<NewJob> {
    Arc::new(NewJob {
        settings: Arc::new(settings),
        steps: Arc::new(submission(None, steps)),
        on_failure: Arc::new(submission(None, [])),
    })
}

fn by_ann(verb: JobVerb) -> Command {
    let caller = Caller {
        namespace: Namespace("default".into()),
        name: "ann".into(),
    };
    Command::Job { caller, verb }
}

impl World {
    fn ask_jobs(&mut self, verb: JobVerb) -> Result<JobReply, Reject> {
        match self.command(by_ann(verb)) {
            Some(Reply::Job(reply)) => Ok(*reply),
            Some(Reply::Rejected(reject)) => Err(reject),
            other => panic!("answered with {other:?}"),
        }
    }

    /// A job with one step, every so many seconds.
    fn job(&mut self, name: &str, seconds: u64, set: impl FnOnce(&mut JobSettings)) {
        let mut settings = settings(every(seconds));
        set(&mut settings);
        self.create(name, of(settings, [order(1)]));
    }

    fn create(&mut self, name: &str, job: Arc<NewJob>) {
        let name = name.into();
        self.ask_jobs(JobVerb::Create { name, job })
            .expect("it is new");
    }

    fn run_now(&mut self, name: &str) -> Result<RunImage, JobReject> {
        let verb = JobVerb::Run {
            name: name.into(),
            request: None,
            from_order: None,
        };
        match self.ask_jobs(verb) {
            Ok(JobReply::Run(run, true)) => Ok(run),
            Err(Reject::Job(reject)) => Err(reject),
            other => panic!("answered with {other:?}"),
        }
    }

    /// What became of each due time of the first job: seconds since the world began, state, reason.
    fn ends(&self) -> Vec<(i64, RunState, Option<RunReason>)> {
        let runs = self.remembered.job_runs.range(RunKey::all_of(JobNo(1)));
        let end = |(key, run): (&RunKey, &RunImage)| {
            ((key.due.0 - BEGIN.0) / 1_000_000, run.state, run.reason)
        };
        runs.map(end).collect()
    }

    fn states(&self) -> Vec<(i64, RunState)> {
        let ends = self.ends().into_iter();
        ends.map(|(due, state, _)| (due, state)).collect()
    }

    /// The runs of all jobs that run, oldest first.
    fn runs(&self) -> Vec<Handle> {
        let runs = self.remembered.job_runs.values();
        let running = runs.filter(|run| run.state == RunState::Running);
        running.filter_map(|run| run.handle).collect()
    }

    /// What runs succeeds: the first task of each scheduler of a job.
    fn succeed_all(&mut self) {
        for handle in self.runs() {
            self.succeed(handle, [1]);
        }
    }

    fn fail_all(&mut self) {
        for handle in self.runs() {
            self.fail(handle, 1);
        }
    }
}

fn stop_verb(mode: StopMode, reason: Arc<str>) -> JobVerb {
    JobVerb::StopAgent(StopAgent {
        mode,
        reason,
        goes_on: None,
    })
}

/// When a world begins: a whole minute.
const BEGIN: Time = Time(1_800_000_000_000_000);
use RunState::*;

#[test]
fn each_due_time_has_one_run() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    assert_eq!(w.ends(), []);
    for _ in 0..3 {
        w.seconds(10.0);
        assert_eq!(w.runs().len(), 1);
        w.succeed_all();
    }
    assert_eq!(
        w.states(),
        [(10, Succeeded), (20, Succeeded), (30, Succeeded)]
    );
    let handle = w
        .remembered
        .job_runs
        .values()
        .next()
        .and_then(|run| run.handle);
    let outcomes = w.outcomes(handle.expect("it ran"));
    assert_eq!(outcomes, [(1, Outcome::Succeeded)]);
}

#[test]
fn a_run_is_an_ordinary_scheduler_in_the_name_of_who_defined_the_job() {
    let mut w = World::new(5);
    w.create("a", of(settings(every(60)), [order(1), order(1), order(2)]));
    w.seconds(60.0);
    let handle = w.runs()[0];
    assert_eq!(w.running(handle), [1, 2]);
    let image = w.view(handle).image;
    let labels: Vec<_> = image.settings.labels.clone().into_iter().collect();
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let due = label("due", "2027-01-15T08:01:00Z");
    assert_eq!(
        (labels, &*image.caller),
        (vec![due, label("job", "a")], "ann")
    );
    w.succeed(handle, [1]);
    w.fail(handle, 2);
    assert_eq!(w.running(handle), [3], "a failure does not halt it");
    w.succeed(handle, [3]);
    assert_eq!(w.states(), [(60, Failed)]);
}

#[test]
fn due_times_of_an_outage_are_missed_and_the_newest_is_not() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    w.now = w.now + Duration::from_secs(45);
    w.take_over();
    w.seconds(0.0);
    let missed = |due| (due, Missed, Some(RunReason::NoServer));
    let ends = [missed(10), missed(20), missed(30), (40, Running, None)];
    assert_eq!(w.ends(), ends);
    w.take_over();
    w.seconds(0.0);
    assert_eq!(w.ends(), ends, "no due time is served twice");
}

#[test]
fn one_run_may_stand_for_all_that_were_missed_or_the_newest_have_one_each() {
    for (misfire, run) in [
        (Misfire::Skip, vec![]),
        (Misfire::RunOnce, vec![1200]),
        (Misfire::CatchUp(2), vec![600, 1200]),
    ] {
        let mut w = World::new(5);
        w.job("a", 600, |settings| settings.misfire = misfire);
        w.now = w.now + Duration::from_secs(1500);
        w.take_over();
        w.seconds(0.0);
        w.succeed_all();
        w.succeed_all();
        let states = [600, 1200].map(|due| match run.contains(&due) {
            true => (due, Succeeded),
            false => (due, Missed),
        });
        assert_eq!(w.states(), states, "{misfire:?}");
    }
}

#[test]
fn a_year_of_missed_due_times_is_one_row_for_most_of_them() {
    let mut w = World::new(5);
    w.job("a", 1, |settings| settings.misfire = Misfire::CatchUp(3));
    let year = 365 * 86_400;
    w.now = w.now + Duration::from_secs(year);
    w.take_over();
    w.seconds(0.0);
    let runs: Vec<RunImage> = w.remembered.job_runs.values().cloned().collect();
    let caught_up = runs.iter().filter(|run| run.catches_up).count();
    assert_eq!(caught_up, 3);
    let range = &runs[0];
    let last = range.last.expect("it is a range");
    assert_eq!((range.state, range.count), (Missed, 10_000));
    assert!(runs.len() < 150, "{}", runs.len());
    let next = (last.0 - BEGIN.0) / 1_000_000 + 1;
    let all: Vec<i64> = w.states().iter().skip(1).map(|(due, _)| *due).collect();
    assert_eq!(
        all,
        (next..=year as i64).collect::<Vec<_>>(),
        "none is left out"
    );
}

#[test]
fn a_window_is_served_until_it_closes() {
    let rule = RuleText::OncePer {
        period: Period::Day,
        after: "09:00".to_owned(),
        before: "10:00".to_owned(),
    };
    for (late, state) in [(3500, Running), (3700, Missed)] {
        let mut w = World::new(5);
        w.create("a", of(settings(rule.clone()), [order(1)]));
        w.now = w.now + Duration::from_secs(3600 + late);
        w.take_over();
        w.seconds(0.0);
        assert_eq!(w.states(), [(3600, state)]);
    }
}

#[test]
fn runs_survive_a_crash_as_they_are() {
    let mut w = World::new(5);
    w.job("a", 10, |settings| settings.overlap = Overlap::QueueAll);
    w.seconds(20.0);
    let before = w.shard.digest(w.now).jobs;
    assert_eq!(w.states(), [(10, Running), (20, Waiting)]);
    w.rebuild();
    assert_eq!(w.shard.digest(w.now).jobs, before);
    w.succeed_all();
    assert_eq!(w.states(), [(10, Succeeded), (20, Running)]);
}

#[test]
fn a_definition_is_changed_by_its_version_and_repeated_without_effect() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    let job = of(settings(every(10)), [order(1)]);
    let name: Arc<str> = "a".into();
    let create = JobVerb::Create {
        name: name.clone(),
        job,
    };
    assert!(matches!(w.ask_jobs(create), Ok(JobReply::Job(_, _, false))));
    let update = |version, job| JobVerb::Update {
        name: "a".into(),
        job,
        version,
    };
    let new = of(settings(every(30)), [order(1)]);
    let rejected = w.ask_jobs(update(Some(7), new.clone()));
    assert_eq!(rejected.err(), Some(Reject::Job(JobReject::JobChanged(1))));
    w.seconds(5.0);
    let updated = w.ask_jobs(update(Some(1), new)).expect("it is its version");
    let JobReply::Job(image, state, true) = updated else {
        panic!("{updated:?}");
    };
    let due = state.next_due.map(|due| (due.0 - BEGIN.0) / 1_000_000);
    assert_eq!((image.version, due), (2, Some(30)));
    w.seconds(25.0);
    assert_eq!(w.states(), [(30, Running)]);
    let gone = JobVerb::Delete {
        name,
        version: None,
    };
    w.ask_jobs(gone).expect("it is there");
    w.succeed_all();
    w.seconds(60.0);
    assert_eq!(w.states(), [(30, Succeeded)]);
    let unknown = w.run_now("a").err();
    assert_eq!(unknown, Some(JobReject::UnknownJob("a".into())));
}

#[test]
fn a_job_follows_successful_runs_of_another_one() {
    let mut w = World::new(5);
    w.job("a", 10, |_| {});
    let follower = || of(settings(RuleText::After("a".to_owned())), [order(1)]);
    w.create("b", follower());
    let rule = RuleText::After("b".to_owned());
    let circle = JobVerb::Update {
        name: "a".into(),
        job: of(settings(rule), [order(1)]),
        version: None,
    };
    let circle = w.ask_jobs(circle).err();
    let way = ["a", "b", "a"].map(Into::into).to_vec();
    assert_eq!(circle, Some(Reject::Job(JobReject::FollowsItself(way))));
    w.seconds(10.0);
    w.fail_all();
    assert!(w.runs().is_empty());
    w.seconds(10.0);
    w.succeed_all();
    let runs = w.remembered.job_runs.range(RunKey::all_of(JobNo(2)));
    let states: Vec<_> = runs.map(|(_, run)| run.state).collect();
    assert_eq!(states, [Running]);
}
