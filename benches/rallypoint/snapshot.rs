//! A reader who leaves a transaction open after reading the log, and partitions that are created
//! and dropped meanwhile, against the same load on an undisturbed server, turn by turn.

use crate::{
    environment::{Environment, Server},
    latency, load,
    paired::{self, Side},
    report::{Report, median},
};
use anyhow::Result;
use sqlx::{Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use tokio::{sync::watch, task::JoinHandle};

const CALLERS: u64 = 64;
/// Tasks of one turn: by all callers, and then one at a time.
const TOGETHER: u64 = 40_000;
const ONE_BY_ONE: u64 = 1_500;
/// How often a day is created and dropped.
const DAY_INTERVAL: Duration = Duration::from_secs(2);
const ATTACH: &str = "alter table submission attach partition submission_far \
                      for values from ('2199-01-01') to ('2199-01-02')";

/// Two servers on databases of their own, one of them disturbed.
struct Sides {
    environment: Environment,
    alone: Server,
    disturbed: Server,
    database: String,
}

/// Figures of one kind of disturbance.
struct Figures {
    rates: Vec<f64>,
    alone: Vec<f64>,
    rate_ratio: f64,
    p99_ratio: f64,
    p99: f64,
    batches: f64,
}

/// Each disturbance lasts for `batches` batches.
pub(crate) async fn run(batches: u64) -> Result<Report> {
    let environment = Environment::new().await?;
    let (quiet, database) = (
        environment.database("bench_alone").await?,
        environment.database("bench_disturbed").await?,
    );
    let sides = Sides {
        alone: environment.server(&quiet).await?,
        disturbed: environment.server(&database).await?,
        database,
        environment,
    };
    for server in [&sides.alone, &sides.disturbed] {
        load::drive(&server.address, TOGETHER, 1, CALLERS).await?;
    }
    let mut session = sides.environment.connect(&sides.database).await?;
    open_snapshot(&mut session).await?;
    let held = sides.measure(batches).await?;
    let turning = Days::start(&sides.environment, &sides.database).await?;
    let both = sides.measure(batches / 4).await?;
    session.execute("rollback").await?;
    session.close().await?;
    turning.stop().await?;
    let turning = Days::start(&sides.environment, &sides.database).await?;
    let days = sides.measure(batches).await?;
    let turned = turning.stop().await?;
    Ok(Report {
        name: "snapshot",
        figure: median(&held.rates),
        unit: "tasks/s",
        baseline: (
            "the same load on a server that is left alone, turn by turn",
            median(&held.alone),
        ),
        ratio: held.rate_ratio,
        also: vec![
            ("p99_us", held.p99),
            ("p99_ratio", held.p99_ratio),
            ("batches", held.batches),
            ("days_ratio", days.rate_ratio),
            ("days_p99_ratio", days.p99_ratio),
            ("days_batches", days.batches),
            ("days_turned", f64::from(turned)),
            ("both_ratio", both.rate_ratio),
            ("both_p99_ratio", both.p99_ratio),
            ("both_batches", both.batches),
        ],
        runs: held.rates,
        ran: format!(
            "turns of {TOGETHER} no-op tasks, 1 a call, {CALLERS} callers, then {ONE_BY_ONE} one \
             at a time, for {batches} batches while a repeatable read transaction that has read \
             execution_log stays open; then as long while a day is made, attached, detached and \
             dropped every {} s; both for a quarter of it in between",
            DAY_INTERVAL.as_secs()
        ),
    })
}

impl Sides {
    /// Measures turn by turn until the disturbed server has written `batches` batches.
    async fn measure(&self, batches: u64) -> Result<Figures> {
        let (mut alone, mut disturbed) = (Side::default(), Side::default());
        let before = self.batches().await?;
        let mut written = 0.0;
        while written < batches as f64 {
            let mut sides = [(&self.alone, &mut alone), (&self.disturbed, &mut disturbed)];
            sides.rotate_left(self.batches().await? as usize % 2);
            for (server, side) in sides {
                let took = load::drive(&server.address, TOGETHER, 1, CALLERS).await?;
                side.add(
                    TOGETHER as f64 / took.as_secs_f64(),
                    &latency::tasks(&server.address, ONE_BY_ONE).await?,
                );
            }
            written = self.batches().await? - before;
        }
        Ok(Figures {
            rate_ratio: paired::ratio(&disturbed.rates, &alone.rates),
            p99_ratio: paired::ratio(&disturbed.p99s, &alone.p99s),
            p99: median(&disturbed.p99s),
            rates: disturbed.rates,
            alone: alone.rates,
            batches: written,
        })
    }

    async fn batches(&self) -> Result<f64> {
        Ok(self
            .environment
            .journal(&self.database)
            .await?
            .reader()
            .status()
            .await?
            .last_batch
            .0 as f64)
    }
}

async fn open_snapshot(session: &mut PgConnection) -> Result<()> {
    session
        .execute("begin isolation level repeatable read; select 1 from rallypoint_log.execution_log limit 1")
        .await?;
    Ok(())
}

/// Creates, attaches, detaches and drops a partition of a distant day again and again, as the
/// server's maintenance does.
struct Days {
    stop: watch::Sender<bool>,
    turning: JoinHandle<Result<u32>>,
}

impl Days {
    async fn start(environment: &Environment, database: &str) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let turning = tokio::spawn(turn_days(environment.connect(database).await?, stopped));
        Ok(Days { stop, turning })
    }

    /// Stops; returns how many days were created and dropped.
    async fn stop(self) -> Result<u32> {
        self.stop.send_replace(true);
        self.turning.await?
    }
}

async fn turn_days(mut session: PgConnection, mut stopped: watch::Receiver<bool>) -> Result<u32> {
    session.execute("set lock_timeout = '200ms'").await?;
    let mut turned = 0;
    while !*stopped.borrow_and_update() {
        let began = Instant::now();
        session
            .execute("create table if not exists submission_far (like submission including all)")
            .await?;
        // Fails while an open reader has kept the last one attached.
        let _ = session.execute(ATTACH).await;
        turned += u32::from(drop_day(&mut session).await?);
        let rest = DAY_INTERVAL.saturating_sub(began.elapsed());
        let _ = tokio::time::timeout(rest, stopped.changed()).await;
    }
    drop_day(&mut session).await?;
    session.close().await?;
    Ok(turned)
}

/// Detaches the day and drops it; returns whether it is gone. An open reader prevents that, and
/// then no one must wait behind it.
async fn drop_day(session: &mut PgConnection) -> Result<bool> {
    let there =
        "select exists (select from pg_inherits where inhrelid = to_regclass('submission_far'))";
    let _ = session
        .execute("alter table submission detach partition submission_far concurrently")
        .await;
    let _ = session
        .execute("alter table submission detach partition submission_far finalize")
        .await;
    if sqlx::query_scalar(there).fetch_one(&mut *session).await? {
        return Ok(false);
    }
    session
        .execute("drop table if exists submission_far")
        .await?;
    Ok(true)
}
