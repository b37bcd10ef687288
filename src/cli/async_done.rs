//! One AsyncDone as a line for people and as JSON for programs.

use super::{
    enum_text,
    output::{self, GREEN, RED},
    table::plain,
    time_text,
};
use rallypoint_client::api::{AsyncDone, Outcome, TaskError, TaskResult};
use serde_json::{Value, json};

/// Microseconds from start to outcome; 0: never started.
pub(super) fn run_time_us(done: &AsyncDone) -> i64 {
    if done.started_us == 0 {
        0
    } else {
        done.ended_us - done.started_us
    }
}

/// `3/10  task 3  order 100  succeeded  1.013 s  select …`, coloured by outcome.
pub(super) fn line(done: &AsyncDone, total: usize, statement: &str) -> String {
    let digits = total.to_string().len();
    let head = format!(
        "{:>digits$}/{total}  task {:<digits$}  order {:<5}",
        done.done_no,
        done.seq,
        enum_text::order(done.effective_order),
        digits = digits
    );
    let word = format!("{:<9}", enum_text::outcome(done.outcome()));
    let word = output::paint(
        &word,
        if done.outcome() == Outcome::Succeeded {
            GREEN
        } else {
            RED
        },
    );
    let tail = format!(
        "{:>9}  {}",
        time_text::duration(run_time_us(done)),
        remark(done, statement)
    );
    let rest = output::width().map_or(usize::MAX, |width| {
        width.saturating_sub(head.chars().count() + 13)
    });
    format!("{head}  {word}  {}", output::cut(&tail, rest))
}

/// The text beside an outcome: the error if any, and the statement.
fn remark(done: &AsyncDone, statement: &str) -> String {
    let attempt = if done.attempt > 1 {
        format!("attempt {}: ", done.attempt)
    } else {
        String::new()
    };
    match &done.error {
        Some(error) => format!(
            "{attempt}{} {}  — {}",
            error.code,
            plain(&error.message),
            plain(statement)
        ),
        None => format!("{attempt}{}", plain(statement)),
    }
}

pub(super) fn to_json(done: &AsyncDone) -> Value {
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
        "result_omitted": done.result_omitted,
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
        "rows": rows(result),
        "truncated": result.truncated,
    })
}

/// The rows of the result; null when none were requested.
pub(super) fn rows(result: &TaskResult) -> Value {
    serde_json::from_slice(&result.rows_json).unwrap_or(Value::Null)
}
