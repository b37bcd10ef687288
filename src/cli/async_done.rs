//! One AsyncDone as a line for people.

use super::{
    enum_text,
    output::{self, GREEN, RED},
    terminal_text::plain,
    time_text,
};
use rallypoint_client::api::{AsyncDone, Outcome, TaskError, TaskResult};
use serde_json::value::RawValue;

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
/// Reason for more or fewer values than the statement has parameters.
const PARAMS_INVALID: &str = "PARAMS_INVALID";
/// Columns of an order at least: those of most files are no longer.
const LEAST_ORDER: usize = 5;
/// Columns before further lines of a failure.
const INDENT: usize = 6;

/// How wide the columns of many lines are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    seq: usize,
    order: usize,
}

impl Widths {
    /// For numbers and orders up to these.
    pub(super) fn of(last_seq: i64, last_order: Option<i64>) -> Widths {
        let order = enum_text::order(last_order).len();
        Widths {
            seq: last_seq.to_string().len(),
            order: order.max(LEAST_ORDER),
        }
    }
}

/// `3/10  task 3  order 100  succeeded  1.013 s  select …`, coloured by outcome. On a terminal it
/// is cut to one line, unless it says why a task did not succeed: nothing else repeats that.
pub(super) fn line(
    done: &AsyncDone,
    (place, total): (i64, usize),
    widths: Widths,
    statement: &str,
) -> String {
    let (digits, Widths { seq, order }) = (total.to_string().len(), widths);
    let head = format!(
        "{place:>digits$}/{total}  task {:<seq$}  order {:<order$}",
        done.seq,
        enum_text::order(done.effective_order),
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
            "{attempt}{}  — {}",
            why(error, done.retry_of.is_some()),
            plain(statement)
        ),
        None => format!("{attempt}{}", plain(statement)),
    }
}

/// Why a task failed, with the options that mend it where the server cannot know them.
pub(super) fn why(error: &TaskError, is_retry: bool) -> String {
    let tip = match (&*error.code, is_retry) {
        (PARAMS_INVALID, true) => {
            " (a retry keeps the values of its task: --param gives others, --no-params none)"
        }
        (UNDEFINED_PARAMETER | PARAMS_INVALID, _) => {
            " (values are given with --param, in a file with `params`)"
        }
        _ => "",
    };
    plain(&format!("{} {}", error.code, error.message)) + tip
}

/// The rows of the result as they came, with their columns in order; none when none were requested.
pub(super) fn rows(result: &TaskResult) -> Vec<Box<RawValue>> {
    serde_json::from_str(&result.rows_json).unwrap_or_default()
}

/// What there is to say of a result behind its rows, so many of which are `kept`. `asked`: how many
/// were to be, if that is known.
pub(super) fn rows_note(
    result: &TaskResult,
    kept: usize,
    asked: Option<i32>,
) -> Option<&'static str> {
    let asked = asked.and_then(|asked| usize::try_from(asked).ok());
    match (&*result.rows_json, result.truncated) {
        // No rows were asked for, or there are no columns.
        ("", _) => None,
        ("[]", false) => Some("(0 rows)"),
        (_, false) => None,
        // What is kept has ended ahead of the number that was asked for, or without any row.
        (_, true) if kept < asked.unwrap_or(1) => {
            Some("(the rows are larger than the 1 MiB that is kept of a result)")
        }
        (_, true) => Some("(more rows were returned than are kept: --result-rows)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rows_are_told_from_rows_that_nobody_asked_for() {
        let note = |rows: &str| {
            let result = TaskResult {
                rows_json: rows.to_owned(),
                ..TaskResult::default()
            };
            rows_note(&result, super::rows(&result).len(), Some(5))
        };
        assert_eq!(note("[]"), Some("(0 rows)"));
        assert_eq!(note(r#"[{"a":1}]"#), None);
        assert_eq!(note(""), None);
    }

    #[test]
    fn rows_that_are_too_large_are_told_from_too_many() {
        let note = |rows: &str, asked| {
            let result = TaskResult {
                rows_json: rows.to_owned(),
                truncated: true,
                ..TaskResult::default()
            };
            let kept = super::rows(&result).len();
            rows_note(&result, kept, asked).unwrap_or_default()
        };
        assert!(note("[]", Some(10)).contains("1 MiB"));
        assert!(note(r#"[{"a":1}]"#, Some(10)).contains("1 MiB"));
        assert!(note(r#"[{"a":1}]"#, Some(1)).contains("--result-rows"));
        // `wait` does not know what the tasks of others have asked for.
        assert!(note("[]", None).contains("1 MiB"));
        assert!(note(r#"[{"a":1}]"#, None).contains("--result-rows"));
        // Large rows are left out of events.
        assert_eq!(note("", Some(10)), "");
    }

    #[test]
    fn lines_of_long_numbers_and_orders_have_their_columns_below_each_other() {
        let place = |seq, order| {
            let done = AsyncDone {
                seq,
                effective_order: Some(order),
                ..AsyncDone::default()
            };
            let line = line(&done, (1, 1), Widths::of(10, Some(1_000_000)), "select 1");
            line.find("select 1")
        };
        assert_eq!(place(9, 1), place(10, 1_000_000));
    }

    #[test]
    fn wrong_parameters_are_answered_by_the_options_that_give_them() {
        let why = |code: &str, is_retry| {
            let code = code.to_owned();
            let error = TaskError {
                code,
                ..TaskError::default()
            };
            why(&error, is_retry)
        };
        assert!(why(UNDEFINED_PARAMETER, false).contains("--param"));
        assert!(!why("22012", true).contains("--param"));
        let of_retry = why(PARAMS_INVALID, true);
        assert!(of_retry.contains("--param") && of_retry.contains("--no-params"));
        assert!(!why(PARAMS_INVALID, false).contains("--no-params"));
    }
}
