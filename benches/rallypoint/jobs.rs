//! Many jobs that are due in the same second, on three replicas, of which the owner is killed while
//! they begin: whether a due time has two runs, and how late the last one began, after the due time
//! or after another replica had taken over.

use crate::{
    environment::Environment,
    report::{Report, median},
    takeover::Replicas,
};
use anyhow::{Result, ensure};
use rallypoint_client::{
    Client,
    api::{CreateJobRequest, Interval, JobSettings, Schedule, SqlTask, Task, schedule, task},
};
use sqlx::{PgConnection, Row};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{task::JoinSet, time::sleep};

const CALLERS: u64 = 32;
const DAY_S: u64 = 86_400;
/// What is allowed.
const ALLOWED_S: f64 = 2.0;
/// Others with a burst of due times, as far as each was ever seen with: measured once, on another
/// machine and without a kill (`benches/README.md`), so no ratio is made of them.
const ELSEWHERE: [(&str, f64); 4] = [
    ("elsewhere_pg_cron_200_jobs_last_s", 0.5),
    ("elsewhere_pg_cron_jobs_per_s", 406.0),
    ("elsewhere_pgagent_100_jobs_last_s", 1.72),
    ("elsewhere_pgagent_jobs_per_s", 57.0),
];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// While the first run is waited for.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
const TIMEOUT: Duration = Duration::from_secs(300);

/// What one round has measured.
struct Round {
    latest_s: f64,
    duplicates: i64,
    before_kill: i64,
    takeover_s: f64,
}

pub(crate) async fn run(count: u64, runs: usize) -> Result<Report> {
    let mut rounds = Vec::new();
    for number in 0..runs {
        rounds.push(round(count, number).await?);
    }
    let all: Vec<f64> = rounds.iter().map(|round| round.latest_s).collect();
    let latest = all.iter().copied().fold(0.0, f64::max);
    let duplicates: i64 = rounds.iter().map(|round| round.duplicates).sum();
    let of = |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
    Ok(Report {
        name: "jobs",
        figure: median(&all),
        unit: "s",
        runs: all.clone(),
        baseline: ("what is allowed", ALLOWED_S),
        ratio: median(&all) / ALLOWED_S,
        also: [
            ("duplicates", duplicates as f64),
            ("latest_s", latest),
            (
                "begun_before_the_kill",
                of(|round| round.before_kill as f64),
            ),
            ("takeover_s", of(|round| round.takeover_s)),
        ]
        .into_iter()
        .chain(ELSEWHERE)
        .collect(),
        ran: format!(
            "{count} jobs with a step of SQL due in one second on 3 replicas, kill -9 of the owner \
             when the first have begun; from the due time or the takeover to the begin of the last \
             run. Elsewhere: pg_cron 1.4.2 and pgAgent 4.2.2 on another machine, nobody killed \
             (benches/README.md)"
        ),
    })
}

async fn round(count: u64, number: usize) -> Result<Round> {
    let environment = Environment::new().await?;
    let database = environment
        .database(&format!("bench_jobs_{number}"))
        .await?;
    let mut replicas = Replicas::start(&environment, &database).await?;
    let client = Client::connect_lazy(&replicas.addresses.join(","))?;
    let mut journal = environment.connect(&database).await?;
    // Creating them must be over by then.
    let due_s = now_s() as u64 + 10 + count / 100;
    create(&client, count, |_| settings(DAY_S as i64, due_s as i64)).await?;
    ensure!(
        now_s() < due_s as f64 - 1.0,
        "the jobs were not created in time"
    );
    let owner = replicas.owner(&client).await?;
    sleep(Duration::from_secs_f64(due_s as f64 - now_s())).await;
    begun(&mut journal, 1, due_s, FIRST_INTERVAL).await?;
    replicas.kill(owner).await?;
    let killed_s = now_s();
    let taken_over_s = loop {
        match replicas.owner(&client).await {
            Ok(new) if new != owner => break now_s(),
            _ => sleep(POLL_INTERVAL).await,
        }
    };
    ensure!(
        taken_over_s - killed_s < TIMEOUT.as_secs_f64(),
        "nobody took over"
    );
    begun(&mut journal, count, due_s, POLL_INTERVAL).await?;
    let measured = measure(&mut journal, (due_s, killed_s, taken_over_s)).await?;
    ensure!(
        measured.before_kill < count as i64,
        "every run had begun when the owner was killed"
    );
    Ok(measured)
}

/// Creates so many jobs, each by its number.
pub(crate) async fn create(
    client: &Client,
    count: u64,
    settings: impl Fn(u64) -> JobSettings,
) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    let all: Arc<Vec<JobSettings>> = Arc::new((0..count).map(settings).collect());
    for _ in 0..CALLERS {
        let (client, next, all) = (client.clone(), Arc::clone(&next), Arc::clone(&all));
        callers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(settings) = all.get(number as usize) else {
                    return anyhow::Ok(());
                };
                let request = CreateJobRequest {
                    name: format!("job-{number}"),
                    settings: Some(settings.clone()),
                    validate_only: false,
                };
                client.create_job(request).await?;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Due every so many seconds, with this one among them, with a step of SQL.
pub(crate) fn settings(every_s: i64, due_s: i64) -> JobSettings {
    let seconds = |seconds: i64| Some(prost_types::Duration { seconds, nanos: 0 });
    let interval = Interval {
        every: seconds(every_s),
        phase: seconds(due_s % every_s),
    };
    let step = SqlTask {
        statement: "select 1".to_owned(),
        ..SqlTask::default()
    };
    JobSettings {
        schedule: Some(Schedule {
            rule: Some(schedule::Rule::Interval(interval)),
            ..Schedule::default()
        }),
        steps: vec![Task {
            kind: Some(task::Kind::Sql(step)),
            ..Task::default()
        }],
        ..JobSettings::default()
    }
}

/// Waits until so many jobs have begun their runs.
async fn begun(
    journal: &mut PgConnection,
    count: u64,
    due_s: u64,
    interval: Duration,
) -> Result<()> {
    let since = SystemTime::now();
    loop {
        let begun: i64 = sqlx::query_scalar(
            "select count(*) from job_run where due_at = to_timestamp($1) and attempt > 0",
        )
        .bind(due_s as f64)
        .fetch_one(&mut *journal)
        .await?;
        if begun as u64 >= count {
            return Ok(());
        }
        ensure!(
            since.elapsed()? < TIMEOUT,
            "{begun} of {count} runs have begun"
        );
        sleep(interval).await;
    }
}

async fn measure(
    journal: &mut PgConnection,
    (due_s, killed_s, taken_over_s): (u64, f64, f64),
) -> Result<Round> {
    // Nothing but runs has opened a scheduler.
    let row = sqlx::query(
        "select
             (select count(*) from scheduler) - count(*) as duplicates,
             count(*) filter (where started <= $2) as before_kill,
             coalesce(max(started - $1) filter (where started <= $2), 0)::float8 as latest_before,
             coalesce(max(started - $3) filter (where started > $2), 0)::float8 as latest_after
         from (
             select extract(epoch from started_at)::float8 as started
             from job_run
             where due_at = to_timestamp($1)
         ) as runs",
    )
    .bind(due_s as f64)
    .bind(killed_s)
    .bind(taken_over_s)
    .fetch_one(journal)
    .await?;
    let before: f64 = row.try_get("latest_before")?;
    let after: f64 = row.try_get("latest_after")?;
    Ok(Round {
        latest_s: before.max(after),
        duplicates: row.try_get("duplicates")?,
        before_kill: row.try_get("before_kill")?,
        takeover_s: taken_over_s - killed_s,
    })
}

fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}
