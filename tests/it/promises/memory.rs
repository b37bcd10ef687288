//! Bodies that do not fit into memory are read back from the journal before their tasks start, and
//! no caller notices.

use crate::harness::{
    conversation::Conversation,
    postgres::connect,
    server::{Server, Setup},
    work::{Work, sql},
};
use rallypoint_client::api::{Outcome, SchedulerSettings};

/// Tasks of each scheduler.
const TASKS: i64 = 600;
/// Enough for a few hundred of the bodies, which are thousands.
const BODY_BYTES: usize = 1 << 20;

/// A statement of more than 2 KiB that records that it ran.
fn mark(scheduler: i64, number: i64) -> Work {
    sql(format!(
        "insert into ran values ({scheduler}, {number}) -- {}",
        "a long statement ".repeat(128)
    ))
}

#[tokio::test]
async fn tasks_whose_bodies_do_not_fit_into_memory_run_once_each_in_their_order() {
    let server = Server::with(Setup {
        body_bytes: BODY_BYTES,
        ..Setup::default()
    })
    .await;
    let mut app = connect(&server.app).await;
    sqlx::raw_sql("create table ran (scheduler bigint, number bigint); create sequence tries")
        .execute(&mut app)
        .await
        .expect("made");
    let schedulers = three_backlogs(&server).await;
    for scheduler in &schedulers {
        scheduler.scheduler.resume(false).await.expect("resumed");
    }
    for scheduler in &schedulers {
        let done = scheduler.all_done().await;
        assert!(
            done.iter().all(|done| done.outcome() == Outcome::Succeeded),
            "all succeed"
        );
        assert_eq!(scheduler.log().await.overlaps(), []);
    }
    assert_eq!(schedulers[0].log().await.entry(TASKS + 1).attempt, Some(3));
    let ran: Vec<(i64, i64, i64)> = sqlx::query_as(
        "select scheduler, count(*), count(distinct number) from ran group by 1 order by 1",
    )
    .fetch_all(&mut app)
    .await
    .expect("counted");
    assert_eq!(
        ran,
        [(0, TASKS, TASKS), (1, TASKS, TASKS), (2, TASKS, TASKS)]
    );
}

/// Three paused schedulers, one with a limit, each with [`TASKS`] tasks in three calls and orders.
/// The first has one more, which is retried.
async fn three_backlogs(server: &Server) -> Vec<Conversation> {
    let mut schedulers = Vec::new();
    for (number, max_parallelism) in (0..).zip([None, Some(1), None]) {
        let settings = SchedulerSettings {
            max_parallelism,
            ..Default::default()
        };
        let scheduler = server.open(settings).await;
        scheduler.scheduler.pause().await.expect("paused");
        for call in 0..3 {
            let numbers = (0..TASKS / 3).map(|n| call * TASKS / 3 + n);
            let tasks = numbers.map(|n| mark(number, n).order(100 + call));
            scheduler.submit(tasks).await;
        }
        schedulers.push(scheduler);
    }
    // Its body is needed again for each attempt.
    let third_time = format!(
        "select 1 / greatest(0, nextval('tries') - 2) -- {}",
        "again ".repeat(500)
    );
    schedulers[0]
        .submit([sql(third_time).attempts(5).order(200)])
        .await;
    schedulers
}
