//! What the writer promises, and who may write.

use super::{Owned, config, make::*, replica, take_over};
use rallypoint::{core::*, journal::*};
use sqlx::Executor;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

fn records(submissions: Vec<SubmissionRecord>, completions: Vec<Arc<CompletionRecord>>) -> Records {
    Records {
        submissions,
        completions,
        ..Records::default()
    }
}

fn images(images: impl IntoIterator<Item = SchedulerImage>) -> BTreeMap<Handle, SchedulerImage> {
    images
        .into_iter()
        .map(|image| (image.handle, image))
        .collect()
}

#[tokio::test]
async fn what_was_appended_is_recovered() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    let request = Request {
        id: Uuid::now_v7(),
        hash: i64::MIN,
    };
    let attempt = |seq, attempt, what| AttemptRecord {
        handle: a,
        seq: Seq(seq),
        attempt: Attempt(attempt),
        what,
        at: now,
    };
    let error = Arc::new(TaskError {
        code: "40001".into(),
        message: "once \0 more".into(),
    });
    let attempts = vec![
        attempt(1, 1, AttemptEvent::Start),
        attempt(
            1,
            1,
            AttemptEvent::Lost {
                next_at: now + Duration::from_secs(1),
                error: Some(error.clone()),
            },
        ),
        attempt(
            1,
            2,
            AttemptEvent::Failed {
                next_at: now + Duration::from_secs(2),
                error,
            },
        ),
        attempt(2, 1, AttemptEvent::CancelRequested),
    ];
    let second = now + Duration::from_micros(1);
    let submissions = vec![
        call(
            a,
            1,
            now,
            Some(request),
            &[(2, None, None, sql()), (3, Some(5), Some(7), noop())],
        ),
        plain(b, 1, 4, Some(1), now),
        call(a, 6, second, None, &[(1, Some(9), Some(9), sql())]),
    ];
    let completions = vec![completion(b, 1, vec![done(3, 2, now), done(1, 1, now)])];
    let schedulers = images([image(a, now), image(b, now)]);
    owned
        .write(Records {
            submissions,
            completions,
            attempts: attempts.clone(),
            schedulers,
        })
        .await;

    let recovered = recover(&owned.journal, ENOUGH).await.unwrap();
    assert_eq!(recovered.len(), 2);
    assert_eq!(recovered[0].image, read_again(image(a, now)));
    let run = |first, count, order: Option<i64>, spec, submitted_at| RecoveredRun {
        first: Seq(first),
        count,
        order: order.map(Order),
        spec,
        submitted_at,
        blocks: 1,
    };
    assert_eq!(
        recovered[0].runs,
        [
            run(1, 2, None, sql(), now),
            run(3, 3, Some(7), noop(), now),
            run(6, 1, Some(9), sql(), second)
        ]
    );
    assert_eq!(recovered[0].attempts, attempts);
    let known = RecoveredRequest {
        request,
        first_seq: Seq(1),
        count: 5,
        done_no: DoneNo(0),
        at: now,
    };
    assert_eq!(recovered[0].requests, [known]);
    assert_eq!(recovered[1].runs, [run(1, 4, Some(1), sql(), now)]);
    let outcome = |done_no, first, count| RecoveredOutcome {
        done_no: DoneNo(done_no),
        first: Seq(first),
        count,
        outcome: Outcome::Succeeded,
    };
    assert_eq!(recovered[1].outcomes, [outcome(1, 3, 2), outcome(3, 1, 1)]);
    assert_eq!(owned.count("select count(*) from submission").await, 2);
}

#[tokio::test]
async fn recovery_reads_only_what_the_checkpoint_leaves_open() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    owned
        .write(Records {
            schedulers: images([image(a, now), image(b, now)]),
            ..Records::default()
        })
        .await;
    for first in [1, 11, 21, 31] {
        owned
            .write(records(vec![plain(a, first, 10, None, now)], vec![]))
            .await;
    }
    owned
        .write(records(
            vec![],
            vec![completion(a, 1, vec![done(1, 14, now)])],
        ))
        .await;
    owned
        .write(records(
            vec![],
            vec![completion(a, 15, vec![done(16, 7, now)])],
        ))
        .await;
    let mut checked = image(a, now);
    let unfinished = vec![(Seq(15), Seq(15)), (Seq(19), Seq(30))];
    checked.checkpoint = Checkpoint {
        highest_seq: Seq(30),
        done_no: DoneNo(17),
        unfinished,
        first_day: now.day(),
        resting: false,
    };
    let mut ended = image(b, now);
    ended.state = SchedulerState::Released;
    ended.release_mode = Some(ReleaseMode::Cancel);
    // Longer ago than its calls may be repeated.
    ended.released_at = Some(
        now - rallypoint::core::model::limits::REQUEST_MEMORY - std::time::Duration::from_secs(1),
    );
    ended.halt = Some(Halt {
        order: Order(1),
        failed: vec![Seq(4)],
    });
    ended.cancel_rest = Some(CancelRest {
        above: None,
        up_to: Seq(9),
    });
    owned
        .write(Records {
            schedulers: images([checked.clone(), ended.clone()]),
            ..Records::default()
        })
        .await;

    let recovered = recover(&owned.journal, ENOUGH).await.unwrap();
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].image, read_again(checked.clone()));
    let firsts: Vec<i64> = recovered[0].runs.iter().map(|run| run.first.0).collect();
    assert_eq!(firsts, [11, 21, 31]);
    let expected = RecoveredOutcome {
        done_no: DoneNo(18),
        first: Seq(19),
        count: 4,
        outcome: Outcome::Succeeded,
    };
    assert_eq!(recovered[0].outcomes, [expected]);
    assert_eq!(
        owned.journal.reader().scheduler(b).await.unwrap(),
        Some(read_again(ended))
    );

    let paused = SchedulerImage {
        paused: true,
        checkpoint: Checkpoint::NONE,
        ..checked.clone()
    };
    owned
        .write(Records {
            schedulers: images([paused]),
            ..Records::default()
        })
        .await;
    let row = owned.journal.reader().scheduler(a).await.unwrap();
    let kept = SchedulerImage {
        paused: true,
        ..read_again(checked.clone())
    };
    assert_eq!(
        row,
        Some(kept),
        "an image without a checkpoint leaves the last one in force"
    );

    checked.checkpoint.resting = true;
    owned
        .write(Records {
            schedulers: images([checked]),
            ..Records::default()
        })
        .await;
    let recovered = recover(&owned.journal, ENOUGH).await.unwrap();
    assert_eq!(
        (recovered[0].runs.len(), recovered[0].outcomes.len()),
        (0, 0),
        "nothing is looked for after a rest"
    );
}

#[tokio::test]
async fn recovery_reads_no_more_calls_that_may_be_repeated_than_are_remembered() {
    let mut owned = Owned::new().await;
    let (a, now) = (handle(), owned.now);
    owned
        .write(Records {
            schedulers: images([image(a, now)]),
            ..Records::default()
        })
        .await;
    let request = || {
        Some(Request {
            id: Uuid::now_v7(),
            hash: 0,
        })
    };
    for second in 0..10 {
        let at = now - Duration::from_secs(10 - second);
        let first = 1 + 2 * second as i64;
        let calls =
            [0, 1].map(|more| call(a, first + more, at, request(), &[(1, None, None, sql())]));
        owned.write(records(calls.into(), vec![])).await;
    }
    let mut firsts: Vec<i64> = recover(&owned.journal, 5).await.unwrap()[0]
        .requests
        .iter()
        .map(|request| request.first_seq.0)
        .collect();
    firsts.sort_unstable();
    assert_eq!(
        firsts,
        [15, 16, 17, 18, 19, 20],
        "the latest ones, to the second"
    );
    assert_eq!(
        recover(&owned.journal, 100).await.unwrap()[0]
            .requests
            .len(),
        20
    );
}

#[tokio::test]
async fn a_batch_sent_again_is_durable_and_written_once() {
    let mut owned = Owned::new().await;
    let first = records(vec![plain(handle(), 1, 3, None, owned.now)], vec![]);
    let batch = owned.batch(first);
    assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    assert_eq!(owned.writer.append(&batch).await, Commit::Durable);
    assert_eq!(owned.journal.writer().append(&batch).await, Commit::Durable);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    assert_eq!(owned.count("select count(*) from batch").await, 2);
}

#[tokio::test]
async fn a_stale_owner_writes_nothing() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    let taken = take_over(&owned.journal, &replica("one")).await;
    assert_eq!(
        (taken.epoch, taken.last_batch),
        (Epoch(owned.epoch.0 + 1), BatchNo(1))
    );
    let late = || records(vec![plain(handle(), 1, 3, None, taken.now)], vec![]);
    assert_eq!(owned.append(late()).await, Commit::Fenced);
    assert_eq!(owned.count("select count(*) from submission").await, 0);

    let batch = Batch {
        shard: ShardId(0),
        epoch: taken.epoch,
        no: BatchNo(2),
        day: owned.now.day(),
        records: late(),
    };
    assert_eq!(owned.journal.writer().append(&batch).await, Commit::Durable);
    assert_eq!(owned.append(late()).await, Commit::Fenced);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
}

#[tokio::test]
async fn a_gap_in_the_numbers_is_not_written() {
    let mut owned = Owned::new().await;
    owned.next = BatchNo(2);
    assert_eq!(owned.append(Records::default()).await, Commit::Fenced);
}

#[tokio::test]
async fn a_refused_batch_writes_nothing_and_its_number_stays_free() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    owned
        .write(records(vec![plain(a, 1, 3, None, now)], vec![]))
        .await;
    let fate = owned
        .append(records(
            vec![plain(b, 1, 3, None, now), plain(a, 1, 3, None, now)],
            vec![],
        ))
        .await;
    assert!(
        matches!(&fate, Commit::Rejected { sqlstate, .. } if sqlstate == "23505"),
        "{fate:?}"
    );
    let fate = owned
        .append(records(vec![plain(b, 0, 3, None, now)], vec![]))
        .await;
    assert!(
        matches!(&fate, Commit::Rejected { sqlstate, .. } if sqlstate == "23514"),
        "{fate:?}"
    );
    let mut lacking = plain(b, 1, 3, None, now);
    Arc::make_mut(&mut lacking.submit).bodies = Packed::default();
    assert!(matches!(
        owned.append(records(vec![lacking], vec![])).await,
        Commit::Rejected { .. }
    ));
    assert_eq!(owned.count("select count(*) from submission").await, 1);
    owned
        .write(records(vec![plain(b, 1, 3, None, now)], vec![]))
        .await;
}

#[tokio::test]
async fn a_lost_connection_is_of_unknown_fate_and_the_next_append_connects() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and application_name = 'rallypoint journal writer'";
    assert_eq!(owned.count(kill).await, 1);
    assert!(matches!(
        owned.append(Records::default()).await,
        Commit::Unknown { .. }
    ));
    owned.write(Records::default()).await;
}

#[tokio::test]
async fn every_shape_of_the_writer_prepares_and_runs() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let mut connection = owned.psql().await;
    assert_eq!(statements().count(), 36);
    for statement in statements() {
        (&mut connection)
            .prepare(sqlx::SqlStr::from_static(statement))
            .await
            .unwrap();
    }
    for shape in 0..16 {
        let (a, mut records) = (handle(), Records::default());
        if shape & 1 > 0 {
            records.submissions = vec![plain(a, 1, 1, None, now)];
        }
        if shape & 2 > 0 {
            records.completions = vec![completion(a, 1, vec![done(1, 1, now)])];
        }
        if shape & 4 > 0 {
            let (seq, attempt) = (Seq(1), Attempt(1));
            records.attempts = vec![AttemptRecord {
                handle: a,
                seq,
                attempt,
                what: AttemptEvent::Start,
                at: now,
            }];
        }
        if shape & 8 > 0 {
            records.schedulers = images([image(a, now)]);
        }
        owned.write(records).await;
    }
    for table in ["submission", "completion", "attempt", "scheduler"] {
        let count = format!("select count(*) from {table}");
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(rows, 8, "{table}");
    }
}

#[tokio::test]
async fn a_lease_keeps_others_away_until_it_ends_and_the_old_owner_learns_of_it() {
    let owned = Owned::new().await;
    let (one, two) = (owned.replica.clone(), replica("two"));
    let take = async |claim| {
        owned
            .journal
            .take_over(&two, claim, Duration::from_secs(5))
            .await
            .unwrap()
    };
    let wait = take(Claim::Successor).await;
    assert!(
        matches!(wait, TakeOver::Wait(left) if left > Duration::from_secs(3) && left <= Duration::from_secs(5)),
        "{wait:?}"
    );
    let mut heart = owned.journal.heart(one, Duration::from_millis(100));
    let beat = heart.beat(Some(owned.epoch)).await.unwrap();
    assert!(beat.lease_until.unwrap() > beat.now);
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(
        matches!(take(Claim::Start).await, TakeOver::Wait(_)),
        "a newcomer leaves it to those who have watched"
    );
    let TakeOver::Owned(taken) = take(Claim::Successor).await else {
        panic!("the lease is over")
    };
    assert_eq!(taken.epoch, Epoch(owned.epoch.0 + 1));
    assert_eq!(
        heart.beat(Some(owned.epoch)).await.unwrap().lease_until,
        None
    );
    assert_eq!(heart.beat(None).await.unwrap().lease_until, None);
    let status = owned.journal.reader().status().await.unwrap();
    let owners: Vec<(&str, bool)> = status
        .replicas
        .iter()
        .map(|row| (row.name.as_str(), row.owner))
        .collect();
    assert_eq!(owners, [("two", true), ("one", false)]);
}

#[tokio::test]
async fn an_unsafe_server_and_an_unknown_schema_are_refused() {
    let owned = Owned::new().await;
    let mut connection = owned.psql().await;
    let strict = JournalConfig {
        allow_unsafe: false,
        ..config(&owned.options)
    };
    let fsync: String = sqlx::query_scalar("show fsync")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    if fsync == "off" {
        assert!(matches!(
            Journal::open(strict).await,
            Err(JournalError::Unsafe(_))
        ));
    }
    Journal::open(config(&owned.options)).await.unwrap();
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9999, 'x', true, '', 0)";
    connection.execute(newer).await.unwrap();
    assert!(matches!(
        Journal::open(config(&owned.options)).await,
        Err(JournalError::Schema(_))
    ));
}

#[tokio::test]
async fn several_replicas_may_start_at_once() {
    let options = super::database();
    let open = || Journal::open(config(&options));
    let (one, two, three) = tokio::join!(open(), open(), open());
    for journal in [one, two, three] {
        journal.unwrap().upkeep().ensure_partitions().await.unwrap();
    }
}
