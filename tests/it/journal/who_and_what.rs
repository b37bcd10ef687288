//! Who submitted a task, what it is to do, and where it stands, in the log and for lists.

use super::{Owned, make::*, scene::scene};
use rallypoint::{core::*, journal::TaskSummary};
use sqlx::Executor;
use std::{sync::Arc, time::Duration};

fn by(caller: &str, mut call: SubmissionRecord) -> SubmissionRecord {
    call.caller = caller.into();
    call
}

fn event(handle: Handle, seq: i64, attempt: i32, what: AttemptEvent, at: Time) -> AttemptRecord {
    AttemptRecord {
        handle,
        seq: Seq(seq),
        attempt: Attempt(attempt),
        what,
        at,
        ran: None,
    }
}

#[tokio::test]
async fn each_call_of_a_batch_keeps_its_caller() {
    let mut owned = Owned::new().await;
    let (one, other, now) = (handle(), handle(), owned.now);
    let calls = vec![
        by("ann", plain(one, 1, 2, None, now)),
        by("ann", plain(one, 3, 1, None, now)),
        by("bob", plain(one, 4, 1, None, now)),
        by("ann", plain(one, 5, 1, None, now)),
        by("bob", plain(other, 1, 1, None, now)),
    ];
    owned.write_images([image(one, now)]).await;
    owned.write(records(calls, vec![])).await;
    let rows =
        "select string_agg(first_seq || '-' || count || ':' || convert_from(caller, 'UTF8'), ' '
            order by first_seq)
        from submission
        group by handle
        order by count(*)";
    assert_eq!(
        owned.texts(rows).await,
        ["1-1:bob", "1-3:ann 4-1:bob 5-1:ann"]
    );
    // A caller alone, in the statement for one row.
    owned
        .write(records(
            vec![by("eve", plain(one, 6, 1, None, now))],
            vec![],
        ))
        .await;
    let shown = format!("select rallypoint_log.submitted_by('{}', 6)", one.uuid());
    assert_eq!(owned.texts(&shown).await, ["eve"]);
    let none = format!(
        "select count(rallypoint_log.submitted_by('{}', 7))::text",
        one.uuid()
    );
    assert_eq!(owned.texts(&none).await, ["0"]);
}

#[tokio::test]
async fn a_summary_has_the_caller_and_the_beginning_of_the_statement() {
    let scene = scene().await;
    let mut owned = scene.owned;
    let other = handle();
    let long = "ü".repeat(201);
    let mut call = by("eve", plain(other, 1, 2, None, owned.now));
    Arc::make_mut(&mut call.submit).bodies = Packed::new([&b"x"[..], long.as_bytes()]);
    owned.write(records(vec![call], vec![])).await;
    let task = |handle, seq| TaskId {
        handle,
        seq: Seq(seq),
    };
    let names = [
        task(scene.handle, 2),
        task(scene.handle, 3),
        task(scene.handle, 6),
        task(scene.handle, 7),
        task(other, 2),
        task(other, 1),
        task(handle(), 1),
    ];
    let reader = owned.journal.reader();
    let found = reader.summaries(&names).await.expect("summaries");
    let shown = |by: &str, statement: &str| {
        Some(TaskSummary {
            submitted_by: Some(by.into()),
            statement_preview: statement.into(),
        })
    };
    let expected = [
        shown("bob ü", "body 2"),
        // A no-op has no statement.
        shown("bob ü", ""),
        shown("bob ü", "body 6"),
        None,
        shown("eve", &format!("{}…", "ü".repeat(200))),
        shown("eve", "x"),
        None,
    ];
    for (name, expected) in names.iter().zip(expected) {
        assert_eq!(found.get(name).cloned(), expected, "{name:?}");
    }
    // As a version of before leaves it.
    let older = "update submission set caller = null";
    owned.psql().await.execute(older).await.unwrap();
    let found = reader.summaries(&names[..1]).await.expect("summaries");
    let summary = &found[&names[0]];
    assert_eq!(
        (&summary.submitted_by, &*summary.statement_preview),
        (&None, "body 2")
    );
    let shown =
        "select concat_ws('|', count(*), count(submitted_by)) from rallypoint_log.execution_log";
    assert_eq!(owned.texts(shown).await, ["6|0"]);
}

/// Of each task what is recorded of its attempts.
fn steps(later: Time) -> Vec<Vec<(i32, AttemptEvent)>> {
    let lost = || AttemptEvent::Lost {
        next_at: later,
        error: None,
    };
    vec![
        vec![],
        vec![(1, AttemptEvent::Start)],
        vec![
            (1, AttemptEvent::Start),
            (1, AttemptEvent::CancelRequested { why: None }),
        ],
        vec![(1, AttemptEvent::Start), (1, lost())],
        vec![
            (1, AttemptEvent::Start),
            (1, lost()),
            (2, AttemptEvent::Start),
        ],
        vec![(1, AttemptEvent::Start), (1, AttemptEvent::HandedBack)],
        vec![(1, lost()), (2, AttemptEvent::HandedBack)],
        vec![(1, AttemptEvent::Start)],
    ]
}

#[tokio::test]
async fn the_log_tells_a_running_task_from_a_waiting_one() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let later = now + Duration::from_secs(1);
    let steps = steps(later);
    let count = steps.len() as i64;
    let attempts = (1..).zip(steps).flat_map(|(seq, steps)| {
        let steps = steps.into_iter();
        steps.map(move |(attempt, what)| event(handle, seq, attempt, what, later))
    });
    let submissions = vec![by("ann", plain(handle, 1, count as u32, None, now))];
    owned
        .write(Records {
            submissions,
            attempts: attempts.collect(),
            schedulers: [(handle, image(handle, now))].into(),
            completions: vec![completion(handle, 1, vec![done(count, 1, later)])],
            ..Records::default()
        })
        .await;
    let shown = "select concat_ws('|', seq, state, attempt, started_at is not null, submitted_by)
        from rallypoint_log.execution_log
        order by seq";
    let expected = [
        "1|waiting|f|ann",
        "2|running|1|t|ann",
        "3|running|1|t|ann",
        "4|retrying|1|f|ann",
        "5|running|2|t|ann",
        "6|waiting|1|f|ann",
        "7|waiting|2|f|ann",
        "8|done|1|t|ann",
    ];
    assert_eq!(owned.texts(shown).await, expected);
    // What runs, and nothing that waits or has ended.
    let running = "select concat_ws('|', seq, state, submitted_by, statement)
        from rallypoint_log.execution_status
        order by seq";
    let expected = [
        "2|running|ann|body 2",
        "3|running|ann|body 3",
        "5|running|ann|body 5",
    ];
    assert_eq!(owned.texts(running).await, expected);
}
