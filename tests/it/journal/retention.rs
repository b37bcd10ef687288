//! What grows old goes, a day at a time, and nothing that is needed goes with it. The retention is 30 days here.

use super::{Owned, make::*};
use rallypoint::{core::*, journal::*};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::{collections::BTreeMap, sync::Arc};

/// A journal that was at work `days` ago.
async fn at_work_ago(days: i32) -> Owned {
    let owned = Owned::new().await;
    make_day(&owned, days).await;
    owned
}

/// Makes a day that is over.
async fn make_day(owned: &Owned, days: i32) {
    let day = format!("(now() at time zone 'utc')::date - {days}");
    let make = format!(
        "do $$ declare t text; begin
            foreach t in array array['submission', 'completion', 'attempt'] loop
                execute format('create table %s partition of %s for values from (%L) to (%L)',
                    t || to_char({day}, '_YYYY_MM_DD'), t, {day}, {day} + 1);
            end loop;
        end $$"
    );
    owned
        .psql()
        .await
        .execute(AssertSqlSafe(make))
        .await
        .unwrap();
}

fn tasks(handle: Handle, first: i64, count: u32, at: Time) -> Records {
    Records {
        submissions: vec![plain(handle, first, count, None, at)],
        ..Records::default()
    }
}

fn ended(handle: Handle, first: i64, count: u32, at: Time) -> Records {
    let completions: Vec<Arc<CompletionRecord>> =
        vec![completion(handle, first, vec![done(first, count, at)])];
    Records {
        completions,
        ..Records::default()
    }
}

/// Its checkpoint: so many tasks and events, and these unfinished.
fn checkpoint(
    handle: Handle,
    at: Time,
    highest: i64,
    done_no: i64,
    unfinished: &[(i64, i64)],
) -> Records {
    let mut image = image(handle, at);
    let unfinished = unfinished
        .iter()
        .map(|(first, last)| (Seq(*first), Seq(*last)))
        .collect();
    image.checkpoint = Checkpoint {
        highest_seq: Seq(highest),
        done_no: DoneNo(done_no),
        unfinished,
        first_day: Day(0),
        resting: false,
    };
    Records {
        schedulers: BTreeMap::from([(handle, image)]),
        ..Records::default()
    }
}

const OLD_DAYS: &str = "select count(*) from pg_class
    where relkind = 'r' and relname ~ '^(submission|completion|attempt)_\\d' and right(relname, 10) < to_char(now() - interval '25 days', 'YYYY_MM_DD')";

#[tokio::test]
async fn a_day_over_its_retention_goes_and_a_younger_one_stays() {
    for (days, dropped) in [(29, 0), (30, 0), (31, 1), (32, 3)] {
        let mut owned = at_work_ago(days).await;
        let (a, now) = (handle(), owned.now);
        owned.write_ago(days, checkpoint(a, now, 0, 0, &[])).await;
        owned.write_ago(days, tasks(a, 1, 3, now)).await;
        owned.write_ago(days, ended(a, 1, 3, now)).await;
        owned.write(checkpoint(a, now, 3, 3, &[])).await;
        assert_eq!(
            owned.journal.upkeep().drop_days().await.unwrap(),
            dropped,
            "{days} days old"
        );
        assert_eq!(owned.count(OLD_DAYS).await, 3 - dropped as i64);
        let kept = owned
            .journal
            .reader()
            .events(a, DoneNo(0), 10)
            .await
            .unwrap();
        assert_eq!(kept.is_empty(), dropped > 0, "{days} days old");
    }
}

#[tokio::test]
async fn an_unfinished_task_keeps_its_own_row_and_pins_nobody_elses() {
    let mut owned = at_work_ago(40).await;
    let (a, b, now) = (handle(), handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, checkpoint(b, now, 0, 0, &[])).await;
    owned
        .write_ago(
            40,
            Records {
                submissions: vec![plain(a, 1, 2, None, now), plain(b, 1, 2, None, now)],
                ..Records::default()
            },
        )
        .await;
    let attempt = AttemptRecord {
        handle: a,
        seq: Seq(4),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
    };
    owned
        .write_ago(
            40,
            Records {
                attempts: vec![attempt.clone()],
                ..tasks(a, 3, 4, now)
            },
        )
        .await;
    owned.write_ago(40, ended(b, 1, 2, now)).await;
    owned
        .write_ago(
            40,
            Records {
                completions: vec![completion(a, 1, vec![done(1, 3, now), done(5, 2, now)])],
                ..Records::default()
            },
        )
        .await;
    owned.write(checkpoint(a, now, 6, 5, &[(4, 4)])).await;
    owned.write(checkpoint(b, now, 2, 2, &[])).await;

    assert_eq!(owned.journal.upkeep().drop_days().await.unwrap(), 3);

    assert_eq!(owned.count(OLD_DAYS).await, 0);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    let recovered = recover(&owned.journal, ENOUGH).await.unwrap();
    let of_a = recovered
        .iter()
        .find(|scheduler| scheduler.image.handle == a)
        .unwrap();
    assert_eq!(
        of_a.runs
            .iter()
            .map(|run| (run.first.0, run.count))
            .collect::<Vec<_>>(),
        [(3, 4)]
    );
    assert_eq!(of_a.attempts, [attempt]);
    let bodies = owned
        .journal
        .reader()
        .bodies(a, Seq(4), Seq(4), 1)
        .await
        .unwrap();
    assert_eq!(&bodies[0].body[..], b"body 4");
    assert!(
        owned
            .journal
            .reader()
            .task(b, Seq(1))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn of_a_day_with_thousands_of_schedulers_every_needed_row_is_kept() {
    let mut owned = at_work_ago(40).await;
    let now = owned.now;
    let mut handles: Vec<Handle> = (0..4_500).map(|_| handle()).collect();
    handles.sort_unstable();
    let submissions = handles
        .iter()
        .map(|handle| plain(*handle, 1, 1, None, now))
        .collect();
    owned
        .write_ago(
            40,
            Records {
                submissions,
                ..Records::default()
            },
        )
        .await;
    let open = [handles[0], handles[1_999], handles[2_000], handles[4_499]];
    for handle in open {
        owned
            .write_ago(40, checkpoint(handle, now, 1, 0, &[(1, 1)]))
            .await;
    }

    assert_eq!(owned.journal.upkeep().drop_days().await.unwrap(), 3);

    let kept: Vec<uuid::Uuid> = sqlx::query_scalar("select handle from submission order by 1")
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap();
    assert_eq!(kept, open.map(|handle| handle.uuid()));
}

#[tokio::test]
async fn a_task_that_ended_lately_keeps_its_statement_however_old_it_is() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 2, now)).await;
    owned.write_ago(40, tasks(a, 3, 2, now)).await;
    owned.write_ago(40, tasks(a, 5, 20_000, now)).await;
    owned.write_ago(40, ended(a, 3, 2, now)).await;
    // in a row with much younger ones
    owned
        .write(Records {
            completions: vec![completion(
                a,
                5,
                vec![done(20_000, 2, now), done(2, 1, now)],
            )],
            ..Records::default()
        })
        .await;
    owned.write(checkpoint(a, now, 20_004, 30_000, &[])).await;

    assert_eq!(owned.journal.upkeep().drop_days().await.unwrap(), 3);

    let reader = owned.journal.reader();
    let first_seqs: Vec<i64> = sqlx::query_scalar("select first_seq from submission order by 1")
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap();
    assert_eq!(first_seqs, [1, 5]);
    assert!(
        reader
            .task(a, Seq(2))
            .await
            .unwrap()
            .unwrap()
            .done
            .is_some()
    );
    assert!(reader.task(a, Seq(3)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_day_that_a_checkpoint_needs_stays_until_it_is_written_anew() {
    let mut owned = at_work_ago(40).await;
    let (a, b, now) = (handle(), handle(), owned.now);
    for handle in [a, b] {
        owned
            .write_ago(40, checkpoint(handle, now, 0, 0, &[]))
            .await;
        owned.write_ago(40, tasks(handle, 1, 3, now)).await;
        owned.write_ago(40, ended(handle, 1, 3, now)).await;
    }
    owned.write(checkpoint(b, now, 3, 3, &[])).await;
    let upkeep = owned.journal.upkeep();
    assert_eq!(upkeep.stale_checkpoints(10).await.unwrap(), [a]);
    assert_eq!(upkeep.drop_days().await.unwrap(), 0);
    let status = owned.journal.reader().status().await.unwrap();
    assert_eq!(
        (status.oldest_day, status.pin),
        (Some(owned.days_ago(40)), Some(RetentionPin::Checkpoint(a)))
    );
    assert_eq!(
        recover(&owned.journal, ENOUGH)
            .await
            .unwrap()
            .iter()
            .map(|one| one.outcomes.len())
            .sum::<usize>(),
        1
    );

    owned.write(checkpoint(a, now, 3, 3, &[])).await;

    assert_eq!(
        owned.journal.reader().status().await.unwrap().pin,
        Some(RetentionPin::Due)
    );
    assert_eq!(upkeep.stale_checkpoints(10).await.unwrap(), []);
    assert_eq!(upkeep.drop_days().await.unwrap(), 3);
    assert_eq!(owned.journal.reader().status().await.unwrap().pin, None);
}

#[tokio::test]
async fn recovery_looks_no_further_back_than_the_checkpoint_needs() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 3).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write_ago(40, ended(a, 1, 2, now)).await;
    let first_days = |ago: i32| {
        let mut records = checkpoint(a, now, 3, 2, &[(3, 3)]);
        records.schedulers.get_mut(&a).unwrap().checkpoint.first_day = Day(now.day().0 - ago);
        records
    };
    owned.write(first_days(40)).await;
    assert_eq!(
        recover(&owned.journal, ENOUGH).await.unwrap()[0].runs.len(),
        1
    );
    assert_eq!(
        owned
            .count("select (current_date - first_day)::int8 from scheduler")
            .await,
        43
    );
    owned.write(first_days(0)).await;
    assert_eq!(
        owned
            .count("select (current_date - first_day)::int8 from scheduler")
            .await,
        3
    );
    assert_eq!(
        recover(&owned.journal, ENOUGH).await.unwrap()[0].runs.len(),
        0,
        "older days are not looked at"
    );
}

#[tokio::test]
async fn the_status_names_an_unfinished_task_whose_row_is_not_moved_yet() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write(checkpoint(a, now, 3, 2, &[(2, 2)])).await;
    assert_eq!(
        owned.journal.reader().status().await.unwrap().pin,
        Some(RetentionPin::Unfinished(a))
    );
}

#[tokio::test]
async fn an_open_reader_delays_a_drop_but_never_the_writer_and_the_rest_is_done_later() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write(checkpoint(a, now, 3, 3, &[])).await;
    let mut psql = owned.psql().await;
    let mut reading = psql.begin().await.unwrap();
    reading
        .execute("set transaction isolation level repeatable read")
        .await
        .unwrap();
    reading
        .execute("select 1 from execution_log limit 1")
        .await
        .unwrap();
    let upkeep = owned.journal.upkeep();
    let dropping = tokio::spawn({
        let upkeep = upkeep.clone();
        async move { upkeep.drop_days().await }
    });
    while !dropping.is_finished() {
        owned.write(tasks(handle(), 1, 1, now)).await;
    }
    assert!(matches!(
        dropping.await.unwrap(),
        Err(JournalError::Database(_))
    ));
    let pending = "select count(*) from pg_inherits where inhdetachpending";
    assert_eq!(owned.count(pending).await, 1);
    owned.write(tasks(handle(), 1, 1, now)).await;

    reading.rollback().await.unwrap();
    upkeep.drop_days().await.unwrap();

    assert_eq!(
        (owned.count(pending).await, owned.count(OLD_DAYS).await),
        (0, 0)
    );
}

#[tokio::test]
async fn a_scheduler_that_ended_long_ago_goes_after_its_log() {
    let mut owned = at_work_ago(40).await;
    let now = owned.now;
    let long_ago = Time(now.0 - 40 * 86_400_000_000);
    let (gone, logged, lately, open) = (handle(), handle(), handle(), handle());
    for (handle, state, released) in [
        (gone, SchedulerState::Released, Some(long_ago)),
        (logged, SchedulerState::Released, Some(long_ago)),
        (lately, SchedulerState::Released, Some(now)),
        (open, SchedulerState::Open, None),
    ] {
        let image = SchedulerImage {
            state,
            released_at: released,
            ..image(handle, long_ago)
        };
        owned
            .write(Records {
                schedulers: BTreeMap::from([(handle, image)]),
                ..Records::default()
            })
            .await;
    }
    owned.write(tasks(logged, 1, 1, now)).await;
    assert_eq!(
        owned
            .journal
            .upkeep()
            .drop_ended_schedulers()
            .await
            .unwrap(),
        1
    );
    let reader = owned.journal.reader();
    assert!(reader.scheduler(gone).await.unwrap().is_none());
    for kept in [logged, lately, open] {
        assert!(reader.scheduler(kept).await.unwrap().is_some());
    }
}

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
    let recovered = recover(&owned.journal, ENOUGH).await.unwrap();
    assert_eq!(
        (recovered[0].runs.len(), recovered[0].outcomes.len()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_batch_whose_day_has_gone_under_it_is_of_unknown_fate_and_finds_another_day() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, tasks(a, 1, 1, now)).await;
    owned.journal.upkeep().drop_days().await.unwrap();
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
    let upkeep = owned.journal.upkeep();
    let last = |no: i64| {
        format!(
            "insert into batch (shard, batch_no, epoch, at) values (0, {no}, {}, now())",
            owned.epoch.0
        )
    };
    let mut psql = owned.psql().await;
    psql.execute(AssertSqlSafe(last(3_999_999))).await.unwrap();
    upkeep.turn_batches().await.unwrap();
    assert_eq!(ranges(&mut psql).await, [2, 3, 4, 5, 6, 7]);
    owned.next = BatchNo(4_000_000);
    owned.write(Records::default()).await;
    let batch = owned.batch(tasks(handle(), 1, 1, owned.now));
    for _ in 0..2 {
        assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    }
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    let taken = super::take_over(&owned.journal, &owned.replica).await;
    assert_eq!(taken.last_batch, BatchNo(4_000_001));
}

async fn ranges(psql: &mut PgConnection) -> Vec<i32> {
    let ranges = "select right(inhrelid::regclass::text, -6)::int4 from pg_inherits where inhparent = 'batch'::regclass order by 1";
    sqlx::query_scalar(ranges).fetch_all(psql).await.unwrap()
}
