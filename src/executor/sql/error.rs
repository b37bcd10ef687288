//! What went wrong with a statement, as the core and people need to know it.

use crate::{
    core::{TaskError, model::limits::ERROR_BYTES},
    executor::pg_client::{self, Report},
};
use std::fmt::Write;

/// Of a text that copies to or from the client.
pub(super) const COPY_THROUGH_CLIENT: &str = "a task cannot COPY to or from the client: \
     use COPY with a file of the server, INSERT or SELECT";

/// Why an attempt failed, and what that says about its session.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Postgres reported an error; the session continues.
    Reported(TaskError),
    /// Postgres reported an error and ended the session: the backend is gone.
    Ended(TaskError),
    /// The backend is gone without an answer.
    Gone(TaskError),
    /// The connection broke: whether the backend still runs is unknown.
    Lost(TaskError),
    /// The session is in an unknown state.
    Confused(TaskError),
    /// The text never reached Postgres, or it was not begun.
    Refused(TaskError),
    /// The task has a marker: an earlier attempt has committed.
    Marked(TaskError),
}

impl Failure {
    /// What the server reports, and whether it ends the session with it.
    pub(crate) fn of(report: Report) -> Self {
        match report.is_fatal() {
            true => Failure::Ended(report.into()),
            false => Failure::Reported(report.into()),
        }
    }

    /// Whether the server may have done more than it could say.
    pub(crate) fn is_ambiguous(&self) -> bool {
        match self {
            Failure::Ended(_) | Failure::Gone(_) | Failure::Lost(_) | Failure::Confused(_) => true,
            Failure::Reported(_) | Failure::Refused(_) | Failure::Marked(_) => false,
        }
    }

    pub(crate) fn refused(code: &str, message: impl Into<String>) -> Self {
        Failure::Refused(error(code, message.into()))
    }

    /// An identical attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Failure::Reported(error) | Failure::Ended(error) => is_transient(&error.code),
            Failure::Gone(_) | Failure::Lost(_) | Failure::Marked(_) => true,
            Failure::Confused(_) | Failure::Refused(_) => false,
        }
    }

    pub(crate) fn into_error(self) -> TaskError {
        match self {
            Failure::Reported(error)
            | Failure::Ended(error)
            | Failure::Gone(error)
            | Failure::Lost(error)
            | Failure::Confused(error)
            | Failure::Refused(error)
            | Failure::Marked(error) => error,
        }
    }
}

impl From<pg_client::Error> for Failure {
    fn from(cause: pg_client::Error) -> Self {
        match cause {
            pg_client::Error::Reported(report) => Failure::of(*report),
            pg_client::Error::Io(_) | pg_client::Error::Login(_) => Failure::Lost(error(
                "CONNECTION_LOST",
                format!("the connection to the target broke: {cause}"),
            )),
            pg_client::Error::Protocol(_) | pg_client::Error::NoPostgres(_) => {
                Failure::Confused(error("PROTOCOL", cause.to_string()))
            }
        }
    }
}

impl From<Report> for TaskError {
    fn from(report: Report) -> Self {
        let text = text(&report);
        error(&report.code, text)
    }
}

/// An error whose message is cut at the limit, between two characters.
pub(crate) fn error(code: &str, mut message: String) -> TaskError {
    message.truncate(message.floor_char_boundary(ERROR_BYTES));
    message.shrink_to_fit();
    TaskError {
        code: code.into(),
        message,
    }
}

fn is_transient(sqlstate: &str) -> bool {
    sqlstate.starts_with("08") && sqlstate != "08P01"
        || matches!(
            sqlstate,
            "57P01" | "57P02" | "57P03" | "57P05" | "40001" | "40P01" | "53300"
        )
}

fn text(report: &Report) -> String {
    let mut text = report.message.clone();
    for (label, part) in [
        ("detail", &report.detail),
        ("hint", &report.hint),
        ("where", &report.context),
    ] {
        if let Some(part) = part {
            // Writing to a string does not fail.
            let _ = write!(text, "\n{label}: {part}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let cut = error("X", "€".repeat(ERROR_BYTES));
        assert!(cut.message.len() <= ERROR_BYTES && cut.message.len() > ERROR_BYTES - 3);
        assert!(cut.message.chars().all(|c| c == '€'));
    }

    #[test]
    fn errors_that_may_pass_are_transient() {
        assert!(
            [
                "08006", "57P01", "57P02", "57P03", "40001", "40P01", "53300"
            ]
            .into_iter()
            .all(is_transient)
        );
        assert!(
            !["08P01", "57014", "22012", "42601", "53100", "25P02"]
                .into_iter()
                .any(is_transient)
        );
    }
}
