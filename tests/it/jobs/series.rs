//! A series of orders as a job: the tasks of the first of the articles (two of order 100, three of
//! 200, one of 300, two of 400, one of 500, and such as have no order), for which it had three
//! readers. Each task waits at the gate of its order, so no clock decides what runs beside what.

use super::*;
use crate::harness::postgres::connect;
use sqlx::PgConnection;
use std::collections::BTreeMap;

const SERIES: [(i64, usize); 5] = [(100, 2), (200, 3), (300, 1), (400, 2), (500, 1)];
const WITHOUT_ORDER: usize = 4;
const SLOTS: i64 = 3;

/// Closed gates, one for each order and one for tasks without.
struct Gates {
    holder: PgConnection,
    watcher: PgConnection,
}

impl Gates {
    async fn close(server: &Server) -> Gates {
        let mut holder = connect(&server.app).await;
        for gate in [0].into_iter().chain(SERIES.map(|(order, _)| order)) {
            let close = sqlx::query("select pg_advisory_lock($1)").bind(gate);
            close.execute(&mut holder).await.expect("a gate");
        }
        let watcher = connect(&server.app).await;
        Gates { holder, watcher }
    }

    fn task(gate: i64) -> Work {
        sql(format!("select pg_advisory_xact_lock_shared({gate})"))
    }

    async fn open(&mut self, gate: i64) {
        let open = sqlx::query("select pg_advisory_unlock($1)").bind(gate);
        open.execute(&mut self.holder).await.expect("opened");
    }

    /// Tasks that wait, by gate.
    async fn waiting(&mut self) -> BTreeMap<i64, usize> {
        let waiting = "
            select objid::int8
            from pg_locks
            where locktype = 'advisory' and not granted
                and database = (select oid from pg_database where datname = current_database())";
        let waiting: Vec<i64> = sqlx::query_scalar(waiting)
            .fetch_all(&mut self.watcher)
            .await
            .expect("the locks");
        let mut by_gate = BTreeMap::new();
        for gate in waiting {
            *by_gate.entry(gate).or_default() += 1;
        }
        by_gate
    }

    /// Waits until it is so. More than three never wait.
    async fn reached(&mut self, is_it: impl Fn(&BTreeMap<i64, usize>) -> bool) {
        let mut last = BTreeMap::new();
        let wait = async {
            while !is_it(&last) {
                sleep(POLL_INTERVAL).await;
                last = self.waiting().await;
                assert!(last.values().sum::<usize>() <= 3, "{last:?}");
            }
        };
        let reached = timeout(WAIT_TIMEOUT, wait).await;
        assert!(reached.is_ok(), "{last:?}");
    }
}

#[tokio::test]
async fn a_series_of_orders_runs_in_three_slots_and_keeps_its_sequence() {
    let server = Server::with(Setup {
        slots: 8,
        ..Setup::default()
    })
    .await;
    let client = &server.client;
    let mut gates = Gates::close(&server).await;
    let tasks = |(order, count)| (0..count).map(move |_| Gates::task(order).order(order));
    let without = (0..WITHOUT_ORDER).map(|_| Gates::task(0));
    let settings = JobSettings {
        scheduler: Some(SchedulerSettings {
            max_parallelism: Some(SLOTS as i32),
            ..SchedulerSettings::default()
        }),
        ..job(86_400, without.chain(SERIES.into_iter().flat_map(tasks)))
    };
    create(client, "series", settings).await;
    let run = run_now(client, "series").await.expect("it starts");
    // Six may begin, and three do.
    gates
        .reached(|waiting| waiting.values().sum::<usize>() == 3)
        .await;
    gates.open(0).await;
    for (order, count) in SERIES {
        gates
            .reached(|waiting| *waiting == [(order, count)].into())
            .await;
        gates.open(order).await;
    }
    let over = |runs: &[JobRun]| runs[0].ended_at.is_some();
    let ended = runs_until(client, "series", over).await.remove(0);
    assert_eq!(ended.state(), RunState::Succeeded);
    assert_eq!(ended.handle, run.handle);
    orders_follow_each_other_in_the_log(&server).await;
}

/// What the log says: no task of an order begins before all of the earlier ones have ended, and
/// three run at a time, never more.
async fn orders_follow_each_other_in_the_log(server: &Server) {
    let mut journal = connect(&server.journal).await;
    let early = "
        select count(*)
        from rallypoint_log.execution_log before
        join rallypoint_log.execution_log t on before.task_order < t.task_order
        where before.ended_at > t.started_at";
    let early: i64 = sqlx::query_scalar(early)
        .fetch_one(&mut journal)
        .await
        .expect("the log");
    assert_eq!(early, 0, "tasks that began before their turn");
    let beside = "
        select count(*), max((
            select count(*)
            from rallypoint_log.execution_log o
            where o.started_at <= t.started_at and o.ended_at > t.started_at
        ))
        from rallypoint_log.execution_log t";
    let (tasks, most): (i64, i64) = sqlx::query_as(beside)
        .fetch_one(&mut journal)
        .await
        .expect("the log");
    assert_eq!((tasks, most), (9 + WITHOUT_ORDER as i64, SLOTS));
}

#[tokio::test]
async fn a_step_that_fails_is_the_failure_of_its_run() {
    let server = Server::start().await;
    let client = &server.client;
    let steps = [sql("select 1").order(100), sql("select 1/0").order(200)];
    create(client, "broken", job(86_400, steps)).await;
    let run = run_now(client, "broken").await.expect("it starts");
    let over = |runs: &[JobRun]| runs[0].ended_at.is_some();
    let ended = runs_until(client, "broken", over).await.remove(0);
    assert_eq!((ended.state(), ended.failed_tasks), (RunState::Failed, 1));
    assert_eq!(ended.handle, run.handle);
}
