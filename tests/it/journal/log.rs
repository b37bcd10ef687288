//! The view `execution_log`, as people read it with psql.

use super::scene::scene;

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
         from rallypoint_log.execution_log
         order by seq",
    )
    .fetch_all(&mut scene.owned.psql().await)
    .await
    .unwrap();
    let us = scene.now.0;
    let expected = [
        with_error(LogRow {
            outcome: text("failed"),
            attempt: Some(2),
            done_no: Some(2),
            ..succeeded(us, 1, Some(1))
        }),
        LogRow {
            started_us: Some(us + 1000),
            ended_us: Some(us + 5000),
            slot: Some(3),
            backend_pid: Some(4711),
            rows_affected: Some(2),
            done_no: Some(1),
            ..succeeded(us, 2, Some(1))
        },
        cancelled(us, 3),
        cancelled(us, 4),
        LogRow {
            submitted_us: us + 70,
            rows_affected: Some(0),
            done_no: Some(5),
            ..succeeded(us, 5, None)
        },
        LogRow {
            submitted_us: us + 70,
            ..running(us, 6)
        },
    ];
    assert_eq!(rows, expected);
}

/// A task that ran and succeeded, all within the microsecond `us`.
fn succeeded(us: i64, seq: i64, order: Option<i64>) -> LogRow {
    LogRow {
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
    }
}

fn with_error(row: LogRow) -> LogRow {
    LogRow {
        error_code: text("22012"),
        error_message: text("division by zero \\000 \"\\303\\274\""),
        ..row
    }
}

/// A no-op that asked for order 5, joined order 7, and was cancelled before it started.
fn cancelled(us: i64, seq: i64) -> LogRow {
    with_error(LogRow {
        asked_order: Some(5),
        kind: "noop".into(),
        statement: None,
        attempt: Some(0),
        outcome: text("cancelled"),
        started_us: None,
        done_no: Some(seq),
        ..succeeded(us, seq, Some(7))
    })
}

fn running(us: i64, seq: i64) -> LogRow {
    LogRow {
        ended_us: None,
        outcome: None,
        slot: None,
        ..succeeded(us, seq, None)
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}
