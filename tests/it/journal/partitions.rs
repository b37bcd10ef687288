//! Rows find a partition whatever days and ranges of batch numbers there are.

use super::{
    Owned,
    aged::{at_work_ago, checkpoint, ended, tasks},
    make::*,
    take_over,
};
use rallypoint::{core::*, journal::*};
use sqlx::{AssertSqlSafe, Executor, PgConnection};

#[tokio::test]
async fn without_a_partition_for_today_rows_go_to_the_last_day_made_and_are_recovered() {
    let mut owned = Owned::new().await;
    let (a, now) = (handle(), owned.now);
    let far = Day(now.day().0 + 100);
    for records in [
        checkpoint(a, now, 0, 0, &[]),
        tasks(a, 1, 3, now),
        ended(a, 1, 1, now),
    ] {
        let batch = Batch {
            day: far,
            ..owned.batch(records)
        };
        assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
        owned.next.0 += 1;
    }
    let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
        .await
        .unwrap()
        .schedulers;
    assert_eq!(
        (recovered[0].runs.len(), recovered[0].outcomes.len()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_batch_whose_day_has_gone_under_it_is_uncertain_and_finds_another_day() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, tasks(a, 1, 1, now)).await;
    owned.drop_days().await.unwrap();
    let late = Batch {
        day: owned.days_ago(40),
        ..owned.batch(tasks(a, 2, 1, now))
    };
    assert!(matches!(
        owned.writer.append(&late).await,
        Commit::Unknown { .. }
    ));
    assert_eq!(owned.writer.append(&late).await, Commit::Durable);
}

#[tokio::test]
async fn batch_numbers_are_made_ahead_and_go_a_range_at_a_time_without_a_dead_row() {
    let mut owned = Owned::new().await;
    let maintenance = owned.journal.maintenance();
    let last = |no: i64| {
        format!(
            "insert into batch (shard, batch_no, epoch, at) values (0, {no}, {}, now())",
            owned.epoch.0
        )
    };
    let mut psql = owned.psql().await;
    psql.execute(AssertSqlSafe(last(3_999_999))).await.unwrap();
    maintenance.make_batches().await.unwrap();
    maintenance.drop_batches().await.unwrap();
    assert_eq!(ranges(&mut psql).await, [2, 3, 4, 5, 6, 7]);
    owned.next = BatchNo(4_000_000);
    owned.write(Records::default()).await;
    let batch = owned.batch(tasks(handle(), 1, 1, owned.now));
    for _ in 0..2 {
        assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    }
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    let taken = take_over(&owned.journal, &owned.replica).await;
    assert_eq!(taken.last_batch, BatchNo(4_000_002));
}

#[tokio::test]
async fn an_ownership_begins_although_the_numbers_have_run_out() {
    let owned = Owned::new().await;
    let mut psql = owned.psql().await;
    let run_out = "insert into batch (shard, batch_no, epoch, at) values (0, 999999, 1, now());
        drop table batch_1, batch_2, batch_3, batch_4";
    psql.execute(run_out).await.unwrap();
    let taken = take_over(&owned.journal, &owned.replica).await;
    assert_eq!(taken.last_batch, BatchNo(1_000_000));
    assert_eq!(ranges(&mut psql).await, [0, 1, 2, 3, 4]);
}

async fn ranges(psql: &mut PgConnection) -> Vec<i32> {
    let ranges = "select right(inhrelid::regclass::text, -6)::int4
        from pg_inherits
        where inhparent = 'batch'::regclass
        order by 1";
    sqlx::query_scalar(ranges).fetch_all(psql).await.unwrap()
}

#[tokio::test]
async fn rows_are_summarized_by_their_time_so_that_a_new_owner_finds_the_latest() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    for _ in 0..10 {
        let submissions = (0..500).map(|_| plain(handle(), 1, 20, None, now));
        owned
            .write(records(submissions.collect(), Vec::new()))
            .await;
    }
    let maintenance = owned.journal.maintenance();
    maintenance.summarize_times(now.day()).await.unwrap();
    let left = "select sum(brin_summarize_new_values(i.inhrelid::regclass))::int8
        from pg_inherits i
        where i.inhparent = 'submission_times'::regclass";
    assert_eq!(owned.count(left).await, 0);
}
