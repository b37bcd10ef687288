//! The jobs of a campaign: due every few seconds under each rule of overlap, with steps that take
//! longer now and then, and one of which claimants do the runs. The agent is stopped and started
//! meanwhile, and stopped for good in the end.

mod claimants;

use super::Load;
use crate::{
    fixture::Fixture,
    history::{Answer, Entry},
    jobs::{JobEntry, JobRun},
    rng::Rng,
};
use rallypoint_client::api::{
    self, Misfire, Overlap, StopMode, job_service_client::JobServiceClient, schedule::Rule,
    task::Kind,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{Request, Response, Status, metadata::MetadataValue, transport::Channel};

/// The caller of all schedulers that runs open.
pub(crate) const JOBS_CALLER: &str = "jobs";
/// The job of which claimants do the runs.
const CLAIMED: &str = "claimed";
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How long the agent is stopped, and how long it goes on between.
const STOPPED: Duration = Duration::from_millis(1_200);
const STARTED: Duration = Duration::from_secs(8);
/// A call of unknown outcome may come about for so long.
const LATE: Duration = Duration::from_secs(15);

/// Runs and leases end within that when nothing disturbs them.
const DRAINED: Duration = Duration::from_secs(120);

/// Name, seconds between due times, rule, and what a run does.
const DEFINITIONS: [(&str, i64, Overlap, &str); 7] = [
    (
        "skips",
        1,
        Overlap::Skip,
        "select pg_sleep(2 * random() * random())",
    ),
    (
        "queues-one",
        2,
        Overlap::QueueOne,
        "select pg_sleep(4 * random() * random())",
    ),
    (
        "queues-all",
        2,
        Overlap::QueueAll,
        "select pg_sleep(3 * random() * random())",
    ),
    (
        "keeps-newest",
        2,
        Overlap::KeepNewest,
        "select pg_sleep(4 * random() * random())",
    ),
    (
        "cancels",
        2,
        Overlap::CancelRunning,
        "select pg_sleep(4 * random() * random())",
    ),
    ("side-by-side", 1, Overlap::Allow, "select 1"),
    ("fails", 3, Overlap::Skip, "select 1 / (random() * 2)::int4"),
];

impl Load {
    /// Keeps jobs and claims runs, until [`Load::stop`] and the agent is stopped for good.
    pub(crate) async fn keep_jobs(
        self: &Arc<Self>,
        fixture: &Arc<Fixture>,
        seed: u64,
    ) -> JoinSet<()> {
        let mut running = JoinSet::new();
        if !self.one_version {
            return running;
        }
        let mut keeper = Keeper {
            load: self.clone(),
            fixture: fixture.clone(),
            rng: Rng::new(seed),
            server: 0,
            last_unknown: None,
        };
        keeper.create_all().await;
        running.spawn(keeper.stop_now_and_then());
        claimants::spawn(&mut running, self, fixture, seed);
        running
    }

    pub(super) fn jobs(&self, server: usize) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channels[server % self.channels.len()].clone())
    }

    pub(super) fn note_job(&self, what: JobEntry) {
        self.history.write(&Entry::Job(what));
    }
}

/// Who defines the jobs, and stops and starts the agent.
struct Keeper {
    load: Arc<Load>,
    fixture: Arc<Fixture>,
    rng: Rng,
    server: usize,
    /// When a call that starts the agent was of unknown outcome last.
    last_unknown: Option<Instant>,
}

impl Keeper {
    async fn create_all(&mut self) {
        for (name, every, overlap, statement) in DEFINITIONS {
            self.create(name, every, overlap, settings(every, overlap, statement))
                .await;
        }
        let claimed = api::JobSettings {
            claims: Some(api::RunClaims {
                target: rallypoint::postgres::TARGET.to_owned(),
            }),
            steps: Vec::new(),
            rerun: Some(rerun(3)),
            ..settings(4, Overlap::Skip, "")
        };
        self.create(CLAIMED, 4, Overlap::Skip, claimed).await;
    }

    async fn create(&mut self, name: &str, every: i64, overlap: Overlap, job: api::JobSettings) {
        let repeats = job.rerun.map_or(0, |rerun| rerun.max);
        let request = api::CreateJobRequest {
            name: name.to_owned(),
            settings: Some(job),
            validate_only: false,
        };
        let call = |mut jobs: JobServiceClient<Channel>| {
            let mut request = Request::new(request.clone());
            let caller = MetadataValue::from_static(JOBS_CALLER);
            request.metadata_mut().insert("rallypoint-caller", caller);
            async move { jobs.create_job(request).await }
        };
        let created = self.repeat(call).await;
        assert!(matches!(created, Answer::Ok(_)), "{created:?}");
        self.load.note_job(JobEntry::Defined {
            job: name.to_owned(),
            every: every * 1_000_000,
            side_by_side: overlap == Overlap::Allow,
            claimed: name == CLAIMED,
            repeats: Some(repeats),
            overlap: Some(overlap.into()),
        });
    }

    async fn stop_now_and_then(mut self) {
        let mut next = Instant::now() + STARTED;
        while !self.load.is_stopping() {
            sleep(RETRY_INTERVAL).await;
            // A start that is late must not be taken for a run under a stopped agent.
            let is_quiet = self.last_unknown.is_none_or(|at| at.elapsed() > LATE);
            if Instant::now() < next || !is_quiet {
                continue;
            }
            let mode = match self.rng.percent(30) {
                true => StopMode::CancelRunning,
                false => StopMode::Drain,
            };
            self.stop(mode).await;
            self.start().await;
            next = Instant::now() + STARTED;
        }
        let left = self
            .last_unknown
            .map_or(Duration::ZERO, |at| LATE.saturating_sub(at.elapsed()));
        sleep(left).await;
        self.stop(StopMode::Drain).await;
        self.drain().await;
        // What waits, which would wait for the agent.
        self.stop(StopMode::CancelRunning).await;
    }

    /// Waits for what runs to end by itself.
    async fn drain(&self) {
        let begun = Instant::now();
        let mut left = None;
        while left != Some(0) && begun.elapsed() < DRAINED {
            sleep(RETRY_INTERVAL).await;
            left = self.running().await.or(left);
        }
        if let Some(left) = left {
            self.load.note_job(JobEntry::Drained { left });
        }
    }

    /// Runs that run, as the journal has them. `None`: it does not answer.
    async fn running(&self) -> Option<i64> {
        let mut session = self.fixture.journal.session().await.ok()?;
        let running = sqlx::query_scalar("select count(*) from job_run where state = $1");
        let running = running.bind(JobRun::RUNNING as i16);
        running.fetch_one(&mut session).await.ok()
    }

    async fn start(&mut self) {
        let call = |mut jobs: JobServiceClient<Channel>| async move {
            jobs.start_agent(api::StartAgentRequest {}).await
        };
        self.repeat(call).await;
    }

    /// Stops the agent, and counts what is opened nevertheless.
    async fn stop(&mut self, mode: StopMode) {
        let request = api::StopAgentRequest {
            mode: mode.into(),
            reason: "the campaign".into(),
        };
        let call = |mut jobs: JobServiceClient<Channel>| {
            let request = request.clone();
            async move { jobs.stop_agent(request).await }
        };
        if !matches!(self.repeat(call).await, Answer::Ok(_)) {
            return;
        }
        let before = self.opened().await;
        sleep(STOPPED).await;
        if let (Some(before), Some(after)) = (before, self.opened().await) {
            self.load.note_job(JobEntry::Stopped { before, after });
        }
    }

    /// Schedulers of runs so far, as the journal has them; without those that ask targets about
    /// claims, which goes on. `None`: it does not answer.
    async fn opened(&self) -> Option<i64> {
        let mut session = self.fixture.journal.session().await.ok()?;
        let query = "select count(*)
            from scheduler
            where caller = $1
                and convert_from(settings, 'UTF8')::jsonb -> 'labels' ->> 'job' <> $2";
        let opened = sqlx::query_scalar(query)
            .bind(JOBS_CALLER.as_bytes())
            .bind(CLAIMED);
        opened.fetch_one(&mut session).await.ok()
    }

    /// Makes a call until its outcome is known.
    async fn repeat<T, C>(&mut self, call: impl Fn(JobServiceClient<Channel>) -> C) -> Answer<T>
    where
        C: Future<Output = Result<Response<T>, Status>>,
    {
        loop {
            let answer = self.load.once(call(self.load.jobs(self.server))).await;
            if !matches!(answer, Answer::Unknown(_)) {
                return answer;
            }
            self.last_unknown = Some(Instant::now());
            self.server += 1;
            sleep(RETRY_INTERVAL).await;
        }
    }
}

fn settings(every: i64, overlap: Overlap, statement: &str) -> api::JobSettings {
    let interval = api::Interval {
        every: Some(seconds(every)),
        phase: None,
    };
    let step = api::Task {
        kind: Some(Kind::Sql(api::SqlTask {
            statement: statement.to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    };
    api::JobSettings {
        schedule: Some(api::Schedule {
            rule: Some(Rule::Interval(interval)),
            ..Default::default()
        }),
        steps: vec![step],
        overlap: overlap.into(),
        misfire: Misfire::CatchUp.into(),
        catch_up_max: 3,
        rerun: statement.contains('/').then(|| rerun(1)),
        ..Default::default()
    }
}

fn rerun(max: i32) -> api::Rerun {
    api::Rerun {
        within_window: false,
        max,
        delay: Some(seconds(1)),
    }
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
