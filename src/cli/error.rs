//! Errors as people need them: what went wrong, why, and what to do next.
//!
//! Every command ends in one of these or in an exit code; nothing else prints errors.

mod remedy;

use super::{api_words, exit::Exit, shell};
use crate::journal::without_line;
use rallypoint_client::Error;
pub(super) use remedy::{UNANSWERED, broken_off};
use remedy::{remedy, without_remedy};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Display};

/// What went wrong, why, and the next step.
#[derive(Debug)]
pub(super) struct CliError {
    what: String,
    why: Vec<String>,
    next: Option<String>,
    /// Set when a call has failed.
    call: Option<Box<FailedCall>>,
    /// The command has had an effect, or may have had one.
    has_effect: bool,
    /// The scheduler that the command has opened and leaves behind.
    handle: Option<String>,
    exit: Exit,
}

/// What programs need to know of a failed call.
#[derive(Debug)]
struct FailedCall {
    /// The reason of the service, such as `HANDLE_NOT_FOUND`, else the code of gRPC.
    reason: String,
    /// Fields at fault.
    fields: Vec<String>,
    /// Tasks that earlier calls have submitted.
    tasks_before: usize,
    /// No server answered.
    is_unanswered: bool,
    /// It may have had an effect.
    is_unknown: bool,
    /// The name of something that is not there.
    unknown: Option<String>,
}

impl CliError {
    /// `what` could not be done.
    pub(super) fn new(what: impl Into<String>) -> CliError {
        CliError {
            what: what.into(),
            why: Vec::new(),
            next: None,
            call: None,
            has_effect: false,
            handle: None,
            exit: Exit::Failure,
        }
    }

    /// `what` is wrong with the command line.
    pub(super) fn usage(what: impl Into<String>) -> CliError {
        CliError {
            exit: Exit::WrongUsage,
            ..CliError::new(what)
        }
    }

    /// A signal has ended the command.
    pub(super) fn interrupted(what: impl Into<String>, exit: Exit) -> CliError {
        CliError {
            exit,
            ..CliError::new(what)
        }
    }

    /// What a call would have failed for, in the words of the service, for programs: there is
    /// nothing of this name.
    pub(super) fn because_unknown(mut self, reason: &str, name: &str) -> CliError {
        self.call = Some(Box::new(FailedCall {
            reason: reason.to_owned(),
            fields: Vec::new(),
            tasks_before: 0,
            is_unanswered: false,
            is_unknown: false,
            unknown: Some(name.to_owned()),
        }));
        self
    }

    /// Says how many tasks were submitted before those of the call.
    pub(super) fn behind(mut self, tasks: usize) -> CliError {
        if let Some(call) = &mut self.call {
            call.tasks_before = tasks;
        }
        self
    }

    /// Which of all tasks that were to be submitted are at fault, from 0.
    pub(super) fn tasks(&self) -> Vec<usize> {
        let number = |field: &String| -> Option<usize> {
            let rest = field.strip_prefix("tasks[")?;
            rest.split_once(']')?.0.parse().ok()
        };
        let call = self.call.iter();
        let tasks = call.flat_map(|call| {
            let places = call.fields.iter().filter_map(number);
            places.map(move |place| call.tasks_before + place)
        });
        tasks.collect::<BTreeSet<usize>>().into_iter().collect()
    }

    /// Whether a call failed for this reason.
    pub(super) fn is(&self, reason: &str) -> bool {
        self.call.as_ref().is_some_and(|call| call.reason == reason)
    }

    /// Whether no call has failed.
    pub(super) fn is_own(&self) -> bool {
        self.call.is_none()
    }

    /// Whether it may pass by itself: no server answered, or none that could do so by now.
    pub(super) fn may_pass(&self) -> bool {
        let is_late = self.is("Unavailable") || self.is("DeadlineExceeded");
        is_late || self.call.as_ref().is_some_and(|call| call.is_unanswered)
    }

    /// The reason of the service, and the name of what is not there.
    pub(super) fn unknown_name(&self) -> Option<(&str, &str)> {
        let call = self.call.as_ref()?;
        Some((&call.reason, call.unknown.as_ref()?))
    }

    /// Says at which address no server answered, unless that was said.
    pub(super) fn called_at(self, address: &str) -> CliError {
        let is_unanswered = self.call.as_ref().is_some_and(|call| call.is_unanswered);
        match is_unanswered && !self.what.contains(address) {
            true => self.why(format!("the server was called at {address}")),
            false => self,
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

    /// What the person can do about it, where that is said.
    pub(super) fn next_step(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Why, each cause behind what it has caused.
    pub(super) fn reasons(&self) -> &[String] {
        &self.why
    }

    /// A question that comes before the next step.
    pub(super) fn asking(mut self, question: &str) -> CliError {
        self.next = Some(match self.next.take() {
            Some(next) => format!("{question} {next}"),
            None => question.to_owned(),
        });
        self
    }

    /// Has the next step name what the command knows: the word `placeholder` stands for it there.
    pub(super) fn naming(mut self, placeholder: &str, value: impl Display) -> CliError {
        let value = value.to_string();
        self.next = self
            .next
            .map(|next| shell::filled(&next, placeholder, &value));
        self
    }

    /// The command has had an effect, though the call that failed may have had none.
    pub(super) fn with_effect(mut self) -> CliError {
        self.has_effect = true;
        self
    }

    /// What the person does behind that.
    pub(super) fn then(mut self, then: &str) -> CliError {
        self.next = Some(match self.next.take() {
            Some(next) => format!("{next}; then {then}"),
            None => then.to_owned(),
        });
        self
    }

    /// A part of the command has been done. Repeated, it does the rest.
    pub(super) fn repeatable(self) -> CliError {
        let rest = "the command may be repeated, which does the rest";
        self.then(rest).with_effect()
    }

    /// Whether the command has had an effect, or may have had one.
    pub(super) fn has_effect(&self) -> bool {
        self.has_effect
    }

    /// Whether nobody knows if the call that has failed had an effect.
    pub(super) fn is_unknown(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_unknown)
    }

    /// The command leaves this scheduler behind. `next`: what can be done with it, in place of
    /// repeating the command, which would do everything once more.
    pub(super) fn leaves(mut self, handle: &str, next: impl Into<String>) -> CliError {
        self.handle = Some(handle.to_owned());
        self.with_effect().next(next)
    }

    /// A failed call: its reason, every field at fault, and advice.
    pub(super) fn call(what: impl Into<String>, error: &Error) -> CliError {
        let label = error
            .reason
            .clone()
            .unwrap_or_else(|| format!("{:?}", error.code));
        let mut cli_error = CliError::new(what);
        cli_error.why = reasons(error, &label);
        let quoted = error.message.split('"').nth(1);
        let definition = error.metadata.get("definition");
        let is_missing = label.ends_with("_NOT_FOUND") && definition.is_none();
        // This very call may have deleted it: then no other name was meant.
        let quoted = quoted.filter(|_| is_missing && !error.is_unknown());
        let fields = error.violations.iter().map(|(field, _)| field.clone());
        cli_error.call = Some(Box::new(FailedCall {
            reason: label,
            fields: fields.collect(),
            tasks_before: 0,
            is_unanswered: error.transport,
            is_unknown: error.is_unknown(),
            unknown: quoted.map(str::to_owned),
        }));
        cli_error.has_effect = error.is_unknown();
        cli_error.next = remedy(error).map(str::to_owned);
        match definition {
            Some(definition) => cli_error.naming("NAME", shell::word(definition)),
            None => cli_error,
        }
    }

    /// Another call has failed, too: its reason and its fields are among those of the error.
    pub(super) fn also(mut self, error: &Error) -> CliError {
        let other = CliError::call("", error);
        self.why.extend(other.why);
        if let (Some(call), Some(other)) = (&mut self.call, other.call) {
            call.fields.extend(other.fields);
        }
        self
    }

    /// What could not be done, and why, on one line.
    pub(super) fn in_words(&self) -> String {
        let parts: Vec<&str> = [&self.what]
            .into_iter()
            .chain(&self.why)
            .map(String::as_str)
            .collect();
        parts.join(": ")
    }

    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// As people read it, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        let why = |why: &String| format!("  why:  {}", why.replace('\n', "\n        "));
        let next = self.next.iter().map(|next| format!("  next: {next}"));
        [format!("error: {}", self.what)]
            .into_iter()
            .chain(self.why.iter().map(why))
            .chain(next)
            .collect()
    }

    /// As programs read it.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "error": self.what,
            "why": self.why,
            "next": self.next,
            "reason": self.call.as_ref().map(|call| &call.reason),
            "fields": self.call.as_ref().map_or(&[][..], |call| &call.fields),
            "effect": if self.has_effect { "unknown" } else { "none" },
            "handle": self.handle,
            "exit_code": self.exit.number(),
        })
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

/// Why a call failed: what the service says, and each field at fault that this does not name. Of
/// several fields the message is a summary, so each has a line of its own.
fn reasons(error: &Error, label: &str) -> Vec<String> {
    let said = |(field, fault): &(String, String)| format!("{field}: {fault}");
    let first = error.violations.first().map(said).unwrap_or_default();
    let message: &str = match (error.violations.len(), error.message.find(&first)) {
        (2.., Some(at @ 1..)) => error.message[..at].trim_end_matches(": "),
        _ => &error.message,
    };
    let faults = error.violations.iter();
    let faults = faults.filter(|(_, fault)| !message.contains(fault.as_str()));
    let translated = api_words::translated(message);
    let whole = format!("{} ({label})", without_remedy(&translated, label));
    let faults = faults.map(said).map(|line| api_words::translated(&line));
    [whole].into_iter().chain(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_field_that_the_message_names_is_said_once() {
        let mut error = Error::from(tonic::Status::invalid_argument("a: no such resource, …"));
        let fault = "a: no such resource, …".to_owned();
        error.violations = [("a".to_owned(), fault), ("b".to_owned(), "not".to_owned())].into();
        let said = CliError::call("cannot submit", &error).in_words();
        let expected = "cannot submit: a: no such resource, … (InvalidArgument): b: not";
        assert_eq!(said, expected);
    }

    #[test]
    fn each_of_several_fields_at_fault_has_a_line_of_its_own() {
        let message = "2 fields are wrong: tasks[4].order: not one; tasks[1].x: no";
        let mut error = Error::from(tonic::Status::invalid_argument(message));
        let fault = |field: &str, fault: &str| (field.to_owned(), fault.to_owned());
        error.violations = [
            fault("tasks[4].order", "not one"),
            fault("tasks[1].x", "no"),
        ]
        .into();
        let said = CliError::call("cannot submit", &error).behind(10);
        let lines = [
            "2 fields are wrong (InvalidArgument)",
            "tasks[4].order: not one",
            "tasks[1].x: no",
        ];
        assert_eq!(said.why, lines);
        assert_eq!(said.tasks(), [11, 14]);
    }

    #[test]
    fn what_is_not_there_is_answered_by_one_advice() {
        let message = "no job \"a\" in this namespace: the list of jobs has those there are";
        let mut error = Error::from(tonic::Status::not_found(message));
        error.reason = Some("JOB_NOT_FOUND".to_owned());
        let said = CliError::call("cannot run job a", &error);
        assert_eq!(said.why, ["no job \"a\" in this namespace (JOB_NOT_FOUND)"]);
        assert!(said.next.is_some_and(|next| next.contains("jobs list")));
    }

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
