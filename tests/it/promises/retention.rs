//! What callers may rely on when a scheduler grows old: what stays, what is refused, and with which
//! error.

use crate::harness::{
    conversation::Conversation,
    postgres::{connect, durable},
    server::{Server, Setup},
    work::noop,
};
use rallypoint_client::api::{SchedulerSettings, TaskState};
use sqlx::{AssertSqlSafe, Executor};
use tonic::Code;

#[tokio::test]
async fn a_cursor_older_than_the_retention_is_refused_and_says_where_to_begin() {
    let server = Server::start().await;
    let scheduler = aged(&server).await;
    let error = events_after(&scheduler, 0)
        .await
        .expect_err("the first events are gone");
    assert!(
        error.is("CURSOR_TRUNCATED") && error.code == Code::OutOfRange,
        "{error}"
    );
    assert!(error.violations[0].1.ends_with("begin at 5"), "{error:?}");
    assert_eq!(
        events_after(&scheduler, 5).await.expect("these are there"),
        (6..=10).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_task_older_than_the_retention_is_out_of_range_and_one_that_never_was_is_not_found() {
    let server = Server::start().await;
    let scheduler = aged(&server).await;
    let error = scheduler.scheduler.task(2).await.expect_err("it is gone");
    assert!(
        error.is("CURSOR_TRUNCATED") && error.code == Code::OutOfRange,
        "{error}"
    );
    assert!(error.violations[0].1.ends_with("begin at 6"), "{error:?}");
    assert!(
        scheduler
            .scheduler
            .task(11)
            .await
            .expect_err("it never was")
            .is("TASK_NOT_FOUND")
    );
    assert_eq!(scheduler.task(6).await.state(), TaskState::Done);
}

#[tokio::test]
async fn a_scheduler_open_for_months_loses_nothing_while_its_old_days_go() {
    let own = durable(Vec::new());
    let setup = || Setup {
        postgres: Some(&own),
        ..Setup::default()
    };
    let server = Server::with(setup()).await;
    let old = server.open(SchedulerSettings::default()).await;
    old.submit(noop().times(3)).await;
    old.until(|now| now.done == 3).await;
    old.scheduler.pause().await.expect("paused");
    old.submit(noop().times(2)).await;
    drop(server);
    connect(&old.journal)
        .await
        .execute(AssertSqlSafe(age(40)))
        .await
        .expect("aged");

    let server = Server::with(setup()).await;
    wait_until_dropped(&old).await;

    let same = Conversation {
        scheduler: server.client.scheduler(old.handle()),
        journal: old.journal.clone(),
    };
    let now = same.scheduler.describe().await.expect("described");
    assert_eq!(
        (now.submitted, now.done, now.queued + now.blocked),
        (5, 3, 2)
    );
    drop(server);

    let server = Server::with(setup()).await;
    let same = Conversation {
        scheduler: server.client.scheduler(old.handle()),
        journal: old.journal.clone(),
    };
    assert_eq!(same.submit([noop()]).await, 6);
    same.scheduler.resume(false).await.expect("resumed");
    same.until(|now| now.done == 6).await;
    assert_eq!(
        events_after(&same, 3).await.expect("all that came later"),
        [4, 5, 6]
    );
}

/// A scheduler of ten tasks whose first five are older than the retention.
async fn aged(server: &Server) -> Conversation {
    let scheduler = server.open(SchedulerSettings::default()).await;
    for done in [5, 10] {
        scheduler.submit(noop().times(5)).await;
        scheduler.until(|now| now.done == done).await;
    }
    let go = "delete from completion where first_done_no <= 5;
        delete from submission where first_seq <= 5";
    connect(&server.journal)
        .await
        .execute(go)
        .await
        .expect("gone");
    scheduler
}

async fn events_after(scheduler: &Conversation, after: i64) -> rallypoint_client::Result<Vec<i64>> {
    let mut stream = scheduler.scheduler.synchronize(after, None).await?;
    let mut numbers = Vec::new();
    while let Some(events) = stream.next().await? {
        numbers.extend(events.iter().map(|done| done.done_no));
    }
    Ok(numbers)
}

/// SQL that makes all rows `days` days older.
fn age(days: i32) -> String {
    format!(
        "do $$ declare t text; d date := (now() at time zone 'utc')::date - {days}; begin
            foreach t in array array['submission', 'completion', 'attempt', 'task_label'] loop
                execute format('create table %s partition of %s for values from (%L) to (%L)',
                    t || to_char(d, '_YYYY_MM_DD'), t, d, d + 1);
                execute format('update %s set day = %L', t, d);
            end loop;
            update scheduler set first_day = d;
        end $$"
    )
}

/// Waits until the partitions of the old days are dropped.
async fn wait_until_dropped(scheduler: &Conversation) {
    let left = "select count(*) from pg_class where relname ~ '_\\d{4}_' and relkind = 'r'
        and to_date(right(relname, 10), 'YYYY_MM_DD') < now() - interval '20 days'";
    let mut session = connect(&scheduler.journal).await;
    loop {
        let left: i64 = sqlx::query_scalar(left)
            .fetch_one(&mut session)
            .await
            .expect("a number");
        if left == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
