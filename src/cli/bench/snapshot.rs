//! Somebody who looks at the log and goes to lunch with the transaction open, and days that come and go meanwhile: the same
//! load without, with, and while a day is made, attached, detached and dropped again and again.

use super::{
    latency, load,
    place::{Place, Server},
    report::{Report, median},
};
use anyhow::Result;
use sqlx::{Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use tokio::{sync::watch, task::JoinHandle};

const ONE_BY_ONE: u64 = 2_000;
const CALLERS: u64 = 64;
const ATTACH: &str = "alter table submission attach partition submission_far for values from ('2199-01-01') to ('2199-01-02')";

/// Figures of one kind of disturbance, turn by turn.
#[derive(Default)]
struct Side {
    rates: Vec<f64>,
    p99s: Vec<f64>,
}

pub async fn run(total: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let database = place.database("bench").await?;
    let server = place.server(&database).await?;
    load::drive(&server.address, total / 10, 1, CALLERS).await?;
    let (mut calm, mut held, mut days, mut both) = (Side::default(), Side::default(), Side::default(), Side::default());
    let (mut turned, before) = (0, batches(&place, &database).await?);
    for _ in 0..runs {
        calm.turn(&server, total).await?;
        let turning = Days::start(&place, &database).await?;
        days.turn(&server, total).await?;
        turned += turning.stop().await?;
        let mut session = place.connect(&database).await?;
        look(&mut session).await?;
        held.turn(&server, total).await?;
        let turning = Days::start(&place, &database).await?;
        both.turn(&server, total).await?;
        session.execute("rollback").await?;
        session.close().await?;
        turning.stop().await?;
    }
    let batches = (batches(&place, &database).await? - before) / runs as f64 / 4.0;
    let (figure, yardstick) = (median(&held.rates), median(&calm.rates));
    let (rate, p99) = (|side: &Side| median(&side.rates) / yardstick, |side: &Side| median(&side.p99s) / median(&calm.p99s));
    Ok(Report {
        name: "snapshot",
        figure,
        unit: "tasks/s",
        yardstick: ("the same load without, same run", yardstick),
        ratio: rate(&held),
        also: vec![
            ("p99_us", median(&held.p99s)),
            ("p99_ratio", p99(&held)),
            ("days_ratio", rate(&days)),
            ("days_p99_ratio", p99(&days)),
            ("both_ratio", rate(&both)),
            ("both_p99_ratio", p99(&both)),
            ("days_turned", f64::from(turned) / runs as f64),
            ("batches_each", batches),
        ],
        runs: held.rates,
        ran: format!(
            "{total} no-op tasks, 1 a call, {CALLERS} callers, then {ONE_BY_ONE} one at a time: alone; while days are made, attached, \
             detached and dropped; while a repeatable read transaction that has read execution_log stays open; with both"
        ),
    })
}

impl Side {
    async fn turn(&mut self, server: &Server, total: u64) -> Result<()> {
        let took = load::drive(&server.address, total, 1, CALLERS).await?;
        self.rates.push(total as f64 / took.as_secs_f64());
        self.p99s.push(latency::at(&latency::tasks(&server.address, ONE_BY_ONE).await?, 0.99));
        Ok(())
    }
}

async fn look(session: &mut PgConnection) -> Result<()> {
    session.execute("begin isolation level repeatable read; select 1 from execution_log limit 1").await?;
    Ok(())
}

/// Makes, attaches, detaches and drops a day far away, twice a second, as the server's housekeeping does it.
struct Days {
    stop: watch::Sender<bool>,
    turning: JoinHandle<Result<u32>>,
}

impl Days {
    async fn start(place: &Place, database: &str) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let turning = tokio::spawn(turn_days(place.connect(database).await?, stopped));
        Ok(Days { stop, turning })
    }

    /// How many days have come and gone.
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
        session.execute("create table if not exists submission_far (like submission including all)").await?;
        // It stands already when an open reader has kept the last one from going.
        let _ = session.execute(ATTACH).await;
        turned += u32::from(let_go(&mut session).await?);
        let rest = Duration::from_millis(500).saturating_sub(began.elapsed());
        let _ = tokio::time::timeout(rest, stopped.changed()).await;
    }
    let_go(&mut session).await?;
    session.close().await?;
    Ok(turned)
}

/// Detaches the day and drops it; says whether it is gone. An open reader keeps it, and then nobody waits behind.
async fn let_go(session: &mut PgConnection) -> Result<bool> {
    let there = "select exists (select from pg_inherits where inhrelid = to_regclass('submission_far'))";
    let _ = session.execute("alter table submission detach partition submission_far concurrently").await;
    let _ = session.execute("alter table submission detach partition submission_far finalize").await;
    if sqlx::query_scalar(there).fetch_one(&mut *session).await? {
        return Ok(false);
    }
    session.execute("drop table if exists submission_far").await?;
    Ok(true)
}

async fn batches(place: &Place, database: &str) -> Result<f64> {
    Ok(place.journal(database).await?.reader().status().await?.last_batch.0 as f64)
}
