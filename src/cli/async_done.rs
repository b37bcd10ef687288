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

/// SQLSTATE of a `$1` for which no value was given.
const UNDEFINED_PARAMETER: &str = "42P02";
/// Columns before further lines of a failure.
const INDENT: usize = 6;

/// `3/10  task 3  order 100  succeeded  1.013 s  select …`, coloured by outcome. On a terminal it
/// is cut to one line, unless it says why a task did not succeed: nothing else repeats that.
pub(super) fn line(done: &AsyncDone, (place, total): (i64, usize), statement: &str) -> String {
    let digits = total.to_string().len();
    let head = format!(
        "{:>digits$}/{total}  task {:<digits$}  order {:<5}",
        place,
        done.seq,
        enum_text::order(done.effective_order),
        digits = digits
    );
    let is_good = done.outcome() == Outcome::Succeeded;
    let word = format!("{:<9}", enum_text::outcome(done.outcome()));
    let painted = output::paint(&word, if is_good { GREEN } else { RED });
    let tail = format!(
        "{:>9}  {}",
        time_text::duration(run_time_us(done)),
        remark(done, statement)
    );
    let line = format!("{head}  {word}  {tail}");
    let line = match is_good {
        true => output::fit(&line),
        false => output::wrapped(&line, INDENT),
    };
    line.replacen(&word, &painted, 1)
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
            "{attempt}{} {}{}  — {}",
            error.code,
            plain(&error.message),
            tip(&error.code),
            plain(statement)
        ),
        None => format!("{attempt}{}", plain(statement)),
    }
}

/// What Postgres does not know of a failure: how the option is called.
fn tip(code: &str) -> &'static str {
    match code {
        UNDEFINED_PARAMETER => " (give it with --param, in a file with `params`)",
        _ => "",
    }
}

/// The rows of the result; null when none were requested.
pub(super) fn rows(result: &TaskResult) -> Value {
    serde_json::from_str(&result.rows_json).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::TaskError;

    #[test]
    fn a_parameter_without_a_value_is_answered_by_the_option() {
        let failed = |code: &str| AsyncDone {
            error: Some(TaskError {
                code: code.to_owned(),
                message: "there is no parameter $1".to_owned(),
                ..TaskError::default()
            }),
            ..AsyncDone::default()
        };
        assert!(remark(&failed(UNDEFINED_PARAMETER), "select $1").contains("--param"));
        assert!(!remark(&failed("22012"), "select $1").contains("--param"));
    }
}
