//! What handlers of RPCs and people with psql can read.

use super::{Owned, make::*, replica};
use rallypoint::{
    core::*,
    journal::{Body, Enrolled, Reader},
};
use sqlx::Executor;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

/// A scheduler with 6 tasks: two sql of order 1, two noops that joined order 7, a sql without order, one unfinished.
struct Scene {
    owned: Owned,
    handle: Handle,
    now: Time,
    done: Vec<Done>,
}

fn outcomes(now: Time) -> Vec<Done> {
    let later = |ms| now + Duration::from_millis(ms);
    let error = Arc::new(TaskError {
        code: "22012".into(),
        message: "division by zero \0 \"ü\"".into(),
    });
    let rows = Arc::new(TaskResult {
        rows_affected: 2,
        rows_json: r#"[{"a":1}]"#.into(),
        truncated: true,
    });
    let plain = |first, order: Option<i64>| Done {
        order: order.map(Order),
        ..done(first, 1, now)
    };
    vec![
        Done {
            result: Some(rows),
            started: Some(later(1)),
            ended: later(5),
            slot: 3,
            backend_pid: 4711,
            ..plain(2, Some(1))
        },
        Done {
            outcome: Outcome::Failed,
            attempt: Attempt(2),
            error: Some(error.clone()),
            ..plain(1, Some(1))
        },
        Done {
            outcome: Outcome::Cancelled,
            attempt: Attempt(0),
            started: None,
            error: Some(error),
            count: 2,
            ..plain(3, Some(7))
        },
        Done {
            result: Some(Arc::default()),
            ..plain(5, None)
        },
    ]
}

async fn scene() -> Scene {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let second = now + Duration::from_micros(70);
    let mut with_params = call(handle, 5, second, None, &[(1, None, None, sql())]);
    Arc::make_mut(&mut with_params.submit).params = Packed::new([&b"[\"1\",null]"[..]]);
    let submissions = vec![
        call(
            handle,
            1,
            now,
            None,
            &[(2, Some(1), Some(1), sql()), (2, Some(5), Some(7), noop())],
        ),
        with_params,
        plain(handle, 6, 1, None, second),
    ];
    let schedulers = BTreeMap::from([(handle, image(handle, now))]);
    let attempts = vec![AttemptRecord {
        handle,
        seq: Seq(6),
        attempt: Attempt(1),
        what: AttemptEvent::Start,
        at: now,
    }];
    owned
        .write(Records {
            submissions,
            schedulers,
            attempts,
            completions: vec![],
        })
        .await;
    let done = outcomes(now);
    let completions = vec![
        completion(handle, 1, done[..2].to_vec()),
        completion(handle, 3, done[2..].to_vec()),
    ];
    owned
        .write(Records {
            completions,
            ..Records::default()
        })
        .await;
    let done = singly(&done);
    Scene {
        owned,
        handle,
        now,
        done,
    }
}

#[derive(Debug, PartialEq)]
struct LogRow {
    seq: i64,
    caller: String,
    task_order: Option<i64>,
    asked_order: Option<i64>,
    kind: String,
    statement: Option<String>,
    submitted_us: i64,
    started_us: Option<i64>,
    ended_us: Option<i64>,
    outcome: Option<String>,
    done_no: Option<i64>,
    attempt: Option<i32>,
    slot: Option<i32>,
    backend_pid: Option<i32>,
    error_code: Option<String>,
    error_message: Option<String>,
    rows_affected: Option<i64>,
}

rallypoint::from_row!(LogRow {
    seq,
    caller,
    task_order,
    asked_order,
    kind,
    statement,
    submitted_us,
    started_us,
    ended_us,
    outcome,
    done_no,
    attempt,
    slot,
    backend_pid,
    error_code,
    error_message,
    rows_affected
});

#[tokio::test]
async fn the_log_has_a_row_for_every_task() {
    let scene = scene().await;
    let rows: Vec<LogRow> = sqlx::query_as(
        "select *, (extract(epoch from submitted_at) * 1000000)::int8 as submitted_us,
             (extract(epoch from started_at) * 1000000)::int8 as started_us,
             (extract(epoch from ended_at) * 1000000)::int8 as ended_us
         from execution_log
         order by seq",
    )
    .fetch_all(&mut scene.owned.psql().await)
    .await
    .unwrap();
    let us = scene.now.0;
    let text = |text: &str| Some(text.to_owned());
    let plain = |seq: i64, order: Option<i64>| LogRow {
        seq,
        caller: "alice \\000 \\303\\274".into(),
        task_order: order,
        asked_order: order,
        kind: "sql".into(),
        statement: Some(format!("body {seq}")),
        submitted_us: us,
        started_us: Some(us),
        ended_us: Some(us),
        outcome: text("succeeded"),
        done_no: None,
        attempt: Some(1),
        slot: Some(0),
        backend_pid: None,
        error_code: None,
        error_message: None,
        rows_affected: None,
    };
    let error = |row| LogRow {
        error_code: text("22012"),
        error_message: text("division by zero \\000 \"\\303\\274\""),
        ..row
    };
    let cancelled = |seq, done_no| {
        let row = LogRow {
            asked_order: Some(5),
            kind: "noop".into(),
            statement: None,
            attempt: Some(0),
            ..plain(seq, Some(7))
        };
        error(LogRow {
            outcome: text("cancelled"),
            started_us: None,
            done_no: Some(done_no),
            ..row
        })
    };
    let waiting = LogRow {
        started_us: None,
        ended_us: None,
        outcome: None,
        attempt: None,
        slot: None,
        ..plain(6, None)
    };
    let expected = [
        error(LogRow {
            outcome: text("failed"),
            attempt: Some(2),
            done_no: Some(2),
            ..plain(1, Some(1))
        }),
        LogRow {
            started_us: Some(us + 1000),
            ended_us: Some(us + 5000),
            slot: Some(3),
            backend_pid: Some(4711),
            rows_affected: Some(2),
            done_no: Some(1),
            ..plain(2, Some(1))
        },
        cancelled(3, 3),
        cancelled(4, 4),
        LogRow {
            submitted_us: us + 70,
            rows_affected: Some(0),
            done_no: Some(5),
            ..plain(5, None)
        },
        LogRow {
            submitted_us: us + 70,
            ..waiting
        },
    ];
    assert_eq!(rows, expected);
}

/// Reads events in stretches of about so many bytes: how many stretches, and what was read.
async fn replay(
    reader: &Reader,
    handle: Handle,
    mut after: DoneNo,
    most_bytes: usize,
) -> (usize, Vec<Done>) {
    let (mut reads, mut replayed) = (0, Vec::new());
    loop {
        let read = reader.events(handle, after, most_bytes).await.unwrap();
        if read.is_empty() {
            return (reads, replayed);
        }
        reads += 1;
        for event in read.iter().flat_map(|events| events.after(DoneNo(0))) {
            let (done_no, done) = event.unwrap();
            assert_eq!(done_no.0, after.0 + 1, "without a gap");
            after = done_no;
            replayed.push(done);
        }
    }
}

#[tokio::test]
async fn events_are_read_from_any_point_on() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    for after in 0..=5 {
        for most_bytes in [0, 1, 50, 100, 1 << 20] {
            let (_, read) = replay(&reader, scene.handle, DoneNo(after), most_bytes).await;
            assert_eq!(
                read,
                scene.done[after as usize..],
                "after {after}, {most_bytes} bytes"
            );
        }
    }
    assert_eq!(replay(&reader, scene.handle, DoneNo(0), 1 << 20).await.0, 1);
    assert!(
        reader
            .events(handle(), DoneNo(0), 9)
            .await
            .unwrap()
            .is_empty()
    );
    let outcomes = reader
        .outcomes(scene.handle, &[Seq(1), Seq(5), Seq(6)])
        .await
        .unwrap();
    let expected = BTreeMap::from([
        (Seq(1), (DoneNo(2), scene.done[1].clone())),
        (Seq(5), (DoneNo(5), scene.done[4].clone())),
    ]);
    assert_eq!(outcomes, expected);
    assert!(reader.outcomes(scene.handle, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_a_row_with_megabytes_of_results_only_what_is_asked_for_is_read() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    owned
        .write(Records {
            schedulers: BTreeMap::from([(handle, image(handle, now))]),
            ..Records::default()
        })
        .await;
    let result = |n: i64| {
        let rows_json = if n % 4 > 0 {
            format!("{n:>60000}")
        } else {
            String::new()
        };
        (n % 5 > 0).then(|| {
            Arc::new(TaskResult {
                rows_affected: n,
                rows_json: rows_json.into(),
                truncated: n % 2 == 0,
            })
        })
    };
    let error = |n: i64| {
        (n % 3 == 0).then(|| {
            Arc::new(TaskError {
                code: "22012".into(),
                message: format!("{n:>8000}"),
            })
        })
    };
    let ended = |n: i64| now + Duration::from_millis(n as u64);
    let all: Vec<Done> = (0..60)
        .map(|n| Done {
            result: result(n),
            error: error(n),
            ended: ended(n),
            slot: n as u32,
            ..done(100 - n, 1, now)
        })
        .collect();
    owned
        .write(Records {
            completions: vec![completion(handle, 1, all.clone())],
            ..Records::default()
        })
        .await;
    let reader = owned.journal.reader();
    let bytes = |done: &Done| {
        done.result
            .as_ref()
            .map_or(0, |result| result.rows_json.len())
            + done
                .error
                .as_ref()
                .map_or(0, |error| error.message.len() + 6)
    };
    for most_bytes in [1, 70_000, 200_000, 1 << 20] {
        let mut after = DoneNo(0);
        while after.0 < 60 {
            let read = reader.events(handle, after, most_bytes).await.unwrap();
            let events: Vec<Done> = read
                .iter()
                .flat_map(|events| events.after(after))
                .map(|event| event.unwrap().1)
                .collect();
            assert_eq!(events, all[after.0 as usize..][..events.len()]);
            assert!(
                events.len() == 1 || events.iter().map(bytes).sum::<usize>() <= most_bytes,
                "{} events",
                events.len()
            );
            after = read.last().expect("at least one").last();
        }
    }
}

#[tokio::test]
async fn bodies_are_read_by_number() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let bodies = reader
        .bodies(scene.handle, Seq(4), Seq(9), 10)
        .await
        .unwrap();
    let body = |seq: i64, params: Option<&'static str>| Body {
        seq: Seq(seq),
        body: format!("body {seq}").into(),
        params: params.map(Into::into),
    };
    assert_eq!(
        bodies,
        [body(4, None), body(5, Some("[\"1\",null]")), body(6, None)]
    );
    assert!(
        reader
            .bodies(scene.handle, Seq(7), Seq(9), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        reader
            .bodies(handle(), Seq(1), Seq(1), 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn bodies_of_several_schedulers_are_read_in_one_go_wherever_their_rows_lie() {
    let mut owned = Owned::new().await;
    let (a, b, now) = (handle(), handle(), owned.now);
    for records in [
        vec![plain(a, 1, 3, None, now), plain(b, 1, 10, None, now)],
        vec![plain(a, 4, 3, None, now)],
    ] {
        owned
            .write(Records {
                submissions: records,
                ..Records::default()
            })
            .await;
    }
    // As when its day goes.
    owned
        .psql()
        .await
        .execute("update submission set day = day + 1 where first_seq = 4")
        .await
        .unwrap();
    let range = |handle, first, last| SeqRange {
        handle,
        first: Seq(first),
        last: Seq(last),
        order: None,
    };
    let stretches = [
        range(a, 2, 5),
        range(b, 3, 4),
        range(b, 8, 9),
        range(handle(), 1, 1),
    ];
    let read = async |most_bytes| {
        let chunks = owned
            .journal
            .reader()
            .body_chunks(&stretches, most_bytes)
            .await
            .unwrap();
        let mut bodies = BTreeMap::new();
        for chunk in chunks {
            for at in 0..chunk.bodies.len() {
                bodies.insert(
                    (chunk.handle, chunk.first.0 + at as i64),
                    chunk.bodies.get(at).to_vec(),
                );
            }
        }
        bodies
    };
    let body = |handle, seq: i64| ((handle, seq), format!("body {seq}").into_bytes());
    let expected = [
        (a, 2),
        (a, 3),
        (a, 4),
        (a, 5),
        (b, 3),
        (b, 4),
        (b, 8),
        (b, 9),
    ]
    .map(|(handle, seq)| body(handle, seq));
    assert_eq!(read(1 << 20).await, BTreeMap::from(expected));
    assert_eq!(
        read(1).await,
        BTreeMap::from([body(a, 2), body(a, 3)]),
        "one row at least"
    );
}

#[tokio::test]
async fn a_task_is_read_with_everything_about_it() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let task = reader.task(scene.handle, Seq(4)).await.unwrap().unwrap();
    assert_eq!(
        (task.order, task.effective, task.submitted_at),
        (Some(Order(5)), Some(Order(7)), scene.now)
    );
    assert_eq!(task.spec, noop());
    assert_eq!(task.done, Some((DoneNo(4), scene.done[3].clone())));
    assert_eq!(task.body.unwrap().body, "body 4");
    let task = reader.task(scene.handle, Seq(6)).await.unwrap().unwrap();
    assert_eq!((task.done, task.attempts.len()), (None, 1));
    assert_eq!(task.submitted_at, scene.now + Duration::from_micros(70));
    for (handle, seq) in [
        (scene.handle, 0),
        (scene.handle, 7),
        (scene.handle, i64::MAX),
        (handle(), 1),
    ] {
        assert!(reader.task(handle, Seq(seq)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn tasks_are_listed_in_pages_newest_first() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    for limit in 1..8 {
        let (mut seqs, mut before) = (Vec::new(), None);
        loop {
            let page = reader
                .tasks(scene.handle, before, None, limit)
                .await
                .unwrap();
            assert!(page.tasks.len() <= limit);
            assert!(
                page.tasks
                    .iter()
                    .all(|task| task.done.is_some() == (task.seq.0 < 6))
            );
            seqs.extend(page.tasks.iter().map(|task| task.seq.0));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seqs, [6, 5, 4, 3, 2, 1], "pages of {limit}");
    }
    let page = reader
        .tasks(scene.handle, None, Some(Order(7)), 9)
        .await
        .unwrap();
    assert_eq!(
        page.tasks.iter().map(|task| task.seq.0).collect::<Vec<_>>(),
        [4, 3]
    );
}

#[tokio::test]
async fn schedulers_are_listed_newest_first_and_found_by_request() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let mut handles: Vec<Handle> = (0..5).map(|_| handle()).collect();
    let schedulers: BTreeMap<Handle, SchedulerImage> = handles
        .iter()
        .map(|handle| (*handle, image(*handle, now)))
        .collect();
    owned
        .write(Records {
            schedulers: schedulers.clone(),
            ..Records::default()
        })
        .await;
    let released = SchedulerImage {
        state: SchedulerState::Released,
        paused: true,
        ..schedulers[&handles[1]].clone()
    };
    owned
        .write(Records {
            schedulers: BTreeMap::from([(handles[1], released.clone())]),
            ..Records::default()
        })
        .await;
    let reader = owned.journal.reader();
    let ours = Namespace("default".into());
    handles.reverse();
    let page = reader.schedulers(&ours, None, None, 3).await.unwrap();
    assert_eq!(
        page.iter().map(|image| image.handle).collect::<Vec<_>>(),
        handles[..3]
    );
    let page = reader
        .schedulers(&ours, Some(handles[2]), None, 3)
        .await
        .unwrap();
    let released = read_again(released);
    assert_eq!(
        page,
        [
            released.clone(),
            read_again(schedulers[&handles[4]].clone())
        ]
    );
    let page = reader
        .schedulers(&ours, None, Some(SchedulerState::Released), 3)
        .await
        .unwrap();
    assert_eq!(page, [released]);
    assert!(
        reader
            .schedulers(&Namespace("other".into()), None, None, 3)
            .await
            .unwrap()
            .is_empty()
    );

    let found = reader
        .find_request(&ours, Uuid::from_u128(7))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.handle, handles[0]);
    assert!(
        reader
            .find_request(&ours, Uuid::from_u128(8))
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        reader
            .find_request(&Namespace("other".into()), Uuid::from_u128(7))
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn sessions_of_fenced_executors_are_found_until_forgotten() {
    let scene = scene().await;
    let now = scene.now;
    let journal = &scene.owned.journal;
    let me = scene.owned.replica.id;
    let dead = journal.sessions(scene.owned.replica.clone());
    assert!(dead.register("app", 0, 100, now).await.unwrap());
    assert!(dead.register("app", 1, 101, now).await.unwrap());
    assert!(dead.register("app", 1, 101, now).await.unwrap());
    assert!(dead.of_fenced().await.unwrap().is_empty());
    let living = journal.sessions(replica("two"));
    let slots = [(
        Work::Sql {
            target: "app".into(),
        },
        3,
    )];
    assert!(
        !living.register("app", 0, 99, now).await.unwrap(),
        "nobody knows it"
    );
    living.enrol(&slots).await.unwrap();
    assert!(
        living
            .register("app", 0, 100, now + Duration::from_secs(1))
            .await
            .unwrap()
    );
    assert_eq!(
        living.window().await.unwrap(),
        slots.clone().into(),
        "the other one has said nothing of slots"
    );
    assert_eq!(
        living.others(Duration::from_secs(60)).await.unwrap(),
        [Enrolled {
            replica: me,
            incarnation: 1,
            alive: true
        }]
    );
    let present = scene.owned.epoch;
    assert!(
        !living.fence(me, 1, Epoch(present.0 - 1)).await.unwrap(),
        "only the present owner fences"
    );
    assert!(dead.of_fenced().await.unwrap().is_empty());
    assert!(living.fence(me, 1, present).await.unwrap());
    assert!(
        living
            .others(Duration::from_secs(60))
            .await
            .unwrap()
            .is_empty()
    );
    let sessions = living.of_fenced().await.unwrap();
    assert_eq!(
        sessions
            .iter()
            .map(|session| (session.backend_pid, session.backend_start))
            .collect::<Vec<_>>(),
        [(100, now), (101, now)]
    );
    dead.let_go("app", 100, now).await.unwrap();
    assert_eq!(living.of_fenced().await.unwrap(), sessions[1..]);
    dead.let_go("app", 101, now).await.unwrap();
    assert_eq!(
        living.of_fenced().await.unwrap(),
        sessions[1..],
        "the last one shows that something may have run"
    );
    // one row a session, and one for the attempt that runs
    assert_eq!(
        scene
            .owned
            .count("select count(*) from execution_status")
            .await,
        3
    );
    assert_eq!(
        scene
            .owned
            .count("select seq from execution_status where target is null")
            .await,
        6
    );
}

#[tokio::test]
async fn the_status_knows_the_last_batch_and_the_oldest_day() {
    let scene = scene().await;
    let status = scene.owned.journal.reader().status().await.unwrap();
    assert_eq!(
        (status.last_batch, status.epoch),
        (BatchNo(2), scene.owned.epoch)
    );
    assert_eq!(status.oldest_day, Some(scene.now.day()));
    assert!(status.now >= status.last_at && status.last_at >= scene.now);
    assert_eq!(status.replicas.len(), 1);
}

#[tokio::test]
async fn a_read_outlives_the_loss_of_its_connection() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    assert!(reader.scheduler(scene.handle).await.unwrap().is_some());
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                where datname = current_database() and application_name = 'rallypoint journal reader'";
    assert!(scene.owned.count(kill).await >= 1);
    assert!(reader.scheduler(scene.handle).await.unwrap().is_some());
}

#[tokio::test]
async fn a_dropped_read_does_no_harm() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    for us in (0..2_000).step_by(100) {
        let read = reader.task(scene.handle, Seq(4));
        let _ = tokio::time::timeout(Duration::from_micros(us), read).await;
    }
    assert!(reader.task(scene.handle, Seq(4)).await.unwrap().is_some());
}
