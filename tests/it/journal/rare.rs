//! What is rare is found by an index, however much else there is.

use super::{
    Owned,
    listing::{labelled, labels, list},
    make::*,
};
use rallypoint::{core::*, journal::indexed_statements};
use sqlx::{AssertSqlSafe, Executor};
use std::{sync::Arc, time::Duration};

const HOUR: Duration = Duration::from_secs(3600);

/// A scheduler of three thousand batches, with one task that timed out and has a label of its own,
/// among as many schedulers, of which one was released and has a label of its own.
async fn one_in_thousands() -> (Owned, Handle) {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let mut target = handle();
    for number in 0..3_000 {
        let rare = number == 700;
        let of = labels(&[("is", if rare { "rare" } else { "common" })]);
        let mut opened = image(handle(), now);
        opened.settings = Arc::new(Settings {
            labels: of.clone(),
            ..Settings::default()
        });
        if rare {
            opened.state = SchedulerState::Released;
        }
        if number == 0 {
            target = opened.handle;
        }
        let first = number + 1;
        let submitted = call(target, first, now, None, &[(1, None, None, labelled(of))]);
        let mut ended = done(first, 1, now);
        if rare {
            ended.outcome = Outcome::TimedOut;
        }
        let ended = completion(target, first, vec![ended]);
        owned
            .write(Records {
                schedulers: images([opened]),
                ..records(vec![submitted], vec![ended])
            })
            .await;
    }
    let runs = "
        insert into job_run (shard, job_no, due_at, due_count, cause, state, catches_up, attempt,
            failed, cancelled)
        select 0, 1, '2026-01-01Z'::timestamptz + n * interval '1 second', 1, 1, 4, false, 1, 0, 0
        from generate_series(1, 3000) n";
    owned.psql().await.execute(runs).await.unwrap();
    (owned, target)
}

async fn plan_of(owned: &Owned, statement: &str, arguments: &str) -> String {
    let mut psql = owned.psql().await;
    let prepare = format!("prepare list as {statement}");
    psql.execute(AssertSqlSafe(prepare)).await.unwrap();
    psql.execute("set enable_sort = off").await.unwrap();
    let explain =
        format!("explain (analyze, costs off, timing off, summary off) execute list({arguments})");
    let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
        .fetch_all(&mut psql)
        .await
        .unwrap();
    plan.join("\n")
}

#[tokio::test]
async fn what_is_rare_is_found_by_an_index() {
    let (owned, handle) = one_in_thousands().await;
    let timed_out = TaskFilter {
        outcomes: vec![Outcome::TimedOut, Outcome::Exhausted],
        ..TaskFilter::default()
    };
    let rare = TaskFilter {
        labels: labels(&[("is", "rare")]),
        ..TaskFilter::default()
    };
    for filter in [timed_out, rare] {
        assert_eq!(list(&owned, handle, &filter, 10).await, [701]);
    }
    let below = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let from = "'00000000-0000-0000-0000-000000000000'";
    let (of, most) = (handle.uuid(), i64::MAX);
    let looked = format!("0, '{of}', {most}, 1, 4096, '{{4,5}}', null, 1, {most}, null, null");
    let outcomes = "'{4,5,6,7,8,9,10,11,12,13,14,15}'";
    let arguments = [
        format!("0, '{of}', '{{is=rare}}', 1000"),
        format!("0, '{of}', 7, 1000"),
        format!("0, '{of}', '{{10,2000}}'"),
        format!("0, '{of}', '{{10,2000}}'"),
        format!("0, '{of}', '{{is=rare}}'"),
        format!("0, '{of}', {most}, 256, '{{is=rare}}'"),
        format!("0, '{of}', {most}, 255, 7"),
        looked.clone(),
        looked.clone(),
        format!("{looked}, {outcomes}"),
        format!("{looked}, {outcomes}"),
        format!("0, 'default', 'is=rare', {from}, {below}, 100"),
        format!("0, 'default', {from}, {below}, 101, '{{3}}'"),
        format!("0, '{{{of}}}', '{{10}}', 100"),
        format!("0, '{{{of},{of}}}', '{{10,2000}}', 1000, 8192"),
        "0, 1, '2026-01-01 00:30:00.5Z'".to_owned(),
    ];
    assert_eq!(indexed_statements().len(), arguments.len());
    for (statement, arguments) in indexed_statements().into_iter().zip(arguments) {
        let plan = plan_of(&owned, statement, &arguments).await;
        let scans = plan
            .lines()
            .filter(|line| line.contains("Scan") && !line.contains("rows=0"));
        let by_index = scans.filter(|line| line.contains(" on ")).all(|line| {
            line.contains("Index")
                || line.contains("Bitmap")
                || line.contains("Function")
                || line.contains("CTE")
                || line.contains("Subquery")
        });
        // Each of the two is a noop, which has no statement to hash.
        let noop = |line: &str| line.trim() == "Rows Removed by Join Filter: 1";
        let mut removed = plan.lines().filter(|line| line.contains("Rows Removed"));
        assert!(by_index && removed.all(noop), "{plan}");
    }
}

/// A scheduler of three tasks of order 7, which have ended after thousands of others.
async fn few_after_thousands() -> (Owned, Handle) {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let submitted = plain(handle, 1, 3, Some(7), now - HOUR);
    owned.write(records(vec![submitted], vec![])).await;
    let ended = Done {
        order: Some(Order(7)),
        ..done(1, 3, now - HOUR)
    };
    owned
        .write(records(vec![], vec![completion(handle, 1, vec![ended])]))
        .await;
    let others = "
        insert into completion (shard, handle, first_done_no, day, count, failed, min_seq, max_seq,
            ended_at)
        select c.shard, c.handle, n, c.day, 1, 0, n, n, c.ended_at
        from completion c, generate_series(4, 6000) n";
    owned.psql().await.execute(others).await.unwrap();
    (owned, handle)
}

#[tokio::test]
async fn what_has_succeeded_is_found_by_a_rare_order() {
    let (owned, handle) = few_after_thousands().await;
    let reader = owned.journal.reader();
    let filter = TaskFilter {
        outcomes: vec![Outcome::Succeeded],
        order: Some(Order(7)),
        ..TaskFilter::default()
    };
    let search = reader.search(handle, filter).await.unwrap();
    let page = reader
        .ended_tasks(&search, DoneNo(i64::MAX), 2)
        .await
        .unwrap();
    let found: Vec<i64> = page.tasks.iter().map(|task| task.seq.0).collect();
    assert_eq!((found, page.next), (vec![3, 2], Some(DoneNo(2))));
    let page = reader.ended_tasks(&search, DoneNo(2), 2).await.unwrap();
    let found: Vec<i64> = page.tasks.iter().map(|task| task.seq.0).collect();
    assert_eq!((found, page.next), (vec![1], None));
}

#[tokio::test]
async fn what_ended_before_the_tasks_were_submitted_is_not_looked_at() {
    let (owned, handle) = few_after_thousands().await;
    let reader = owned.journal.reader();
    let filter = TaskFilter {
        outcomes: vec![Outcome::Succeeded],
        submitted: Window {
            from: Some(owned.now - HOUR / 2),
            before: None,
        },
        ..TaskFilter::default()
    };
    let search = reader.search(handle, filter).await.unwrap();
    let page = reader
        .ended_tasks(&search, DoneNo(i64::MAX), 2)
        .await
        .unwrap();
    assert!(page.tasks.is_empty() && page.next.is_none(), "{page:?}");
}
