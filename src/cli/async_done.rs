//! One AsyncDone as a line for people.

use super::{
    enum_text,
    output::{self, GREEN, RED},
    table::plain,
    time_text,
};
use rallypoint_client::api::{AsyncDone, Outcome, TaskResult};
use serde_json::Value;

/// Microseconds from start to outcome; 0: never started.
pub(super) fn run_time_us(done: &AsyncDone) -> i64 {
    if done.started_us == 0 {
        0
    } else {
        done.ended_us - done.started_us
    }
}

/// `3/10  task 3  order 100  succeeded  1.013 s  select …`, coloured by outcome.
pub(super) fn line(done: &AsyncDone, (place, total): (i64, usize), statement: &str) -> String {
    let digits = total.to_string().len();
    let head = format!(
        "{:>digits$}/{total}  task {:<digits$}  order {:<5}",
        place,
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

/// The rows of the result; null when none were requested.
pub(super) fn rows(result: &TaskResult) -> Value {
    serde_json::from_str(&result.rows_json).unwrap_or(Value::Null)
}
