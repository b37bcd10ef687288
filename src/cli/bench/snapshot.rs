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
use tokio::sync::watch;

const ONE_BY_ONE: u64 = 2_000;
const CALLERS: u64 = 64;

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
    let (mut calm, mut held, mut days) = (Side::default(), Side::default(), Side::default());
    let before = batches(&place, &database).await?;
    for _ in 0..runs {
        calm.turn(&server, total).await?;
        let mut session = place.connect(&database).await?;
        look(&mut session).await?;
        held.turn(&server, total).await?;
        let (stop, stopped) = watch::channel(false);
        let turning = tokio::spawn(turn_days(place.connect(&database).await?, stopped));
        days.turn(&server, total).await?;
        stop.send_replace(true);
        session.execute("rollback").await?;
        session.close().await?;
        turning.await??;
    }
    let batches = (batches(&place, &database).await? - before) / runs as f64;
    let (figure, yardstick) = (median(&held.rates), median(&calm.rates));
    Ok(Report {
        name: "snapshot",
        figure,
        unit: "tasks/s",
        yardstick: ("the same load without, same run", yardstick),
        ratio: figure / yardstick,
        also: vec![
            ("p99_ratio", median(&held.p99s) / median(&calm.p99s)),
            ("days_tasks_per_s", median(&days.rates)),
            ("days_ratio", median(&days.rates) / yardstick),
            ("days_p99_ratio", median(&days.p99s) / median(&calm.p99s)),
            ("p99_us", median(&held.p99s)),
            ("batches_per_run", batches),
        ],
        runs: held.rates,
        ran: format!(
            "{total} no-op tasks, 1 a call, {CALLERS} callers, then {ONE_BY_ONE} one at a time, while a repeatable read transaction \
             that has read execution_log stays open; and again while a day is made, attached, detached and dropped besides"
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

/// Makes, attaches, detaches and drops a day far away, for as long as it is let.
async fn turn_days(mut session: PgConnection, mut stopped: watch::Receiver<bool>) -> Result<()> {
    session.execute("set lock_timeout = '200ms'").await?;
    while !*stopped.borrow_and_update() {
        let began = Instant::now();
        session.execute("create table if not exists submission_far (like submission including all)").await?;
        // An open reader makes these run into their timeout: the rest is done in a later round.
        let _ = session
            .execute("alter table submission attach partition submission_far for values from ('2199-01-01') to ('2199-01-02')")
            .await;
        let _ = session.execute("alter table submission detach partition submission_far concurrently").await;
        let _ = session.execute("alter table submission detach partition submission_far finalize").await;
        let _ = session.execute("drop table submission_far").await;
        let rest = Duration::from_millis(500).saturating_sub(began.elapsed());
        let _ = tokio::time::timeout(rest, stopped.changed()).await;
    }
    // Nobody is in the way any more.
    let _ = session.execute("alter table submission detach partition submission_far finalize").await;
    session.execute("drop table if exists submission_far").await?;
    session.close().await?;
    Ok(())
}

async fn batches(place: &Place, database: &str) -> Result<f64> {
    Ok(place.journal(database).await?.reader().status().await?.last_batch.0 as f64)
}
