//! Errors as people need them: what went wrong, why, and what to do next.
//!
//! Every command ends in one of these or in an exit code; nothing else prints errors.

use super::output;
use rallypoint_client::Error;
use std::{fmt::Display, process::ExitCode};

/// Exit code of a command line that makes no sense.
const WRONG_USAGE: u8 = 2;

/// What went wrong, why, and the next step.
#[derive(Debug)]
pub(super) struct CliError {
    what: String,
    why: Vec<String>,
    next: Option<String>,
    code: ExitCode,
}

impl CliError {
    /// `what` could not be done.
    pub(super) fn new(what: impl Into<String>) -> CliError {
        CliError {
            what: what.into(),
            why: Vec::new(),
            next: None,
            code: ExitCode::FAILURE,
        }
    }

    /// `what` is wrong with the command line.
    pub(super) fn usage(what: impl Into<String>) -> CliError {
        CliError {
            code: ExitCode::from(WRONG_USAGE),
            ..CliError::new(what)
        }
    }

    /// Adds a line that says why.
    pub(super) fn why(mut self, why: impl Display) -> CliError {
        self.why.push(why.to_string());
        self
    }

    /// Sets what the person can do about it.
    pub(super) fn next(mut self, next: impl Into<String>) -> CliError {
        self.next = Some(next.into());
        self
    }

    /// A failed call: its reason, every field at fault, and advice.
    pub(super) fn call(what: impl Into<String>, error: &Error) -> CliError {
        let label = error
            .reason
            .clone()
            .unwrap_or_else(|| format!("{:?}", error.code));
        let mut cli_error = CliError::new(what).why(format!("{} ({label})", error.message));
        // With a single fault, the message names it already.
        let faults = error
            .violations
            .iter()
            .map(|(field, fault)| format!("{field}: {fault}"));
        for fault in faults.filter(|fault| *fault != error.message) {
            cli_error = cli_error.why(fault);
        }
        match remedy(error) {
            Some(next) => cli_error.next(next),
            None => cli_error,
        }
    }

    /// Prints the error on stderr and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        output::note(format!("error: {}", self.what));
        for why in &self.why {
            output::note(format!("  why:  {}", why.replace('\n', "\n        ")));
        }
        if let Some(next) = &self.next {
            output::note(format!("  next: {next}"));
        }
        self.code
    }
}

impl From<anyhow::Error> for CliError {
    /// The error and its causes, without those that an error before them repeats.
    fn from(error: anyhow::Error) -> CliError {
        let mut said = without_line(error.to_string());
        let mut cli_error = CliError::new(&said);
        let causes = error.chain().skip(1).map(ToString::to_string);
        for cause in causes.map(without_line) {
            if !said.contains(&cause) {
                cli_error = cli_error.why(&cause);
                said = cause;
            }
        }
        cli_error
    }
}

/// An error of Postgres without the line of its own source that the driver adds.
fn without_line(text: String) -> String {
    match text.rsplit_once(" at line ") {
        Some((said, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => said.to_owned(),
        _ => text,
    }
}

/// Advice for users of the command line, else that for any caller.
fn remedy(error: &Error) -> Option<&'static str> {
    match error.reason.as_deref() {
        _ if error.transport => Some("start a server with `rallypoint serve`, or set --server URL"),
        Some("HANDLE_NOT_FOUND" | "ID_MALFORMED") => {
            Some("check the handle: `rallypoint exec` prints it when it opens a scheduler")
        }
        Some("TASK_NOT_FOUND") => Some("`rallypoint log HANDLE` lists the tasks of the scheduler"),
        Some("TARGET_UNKNOWN") => Some(
            "`rallypoint status` lists the targets; `rallypoint serve --target NAME=URL` adds one",
        ),
        _ if error.is_unknown() => Some("see `rallypoint status`; the command may be repeated"),
        _ => error.remedy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = anyhow::anyhow!("no such role");
        let error = cause
            .context("from the database: no such role")
            .context("cannot migrate");
        let error = CliError::from(error);
        assert_eq!(
            (error.what.as_str(), error.why),
            (
                "cannot migrate",
                vec!["from the database: no such role".to_owned()]
            )
        );
    }
}
