//! A server with something in every view: schedulers that ended and that wait, tasks that failed,
//! run and queue, jobs with runs, a resource with a line of waiting claims.

use crate::{fill, lists};
use anyhow::Result;
use rallypoint_client::{
    ClaimStream, Client, Scheduler,
    api::{self, SchedulerSettings, SqlTask, Task, task::Kind},
};
use std::time::Duration;
use tokio::{task::JoinSet, time};

/// Tasks of a call, and callers at a time.
const PER_CALL: u64 = 10_000;
const CALLERS: usize = 64;
/// Tasks that run for as long as it is measured, or wait for a slot.
const LONG: u64 = 40;
const LONG_SQL: &str = "select pg_sleep(36000)";
/// One of so many tasks that end has failed.
const FAILING: u64 = 500;
/// Jobs with a run each, and resources.
const OTHERS: usize = 200;
/// Claims in line.
const IN_LINE: usize = 20;

/// The views, by where they are: `{…}` is one of the schedulers of [`Filled`].
pub(super) const VIEWS: &[(&str, &str)] = &[
    ("overview_ms", "/"),
    ("schedulers_ms", "/schedulers"),
    ("schedulers_open_ms", "/schedulers?state=open"),
    ("schedulers_released_ms", "/schedulers?state=released"),
    ("schedulers_labelled_ms", "/schedulers?label=kind%3Drare"),
    ("schedulers_named_ms", "/schedulers?title=rare"),
    ("large_scheduler_ms", "/schedulers/{large}"),
    (
        "large_scheduler_queued_ms",
        "/schedulers/{large}?state=queued",
    ),
    ("large_scheduler_order_ms", "/schedulers/{large}?order=2"),
    ("ended_scheduler_ms", "/schedulers/{ended}"),
    (
        "ended_scheduler_failed_ms",
        "/schedulers/{ended}?state=failed",
    ),
    ("ended_scheduler_code_ms", "/schedulers/{ended}?code=22012"),
    (
        "ended_scheduler_label_ms",
        "/schedulers/{ended}?label=kind%3Drare",
    ),
    ("blocked_task_ms", "/schedulers/{large}/tasks/2"),
    ("queued_task_ms", "/schedulers/{large}/tasks/499"),
    ("failed_task_ms", "/schedulers/{ended}/tasks/1"),
    ("running_task_ms", "/schedulers/{long}/tasks/1"),
    ("jobs_ms", "/jobs"),
    ("job_ms", "/jobs/job%207"),
    ("resources_ms", "/resources"),
    ("resource_ms", "/resources/resource%2F7"),
    ("system_ms", "/system"),
];

/// What a server was filled with.
pub(super) struct Filled {
    large: Scheduler,
    ended: Scheduler,
    long: Scheduler,
    /// They wait for as long as they are followed.
    _claims: Vec<ClaimStream>,
}

impl Filled {
    /// Fills the server at `address` with `total` tasks, half of them in one of its open
    /// `schedulers`.
    pub(super) async fn with(address: &str, total: u64, schedulers: u64) -> Result<Self> {
        let client = Client::connect(address).await?;
        let ended = ended(&client, (total / 100).max(2 * FAILING)).await?;
        let long = running(&client).await?;
        jobs(&client).await?;
        let claims = resources(&client).await?;
        let large = client.open(named("large")).await?;
        fill::fill_with(&large, 0, total / 2, PER_CALL, 8, in_two_orders).await?;
        many(&client, schedulers, total / 2 / schedulers.max(1)).await?;
        Ok(Filled {
            large,
            ended,
            long,
            _claims: claims,
        })
    }

    /// The views of this server.
    pub(super) fn views(&self) -> Vec<(&'static str, String)> {
        let path = |path: &str| {
            path.replace("{large}", self.large.handle())
                .replace("{ended}", self.ended.handle())
                .replace("{long}", self.long.handle())
        };
        VIEWS.iter().map(|(name, at)| (*name, path(at))).collect()
    }
}

fn named(name: &str) -> SchedulerSettings {
    SchedulerSettings {
        display_name: name.into(),
        ..Default::default()
    }
}

fn sql(statement: &str) -> Task {
    Task {
        kind: Some(Kind::Sql(SqlTask {
            statement: statement.into(),
            ..Default::default()
        })),
        ..Task::default()
    }
}

fn in_two_orders(number: u64) -> Task {
    Task {
        order: Some(1 + (number % 2) as i64),
        ..sql("select 1")
    }
}

/// A released scheduler of which some tasks have failed, the first among them.
async fn ended(client: &Client, total: u64) -> Result<Scheduler> {
    let task = |number: u64| match number % FAILING {
        0 => lists::labelled(sql("select 1 / 0"), "rare"),
        _ => lists::labelled(sql("select 1"), "common"),
    };
    let ended = client.open(named("ended")).await?;
    fill::fill_with(&ended, 0, total, 1_000, 1, task).await?;
    ended.release(api::ReleaseMode::Finish, true).await?;
    Ok(ended)
}

/// A scheduler whose tasks take all slots.
async fn running(client: &Client) -> Result<Scheduler> {
    let long = client.open(named("long")).await?;
    long.exec((0..LONG).map(|_| sql(LONG_SQL)).collect())
        .await?;
    while long.describe().await?.running == 0 {
        time::sleep(Duration::from_millis(20)).await;
    }
    Ok(long)
}

async fn jobs(client: &Client) -> Result<()> {
    for number in 0..OTHERS {
        let name = format!("job {number}");
        let rule = api::schedule::Rule::Cron("30 2 * * *".into());
        let schedule = Some(api::Schedule {
            rule: Some(rule),
            ..Default::default()
        });
        let settings = Some(api::JobSettings {
            schedule,
            steps: vec![Task {
                kind: Some(Kind::Noop(api::NoopTask::default())),
                ..Task::default()
            }],
            ..Default::default()
        });
        let create = api::CreateJobRequest {
            name: name.clone(),
            settings,
            ..Default::default()
        };
        client.create_job(create).await?;
        let run = api::RunJobRequest {
            name,
            ..Default::default()
        };
        client.run_job(run).await?;
    }
    Ok(())
}

/// Resources, one of which is held while others wait for it.
async fn resources(client: &Client) -> Result<Vec<ClaimStream>> {
    for number in 0..OTHERS {
        let settings = Some(api::ResourceSettings {
            capacity: 1,
            ..Default::default()
        });
        let name = format!("resource/{number}");
        let create = api::CreateResourceRequest { name, settings };
        client.create_resource(create).await?;
    }
    let mut claims = Vec::new();
    for number in 0..=IN_LINE {
        let one = api::ResourceUse {
            name: "resource/7".into(),
            ..Default::default()
        };
        let request = api::AcquireRequest {
            resources: vec![one],
            owner: format!("owner {number}"),
            lease: Some(Duration::from_secs(3_600).try_into()?),
            ..Default::default()
        };
        claims.push(client.claim(request).await?);
    }
    Ok(claims)
}

/// Open schedulers, each with as many tasks, one half of which waits for the other.
async fn many(client: &Client, count: u64, tasks_of_each: u64) -> Result<()> {
    let mut opening = JoinSet::new();
    for caller in 0..CALLERS as u64 {
        let client = client.clone();
        opening.spawn(async move {
            for number in (caller..count).step_by(CALLERS) {
                let kind = match number == count / 2 {
                    true => "rare",
                    false => "common",
                };
                let settings = SchedulerSettings {
                    labels: lists::labels(kind),
                    ..named(kind)
                };
                let scheduler = client.open(settings).await?;
                let tasks = (0..tasks_of_each).map(in_two_orders).collect();
                scheduler.exec(tasks).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}
