//! The log of the demo as JSON, in a form of its own: what it proves is judged by scripts.

use crate::cli::{async_done::run_time_us, enum_text, tasks::span, time_text};
use rallypoint_client::api::{AsyncDone, TaskError, TaskResult, TaskView, task::Kind};
use serde_json::{Value, json};

/// One task.
pub(super) fn task(task: &TaskView) -> Value {
    let (started, _) = span(task);
    let submitted = task.task.clone().unwrap_or_default();
    let (kind, target) = match &submitted.kind {
        Some(Kind::Sql(sql)) => ("sql", sql.target.as_str()),
        Some(Kind::Noop(_)) => ("noop", ""),
        None => ("", ""),
    };
    json!({
        "seq": task.id.as_ref().map_or(0, |id| id.seq),
        "kind": kind,
        "target": target,
        "order": submitted.order,
        "effective_order": task.effective_order,
        "state": enum_text::state(task),
        "attempt": task.attempt,
        "submitted_at": time_text::rfc3339(time_text::micros(task.submitted_at.as_ref())),
        "started_at": time_text::rfc3339(started),
        "next_at": time_text::rfc3339(time_text::micros(task.next_attempt_at.as_ref())),
        "labels": submitted.options.unwrap_or_default().labels,
        "done": task.done.as_ref().map(done),
    })
}

fn done(done: &AsyncDone) -> Value {
    json!({
        "done_no": done.done_no,
        "seq": done.seq,
        "order": done.effective_order,
        "outcome": enum_text::outcome(done.outcome()),
        "attempt": done.attempt,
        "started_at": time_text::rfc3339(done.started_us),
        "ended_at": time_text::rfc3339(done.ended_us),
        "duration_s": time_text::seconds(run_time_us(done)),
        "error": done.error.as_ref().map(error),
        "result": done.result.as_ref().map(result),
        "result_omitted": done.rows_omitted,
        "notices": done.notices,
        "replica": done.replica,
        "slot": done.slot,
        "backend_pid": done.backend_pid,
    })
}

fn error(error: &TaskError) -> Value {
    json!({
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "context": error.context,
        "constraint": error.constraint,
        "position": error.position,
    })
}

fn result(result: &TaskResult) -> Value {
    json!({
        "rows_affected": result.rows_affected,
        "rows": serde_json::from_str(&result.rows_json).unwrap_or(Value::Null),
        "truncated": result.truncated,
    })
}
