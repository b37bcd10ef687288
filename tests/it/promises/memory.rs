//! Bodies that do not fit into memory are read back from the journal when their turn is near, and nobody notices.

use crate::harness::{
    server::{Server, Setup},
    work::{Work, sql},
};
use rallypoint_client::api::{Outcome, SchedulerSettings};
use sqlx::{Connection, PgConnection};
use std::collections::BTreeMap;

/// Room for a few hundred of the bodies below, which are thousands.
const ROOM: usize = 1 << 20;

/// Writes down that it ran; a statement of more than 2 KiB.
fn mark(scheduler: i64, number: i64) -> Work {
    sql(format!(
        "insert into ran values ({scheduler}, {number}) -- {}",
        "a long statement ".repeat(128)
    ))
}

#[tokio::test]
async fn tasks_whose_bodies_do_not_fit_into_memory_run_once_each_in_their_order() {
    let server = Server::with(Setup {
        body_bytes: ROOM,
        ..Setup::default()
    })
    .await;
    let mut app = PgConnection::connect_with(&server.app)
        .await
        .expect("connected");
    sqlx::raw_sql("create table ran (scheduler bigint, number bigint); create sequence tries")
        .execute(&mut app)
        .await
        .expect("made");
    let settings = |max_parallelism| SchedulerSettings {
        max_parallelism,
        ..Default::default()
    };
    let schedulers = [
        server.open(settings(None)).await,
        server.open(settings(Some(1))).await,
        server.open(settings(None)).await,
    ];
    let count = 600;
    let mut expected = BTreeMap::new();
    for (at, scheduler) in (0..).zip(&schedulers) {
        scheduler.scheduler.pause().await.expect("paused");
        for call in 0..3 {
            let tasks = (0..count / 3).map(|n| mark(at, call * count / 3 + n).order(100 + call));
            scheduler.submit(tasks).await;
        }
        // Its body is asked for again for each attempt.
        let third_time = format!(
            "select 1 / greatest(0, nextval('tries') - 2) -- {}",
            "again ".repeat(500)
        );
        if at == 0 {
            scheduler
                .submit([sql(third_time).attempts(5).order(200)])
                .await;
        }
        expected.insert(at, count);
    }
    for scheduler in &schedulers {
        scheduler.scheduler.resume(false).await.expect("resumed");
    }
    for scheduler in &schedulers {
        assert!(
            scheduler
                .all_done()
                .await
                .iter()
                .all(|done| done.outcome() == Outcome::Succeeded),
            "all succeed"
        );
        assert_eq!(scheduler.log().await.overlaps(), []);
    }
    assert_eq!(schedulers[0].log().await.entry(count + 1).attempt, Some(3));
    let ran: Vec<(i64, i64, i64)> = sqlx::query_as(
        "select scheduler, count(*), count(distinct number) from ran group by 1 order by 1",
    )
    .fetch_all(&mut app)
    .await
    .expect("counted");
    assert_eq!(
        ran,
        [(0, count, count), (1, count, count), (2, count, count)]
    );
}
