//! The rows that lead to what has a label: as many as are of use, as long as they are.

use super::{
    Owned,
    aged::{OLD_DAYS, at_work_ago, checkpoint, ended, make_day, tasks},
    listing::{labelled, labels, list},
    make::*,
};
use rallypoint::core::*;
use sqlx::{AssertSqlSafe, Connection, Executor};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn labels_beyond_what_is_indexed_are_found_all_the_same() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let many = |from: u32| {
        let label = |number| (format!("k{number}"), String::new());
        labelled((from..from + 60).map(label).collect())
    };
    let runs: Vec<Tasks> = (0..5).map(|run| (1, None, None, many(run * 60))).collect();
    let submitted = call(handle, 1, now, None, &runs);
    owned.write(records(vec![submitted], vec![])).await;
    assert_eq!(owned.count("select count(*) from task_label").await, 1);
    for (key, seq) in [("k0", 1), ("k299", 5)] {
        let filter = TaskFilter {
            labels: labels(&[(key, "")]),
            ..TaskFilter::default()
        };
        assert_eq!(list(&owned, handle, &filter, 10).await, [seq]);
    }
}

/// Labels go with their day, but for those of tasks that are needed longer.
#[tokio::test]
async fn labels_of_an_unfinished_task_outlive_their_day() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 35).await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let of = |label: &str| labelled(labels(&[("is", label)]));
    let runs = |label: &str| [(1, None, None, of(label))];
    let long_ago = now - DAY * 40;
    let kept = call(handle, 1, long_ago, None, &runs("kept"));
    owned.write_ago(40, records(vec![kept], vec![])).await;
    let over = call(handle, 2, long_ago, None, &runs("over"));
    owned.write_ago(40, records(vec![over], vec![])).await;
    let ended = completion(handle, 1, vec![done(2, 1, long_ago)]);
    owned.write_ago(40, records(vec![], vec![ended])).await;
    let mut checkpointed = image(handle, now);
    checkpointed.checkpoint = Checkpoint {
        highest_seq: Seq(2),
        done_no: DoneNo(1),
        unfinished: vec![(Seq(1), Seq(1))],
        first_day: now.day(),
        quiesced: false,
    };
    owned.write_images([checkpointed]).await;
    owned.drop_days().await.unwrap();
    assert_eq!(owned.count("select count(*) from task_label").await, 1);
    for (label, found) in [("kept", vec![1]), ("over", vec![])] {
        let filter = TaskFilter {
            labels: labels(&[("is", label)]),
            ..TaskFilter::default()
        };
        assert_eq!(list(&owned, handle, &filter, 10).await, found, "{label}");
    }
}

/// A day of labels stays until no row of that day or an earlier one may have to be moved.
#[tokio::test]
async fn a_reader_of_the_tasks_keeps_the_labels_of_unfinished_ones() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 39).await;
    let (handle, now) = (handle(), owned.now);
    owned
        .write_ago(40, checkpoint(handle, now, 0, 0, &[]))
        .await;
    let labelled = labelled(labels(&[("is", "kept")]));
    for (days, seq) in [(40, 1), (39, 2)] {
        let one = call(handle, seq, now, None, &[(1, None, None, labelled.clone())]);
        owned.write_ago(days, records(vec![one], vec![])).await;
    }
    owned.write_ago(40, ended(handle, 1, 1, now)).await;
    owned.write(checkpoint(handle, now, 2, 1, &[(2, 2)])).await;
    let mut psql = owned.psql().await;
    let mut reading = psql.begin().await.unwrap();
    reading.execute("select 1 from submission").await.unwrap();

    assert!(owned.drop_days().await.is_err(), "the first day is read");

    reading.rollback().await.unwrap();
    owned.drop_days().await.unwrap();
    assert_eq!(owned.count(OLD_DAYS).await, 0);
    let kept = TaskFilter {
        labels: labels(&[("is", "kept")]),
        ..TaskFilter::default()
    };
    assert_eq!(list(&owned, handle, &kept, 10).await, [2]);
}

/// Whatever the day, no statement goes through it all.
#[tokio::test]
async fn of_a_full_day_labels_and_attempts_are_moved_a_slice_at_a_time() {
    const ROWS: i64 = 12_000;
    let mut owned = at_work_ago(40).await;
    let (handle, now) = (handle(), owned.now);
    owned.write_ago(40, tasks(handle, 1, 2, now)).await;
    owned.write(checkpoint(handle, now, 2, 0, &[(1, 2)])).await;
    let rows = format!(
        "insert into task_label (shard, handle, label, first_seq, day)
            select 0, '{of}', convert_to('k=' || n, 'UTF8'), 1, s.day
            from submission s, generate_series(1, {ROWS}) n where s.first_seq = 1;
        insert into attempt (shard, handle, seq, attempt, kind, day, at)
            select 0, '{of}', 1 + n % 2, n, 5, s.day, s.submitted_at
            from submission s, generate_series(1, {ROWS}) n where s.first_seq = 1;
        create table slice (of text, rows int8);
        create function note() returns trigger language plpgsql as $$ begin
            insert into slice select tg_table_name, count(*) from looked_at;
            return null;
        end $$;
        create trigger note after update on task_label
            referencing old table as looked_at execute function note();
        create trigger note after update on attempt
            referencing old table as looked_at execute function note()",
        of = handle.uuid(),
    );
    owned
        .psql()
        .await
        .execute(AssertSqlSafe(rows))
        .await
        .unwrap();

    owned.drop_days().await.unwrap();

    assert_eq!(owned.count(OLD_DAYS).await, 0);
    for (moved, most) in [
        ("select count(*) from task_label", "task_label"),
        ("select count(*) from attempt", "attempt"),
    ] {
        assert_eq!(owned.count(moved).await, ROWS);
        let slices: Vec<i64> = sqlx::query_scalar("select rows from slice where of = $1")
            .bind(most)
            .fetch_all(&mut owned.psql().await)
            .await
            .unwrap();
        assert_eq!(slices.iter().sum::<i64>(), ROWS);
        assert!(slices.iter().all(|rows| *rows <= ROWS / 2), "{slices:?}");
    }
}

#[tokio::test]
async fn labels_whose_tasks_are_gone_do_not_end_a_list() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned.write_images([image(handle, now)]).await;
    let labelled = labelled(labels(&[("is", "here")]));
    for seq in 1..=20 {
        let one = call(handle, seq, now, None, &[(1, None, None, labelled.clone())]);
        owned.write(records(vec![one], vec![])).await;
    }
    let go = "delete from submission where first_seq between 5 and 18";
    owned.psql().await.execute(go).await.unwrap();
    let here = TaskFilter {
        labels: labels(&[("is", "here")]),
        ..TaskFilter::default()
    };
    for size in [2, 100] {
        let found = list(&owned, handle, &here, size).await;
        assert_eq!(found, [20, 19, 4, 3, 2, 1], "in pages of {size}");
    }
}

/// An image of a scheduler with these labels.
fn with_labels(handle: Handle, at: Time, pairs: &[(&str, &str)]) -> SchedulerImage {
    SchedulerImage {
        settings: Arc::new(Settings {
            labels: labels(pairs),
            ..Settings::default()
        }),
        ..image(handle, at)
    }
}

#[tokio::test]
async fn a_scheduler_has_a_row_for_each_label_that_it_has_now() {
    let mut owned = Owned::new().await;
    let (one, other, now) = (handle(), handle(), owned.now);
    let with = |handle, version: &str| with_labels(handle, now, &[("is", "x"), ("v", version)]);
    owned.write_images([with(one, "1"), with(other, "1")]).await;
    for version in ["2", "3", "1", "4"] {
        owned.write_images([with(one, version)]).await;
    }
    let rows = async |owned: &Owned| -> Vec<(Uuid, String)> {
        sqlx::query_as(
            // Names stand there, too.
            "select handle, convert_from(label, 'UTF8') from scheduler_label
             where label not like ' =%'::bytea order by 2, 1",
        )
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap()
    };
    let row = |of: Handle, label: &str| (of.uuid(), label.to_owned());
    let expected = [
        row(one, "is=x"),
        row(other, "is=x"),
        row(other, "v=1"),
        row(one, "v=4"),
    ];
    assert_eq!(rows(&owned).await, expected);
    owned.write_images([with_labels(one, now, &[])]).await;
    assert_eq!(rows(&owned).await, [row(other, "is=x"), row(other, "v=1")]);
}
