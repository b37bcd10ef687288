//! Old rows are dropped a day at a time, and nothing that is needed goes with them. The retention
//! is 30 days here.

use super::{
    Owned,
    aged::{OLD_DAYS, at_work_ago, checkpoint, ended, tasks},
    make::*,
};
use rallypoint::{core::*, journal::*};
use sqlx::{Connection, Executor};
use std::collections::BTreeMap;

#[tokio::test]
async fn a_day_over_its_retention_goes_and_a_younger_one_stays() {
    for (days, dropped) in [(29, 0), (30, 0), (31, 1), (32, 4)] {
        let mut owned = at_work_ago(days).await;
        let (a, now) = (handle(), owned.now);
        owned.write_ago(days, checkpoint(a, now, 0, 0, &[])).await;
        owned.write_ago(days, tasks(a, 1, 3, now)).await;
        owned.write_ago(days, ended(a, 1, 3, now)).await;
        owned.write(checkpoint(a, now, 3, 3, &[])).await;
        assert_eq!(owned.drop_days().await.unwrap(), dropped, "{days} days old");
        assert_eq!(owned.count(OLD_DAYS).await, 4 - dropped as i64);
        let events = owned
            .journal
            .reader()
            .events(a, DoneNo(0), 10)
            .await
            .unwrap();
        assert_eq!(events.is_empty(), dropped > 0, "{days} days old");
    }
}

#[tokio::test]
async fn an_unfinished_task_keeps_its_own_row_and_pins_nobody_elses() {
    let mut owned = at_work_ago(40).await;
    let (a, b) = (handle(), handle());
    let attempt = one_of_six_unfinished(&mut owned, a, b).await;

    assert_eq!(owned.drop_days().await.unwrap(), 4);

    assert_eq!(owned.count(OLD_DAYS).await, 0);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    let recovered = recover(&owned.journal, ENOUGH, since(owned.now))
        .await
        .unwrap()
        .schedulers;
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
    let reader = owned.journal.reader();
    let bodies = reader.bodies(a, Seq(4), Seq(4), 1).await.unwrap();
    assert_eq!(&bodies[0].body[..], b"body 4");
    assert!(reader.task(b, Seq(1)).await.unwrap().is_none());
}

/// Tasks of two schedulers, forty days old, that have all ended but task 4 of `a`; returns the
/// attempt of that task.
async fn one_of_six_unfinished(owned: &mut Owned, a: Handle, b: Handle) -> AttemptRecord {
    let now = owned.now;
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, checkpoint(b, now, 0, 0, &[])).await;
    let both = vec![plain(a, 1, 2, None, now), plain(b, 1, 2, None, now)];
    owned.write_ago(40, records(both, vec![])).await;
    let attempt = AttemptRecord {
        handle: a,
        seq: Seq(4),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
        ran: None,
    };
    let started = Records {
        attempts: vec![attempt.clone()],
        ..tasks(a, 3, 4, now)
    };
    owned.write_ago(40, started).await;
    owned.write_ago(40, ended(b, 1, 2, now)).await;
    let others = completion(a, 1, vec![done(1, 3, now), done(5, 2, now)]);
    owned.write_ago(40, records(vec![], vec![others])).await;
    owned.write(checkpoint(a, now, 6, 5, &[(4, 4)])).await;
    owned.write(checkpoint(b, now, 2, 2, &[])).await;
    attempt
}

#[tokio::test]
async fn of_a_day_with_thousands_of_schedulers_every_needed_row_stays() {
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

    assert_eq!(owned.drop_days().await.unwrap(), 4);

    let left: Vec<uuid::Uuid> = sqlx::query_scalar("select handle from submission order by 1")
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap();
    assert_eq!(left, open.map(|handle| handle.uuid()));
}

#[tokio::test]
async fn a_task_that_ended_recently_keeps_its_statement_and_attempts_however_old_they_are() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 2, now)).await;
    owned.write_ago(40, tasks(a, 3, 2, now)).await;
    owned.write_ago(40, tasks(a, 5, 20_000, now)).await;
    owned.write_ago(40, ended(a, 3, 2, now)).await;
    let attempts = [2, 3].map(|seq| AttemptRecord {
        handle: a,
        seq: Seq(seq),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
        ran: None,
    });
    let started = Records {
        attempts: attempts.into(),
        ..Records::default()
    };
    owned.write_ago(40, started).await;
    // In one row with the outcomes of much younger tasks.
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

    assert_eq!(owned.drop_days().await.unwrap(), 4);

    let reader = owned.journal.reader();
    let first_seqs: Vec<i64> = sqlx::query_scalar("select first_seq from submission order by 1")
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap();
    assert_eq!(first_seqs, [1, 5]);
    let attempted: Vec<i64> = sqlx::query_scalar("select seq from attempt")
        .fetch_all(&mut owned.psql().await)
        .await
        .unwrap();
    assert_eq!(attempted, [2], "those of a task that is shown");
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
        .execute("select 1 from rallypoint_log.execution_log limit 1")
        .await
        .unwrap();
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(now, None).await.unwrap();
    let dropping = tokio::spawn({
        let (maintenance, calendar) = (maintenance.clone(), calendar.clone());
        async move { maintenance.drop_days(&calendar).await }
    });
    while !dropping.is_finished() {
        owned.write(tasks(handle(), 1, 1, now)).await;
    }
    assert!(matches!(
        dropping.await.unwrap(),
        Err(JournalError::Database(_))
    ));
    let pending = "select count(*) from pg_inherits where inhdetachpending";
    assert_eq!(owned.count(pending).await, 3, "of the tables that are read");
    owned.write(tasks(handle(), 1, 1, now)).await;

    reading.rollback().await.unwrap();
    maintenance.drop_days(&calendar).await.unwrap();

    assert_eq!(
        (owned.count(pending).await, owned.count(OLD_DAYS).await),
        (0, 0)
    );
}

#[tokio::test]
async fn a_reader_of_one_table_keeps_no_day_of_another() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write_ago(40, ended(a, 1, 3, now)).await;
    owned.write(checkpoint(a, now, 3, 3, &[])).await;
    let mut psql = owned.psql().await;
    let mut reading = psql.begin().await.unwrap();
    reading.execute("select 1 from submission").await.unwrap();

    assert!(owned.drop_days().await.is_err());

    reading.rollback().await.unwrap();
    assert_eq!(owned.count(OLD_DAYS).await, 1, "the one that was read");
    owned.drop_days().await.unwrap();
    assert_eq!(owned.count(OLD_DAYS).await, 0);
}

#[tokio::test]
async fn the_attempts_of_a_task_that_no_checkpoint_knows_stay() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    let attempt = AttemptRecord {
        handle: a,
        seq: Seq(1),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
        ran: None,
    };
    let started = Records {
        attempts: vec![attempt.clone()],
        ..Records::default()
    };
    owned.write_ago(40, started).await;
    owned.write(tasks(a, 1, 1, now)).await;

    owned.drop_days().await.unwrap();

    let recovered = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    assert_eq!(recovered.schedulers[0].attempts, [attempt]);
}

#[tokio::test]
async fn a_scheduler_that_ended_long_ago_goes_after_its_log() {
    let mut owned = at_work_ago(40).await;
    let now = owned.now;
    let long_ago = Time(now.0 - 40 * 86_400_000_000);
    let (gone, logged, recent, open) = (handle(), handle(), handle(), handle());
    for (handle, state, released) in [
        (gone, SchedulerState::Released, Some(long_ago)),
        (logged, SchedulerState::Released, Some(long_ago)),
        (recent, SchedulerState::Released, Some(now)),
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
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(now, None).await.unwrap();
    let dropped = maintenance.drop_ended_schedulers(&calendar).await;
    assert_eq!(dropped.unwrap(), 1);
    let reader = owned.journal.reader();
    assert!(
        reader
            .scheduler(&namespace(), gone)
            .await
            .unwrap()
            .is_none()
    );
    for handle in [logged, recent, open] {
        assert!(
            reader
                .scheduler(&namespace(), handle)
                .await
                .unwrap()
                .is_some()
        );
    }
}
