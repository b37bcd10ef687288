//! An error as a person wants it: what went wrong, why, and what to do next.
//!
//! Every verb ends in one of these or in an exit code; nothing else prints errors.

use std::{fmt::Display, process::ExitCode};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What went wrong, why, and the next step.
#[derive(Debug)]
pub struct Failure {
    what: String,
    why: Vec<String>,
    next: Option<String>,
}

impl Failure {
    /// What the verb could not do.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), why: Vec::new(), next: None }
    }

    /// Why: one line of it.
    pub fn why(mut self, why: impl Display) -> Failure {
        self.why.push(why.to_string());
        self
    }

    /// What the person can do about it.
    pub fn next(mut self, next: impl Into<String>) -> Failure {
        self.next = Some(next.into());
        self
    }

    /// A refused or lost call: its reason, every field at fault, and what helps.
    pub fn rpc(what: impl Into<String>, status: &Status) -> Failure {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.as_str()).unwrap_or_default();
        let label = if reason.is_empty() { format!("{:?}", status.code()) } else { reason.to_owned() };
        let mut failure = Failure::new(what).why(format!("{} ({label})", status.message()));
        for field in details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default() {
            failure = failure.why(format!("{}: {}", field.field, field.description));
        }
        match remedy(status.code(), reason) {
            Some(next) => failure.next(next),
            None => failure,
        }
    }

    /// Prints it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        eprintln!("error: {}", self.what);
        for why in &self.why {
            eprintln!("  why:  {}", why.replace('\n', "\n        "));
        }
        if let Some(next) = &self.next {
            eprintln!("  next: {next}");
        }
        ExitCode::FAILURE
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        error.chain().skip(1).fold(Failure::new(error.to_string()), Failure::why)
    }
}

fn remedy(code: Code, reason: &str) -> Option<&'static str> {
    Some(match (code, reason) {
        (_, "HANDLE_NOT_FOUND") => "check the handle: `rallypoint exec` prints it when it opens a scheduler",
        (_, "TASK_NOT_FOUND") => "`rallypoint log HANDLE` lists the tasks of the scheduler",
        (_, "HANDLE_RELEASED") => "a released scheduler takes no more tasks: open another one",
        (_, "ORDER_CLOSED") => "give the tasks a higher order, or open the scheduler with late_order JOIN",
        (Code::ResourceExhausted, _) => "wait a moment, then try again",
        (Code::Unavailable, _) => "see `rallypoint status`; the call may be repeated",
        (Code::Unimplemented, _) => "the server is of another version: compare `rallypoint --version`",
        _ => return None,
    })
}
