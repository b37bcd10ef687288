//! What the writer of batches promises.

use super::{Owned, jobs::of_job, make::*, replica, take_over};
use rallypoint::{core::*, journal::*};
use sqlx::{Executor, postgres::PgTypeInfo};
use std::sync::Arc;

#[tokio::test]
async fn a_batch_sent_again_is_durable_and_written_once() {
    let mut owned = Owned::new().await;
    let first = records(vec![plain(handle(), 1, 3, None, owned.now)], vec![]);
    let batch = owned.batch(first);
    assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    let mut another = owned.journal.writer(&owned.replica);
    assert_eq!(another.append(&batch).await, Commit::Durable);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    // The first one, that of the ownership, and this.
    assert_eq!(owned.count("select count(*) from batch").await, 3);
}

#[tokio::test]
async fn a_gap_in_the_numbers_is_not_written() {
    let mut owned = Owned::new().await;
    owned.next.0 += 1;
    assert_eq!(owned.append(Records::default()).await, Commit::Fenced);
}

#[tokio::test]
async fn a_refused_batch_writes_nothing_and_its_number_stays_free() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    owned
        .write(records(vec![plain(a, 1, 3, None, now)], vec![]))
        .await;
    let commit = owned
        .append(records(
            vec![plain(b, 1, 3, None, now), plain(a, 1, 3, None, now)],
            vec![],
        ))
        .await;
    assert!(
        matches!(&commit, Commit::Rejected { sqlstate, .. } if sqlstate == "23505"),
        "{commit:?}"
    );
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    owned
        .write(records(vec![plain(b, 1, 3, None, now)], vec![]))
        .await;
}

#[tokio::test]
async fn what_counts_wrongly_is_refused_before_it_is_sent() {
    let mut owned = Owned::new().await;
    let (a, now) = (handle(), owned.now);
    let mut lacking = plain(a, 1, 3, None, now);
    Arc::make_mut(&mut lacking.submit).bodies = Packed::default();
    let event = |first, count| vec![completion(a, first, vec![done(1, count, now)])];
    let wrong = [
        records(vec![lacking], vec![]),
        records(vec![plain(a, 0, 3, None, now)], vec![]),
        records(vec![plain(a, 1, 0, None, now)], vec![]),
        records(vec![], event(0, 1)),
        records(vec![], event(1, 0)),
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let commit = owned.append(wrong).await;
        let refused = matches!(&commit, Commit::Rejected { sqlstate, .. } if sqlstate.is_empty());
        assert!(refused, "{number}: {commit:?}");
    }
    owned
        .write(records(vec![plain(a, 1, 3, None, now)], event(1, 1)))
        .await;
}

#[tokio::test]
async fn a_lost_connection_leaves_a_batch_unknown_and_the_next_append_connects() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    lose_connection(&mut owned).await;
    owned.write(Records::default()).await;
}

#[tokio::test]
async fn nothing_is_written_behind_a_batch_that_a_takeover_has_lost() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    owned.write(Records::default()).await;
    lose_connection(&mut owned).await;
    // As on a standby that had not heard of it.
    let lost = "with lost as (delete from batch where batch_no = 3 returning 1)
        select count(*) from lost";
    assert_eq!(owned.count(lost).await, 1);
    assert_eq!(owned.append(Records::default()).await, Commit::Fenced);
    // Another owner has written one of this number there.
    take_over(&owned.journal, &replica("one")).await;
    assert_eq!(owned.count("select max(batch_no) from batch").await, 3);
    assert_eq!(owned.append(Records::default()).await, Commit::Fenced);
}

#[tokio::test]
async fn nothing_is_written_in_an_epoch_that_a_takeover_has_given_again() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    lose_connection(&mut owned).await;
    // As on a standby that had not heard of the epoch, where another replica has begun it and
    // written as many batches.
    let taken = "with taken as (
            update lease set owner = 'other', owner_id = gen_random_uuid() returning 1
        )
        select count(*) from taken";
    assert_eq!(owned.count(taken).await, 1);
    assert_eq!(owned.append(Records::default()).await, Commit::Fenced);
    assert_eq!(owned.count("select max(batch_no) from batch").await, 2);
}

async fn lose_connection(owned: &mut Owned) {
    let kill = "select count(pg_terminate_backend(pid))
        from pg_stat_activity
        where datname = current_database()
          and application_name = 'rallypoint journal writer'";
    assert_eq!(owned.count(kill).await, 1);
    assert!(matches!(
        owned.append(Records::default()).await,
        Commit::Unknown { .. }
    ));
}

fn started(handle: Handle, at: Time) -> AttemptRecord {
    AttemptRecord {
        handle,
        seq: Seq(1),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at,
        ran: None,
    }
}

/// The shape with rows for all tables.
const EVERYTHING: u32 = 1_023;

/// Rows for the tables that the bits of `shape` name; those for 32 and 64: of retries, of labels.
fn records_of(shape: u32, now: Time) -> Records {
    let (a, mut records) = (handle(), Records::default());
    if shape & 1 > 0 {
        let spec = if shape & 64 > 0 { noop() } else { sql() };
        records.submissions = vec![call(a, 1, now, None, &[(1, None, None, spec)])];
    }
    let is_retry = shape & 32 > 0;
    for submission in records.submissions.iter_mut().filter(|_| is_retry) {
        let of = vec![RetryOf {
            seq: Seq(9),
            failure: Some(DoneNo(7)),
        }];
        let searched = Seq(9);
        Arc::make_mut(&mut submission.submit).retries = Some(Retries { searched, of });
    }
    if shape & 2 > 0 {
        let retry_of = is_retry.then_some(Seq(9));
        let done = Done {
            retry_of,
            ..done(1, 1, now)
        };
        records.completions = vec![completion(a, 1, vec![done])];
    }
    if shape & 4 > 0 {
        records.attempts = vec![started(a, now)];
    }
    if shape & 8 > 0 {
        records.schedulers = images([image(a, now)]);
    }
    if shape & 16 > 0 {
        let change = PauseChange {
            target: None,
            mode: None,
            by: "operator".into(),
            reason: "why".into(),
        };
        records.pauses = vec![PauseRecord { change, at: now }];
    }
    if shape & 128 > 0 {
        records.resources = definition(now);
    }
    if shape & 256 > 0 {
        // Each shape has a claim of its own, and one has several.
        let numbers = if shape == EVERYTHING {
            1_023..1_025
        } else {
            shape..shape + 1
        };
        let claims = numbers.map(|number| requested(number.into(), now));
        records.resources.claims = claims.collect();
    }
    if shape & 512 > 0 {
        records.jobs = of_job(shape.into(), now);
    }
    records
}

#[tokio::test]
async fn every_shape_of_the_writer_prepares_and_runs() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let mut connection = owned.psql().await;
    assert_eq!(statements().count(), 6_912);
    // The shard, the epoch, the number and the day, which not every statement uses.
    let common = ["int2", "int8", "int8", "date"].map(PgTypeInfo::with_name);
    for statement in statements() {
        let statement = sqlx::SqlStr::from_static(statement);
        let prepared = (&mut connection).prepare_with(statement, &common).await;
        prepared.unwrap();
    }
    for shape in 0..512 {
        owned.write(records_of(shape, now)).await;
    }
    // With jobs alone, and with everything.
    for shape in [512, EVERYTHING] {
        owned.write(records_of(shape, now)).await;
    }
    for (table, expected) in [
        ("submission", 257),
        ("completion", 257),
        ("attempt", 257),
        ("scheduler", 257),
        ("scheduler_label", 514),
        ("target_pause", 257),
        ("task_label", 129),
        ("resource", 1),
        ("claim_checkpoint", 1),
        ("claim", 258),
        ("job", 2),
        ("job_state", 2),
        ("job_run", 2),
        ("job_agent", 1),
    ] {
        let count = format!("select count(*) from {table}");
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(rows, expected, "{table}");
    }
}

#[tokio::test]
async fn a_column_of_a_newer_version_outlives_a_row_that_this_one_writes() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let write = |paused| {
        let mut image = image(handle, now);
        image.paused = paused;
        Records {
            schedulers: images([image]),
            ..Records::default()
        }
    };
    owned.write(write(false)).await;
    let newer = "alter table scheduler add column color text;
        update scheduler set color = 'red'";
    sqlx::raw_sql(newer)
        .execute(&mut owned.psql().await)
        .await
        .unwrap();
    owned.write(write(true)).await;
    let kept = "select count(*) from scheduler where color = 'red' and paused";
    assert_eq!(owned.count(kept).await, 1);
}
