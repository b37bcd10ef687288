//! What a server answers to the text of a task, message by message: the result, or what went wrong.
//! Pure.
//!
//! Memory is bounded, however much is returned. Whether a transaction was left open is what the
//! server says at the end, never what the text looks like.

use super::{
    error::{COPY_THROUGH_CLIENT, Failure, error},
    markers::Marker,
    marking,
    notices::Notices,
    rows::Rows,
    statement::Awaited,
};
use crate::{
    core::{TaskResult, model::diagnostics::Diagnostics},
    executor::pg_client::{Frame, Report},
};
use postgres_protocol::message::backend::{DATA_ROW_TAG, Message, ReadyForQueryBody};

/// The routine of the server that takes a text with parameters. It calls several statements a
/// syntax error, and leaves all others to the parser.
const PARSE: &str = "exec_parse_message";

/// An answer that is being read.
pub(crate) struct Answer {
    rows: Rows,
    notices: Notices,
    /// What the first error says besides.
    said: Diagnostics,
    failed: Option<Failure>,
    /// The statement has been parsed, and the values of its parameters are not taken yet.
    binding: bool,
    /// What is still to come.
    awaited: Awaited,
    /// How the text stands within what is sent.
    wrapping: Wrapping,
}

/// How the text of a task stands within the statement that the server gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    None,
    /// It is the parameter of a function that runs it, and says how many rows its last statement
    /// has affected.
    Run,
    /// So many characters stand before it.
    Prepare {
        prefix: u32,
    },
}

/// An answer that has been read.
pub(crate) struct Answered {
    pub(crate) result: Result<TaskResult, Failure>,
    pub(crate) said: Diagnostics,
    /// What its marker says, when it has one.
    pub(crate) marker: Option<Box<Marker>>,
}

impl Answered {
    pub(crate) fn failed(failure: Failure) -> Self {
        Answered {
            result: Err(failure),
            said: Diagnostics::default(),
            marker: None,
        }
    }
}

/// What a session is left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Everything is committed or undone.
    Nothing,
    /// A transaction, which may have failed.
    Transaction,
}

impl Answer {
    pub(crate) fn new(max_rows: u32) -> Self {
        Answer {
            rows: Rows::new(max_rows),
            notices: Notices::default(),
            said: Diagnostics::default(),
            failed: None,
            binding: false,
            awaited: Awaited {
                commands: 0,
                readies: 1,
            },
            wrapping: Wrapping::None,
        }
    }

    /// The answer to a text that is sent within another statement.
    pub(crate) fn wrapped(max_rows: u32, wrapping: Wrapping) -> Self {
        Answer {
            wrapping,
            ..Answer::new(max_rows)
        }
    }

    /// What has been sent, and so what is to come.
    pub(crate) fn expect(&mut self, awaited: Awaited) {
        self.awaited = awaited;
    }

    /// Takes the next message. `Some`: it was the last one. An error ends the session.
    pub(crate) fn take(&mut self, frame: Frame) -> Result<Option<Left>, Failure> {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::Oversized(DATA_ROW_TAG) => {
                self.rows.omit();
                return Ok(None);
            }
            Frame::Oversized(_) => return Ok(None),
        };
        if self.awaited.commands > 0 {
            return self.take_prepared(message);
        }
        match message {
            Message::RowDescription(columns) => self.rows.begin(columns.fields()),
            Message::DataRow(row) if self.wrapping == Wrapping::Run => self.rows.count(&row),
            Message::DataRow(row) => self.rows.add(&row),
            Message::CommandComplete(done) => {
                let tag = done.tag().unwrap_or_default();
                // What follows are the values of its parameters.
                self.binding = tag == "PREPARE";
                if self.wrapping != Wrapping::Run {
                    self.rows.end(tag);
                }
            }
            Message::EmptyQueryResponse => self.rows.end(""),
            Message::ErrorResponse(body) => self.fail(Report::of(body.fields()))?,
            Message::ParseComplete => self.binding = true,
            Message::BindComplete => self.binding = false,
            Message::ReadyForQuery(ready) => {
                self.awaited.readies -= 1;
                return Ok((self.awaited.readies == 0).then(|| left(&ready)));
            }
            Message::NoticeResponse(body) => self.notices.add(&Report::of(body.fields())),
            Message::NoData | Message::NotificationResponse(_) | Message::ParameterStatus(_) => {}
            Message::CopyInResponse(_) | Message::CopyOutResponse(_) => {
                let message = COPY_THROUGH_CLIENT.into();
                return Err(Failure::Confused(error("PROTOCOL", message)));
            }
            _ => {
                let message = "the target answered with what was not asked for";
                return Err(Failure::Confused(error("PROTOCOL", message.into())));
            }
        }
        Ok(None)
    }

    /// Takes what the server answers before it comes to the text, or instead.
    fn take_prepared(&mut self, message: Message) -> Result<Option<Left>, Failure> {
        match message {
            Message::CommandComplete(_) => self.awaited.commands -= 1,
            Message::ErrorResponse(body) => {
                let report = Report::of(body.fields());
                let message = format!("the options of the task cannot be set: {}", report.message);
                self.fail(Report { message, ..report })?;
            }
            // The text has been skipped.
            Message::ReadyForQuery(ready) => return Ok(Some(left(&ready))),
            _ => {}
        }
        Ok(None)
    }

    /// Whether the server has reported an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What it comes to, and what was said besides. `read`: whether it could be read to its end.
    pub(crate) fn finish(self, read: Result<(), Failure>) -> Answered {
        let result = match (read, self.failed) {
            (Err(failure), _) | (Ok(()), Some(failure)) => Err(failure),
            (Ok(()), None) => Ok(self.rows.into_result()),
        };
        let said = Diagnostics {
            notices: self.notices.into_text(),
            ..self.said
        };
        Answered {
            result,
            said,
            marker: None,
        }
    }

    fn fail(&mut self, report: Report) -> Result<(), Failure> {
        let report = self.wrapping.hinted(report);
        if self.failed.is_none() {
            self.said = self.wrapping.said(&report);
        }
        if report.is_fatal() {
            return Err(Failure::Ended(report.into()));
        }
        if self.wrapping != Wrapping::None
            && let Some(error) = marking::of_text(&report)
        {
            self.failed.get_or_insert(Failure::Reported(error));
            return Ok(());
        }
        let failure = match self.binding && report.code == "08P01" {
            true => params_invalid(&report),
            false => Failure::Reported(report.into()),
        };
        self.failed.get_or_insert(failure);
        Ok(())
    }
}

impl Wrapping {
    /// With what a text may be, where the server finds another one wrong.
    fn hinted(self, report: Report) -> Report {
        let hint = match self {
            // With a context it is a text that a function of the task runs.
            Wrapping::Prepare { .. } if report.code == "42601" && report.context.is_none() => {
                "An EXACTLY_ONCE task with parameters or result_rows is one statement: SELECT, \
                 INSERT, UPDATE, DELETE, MERGE or VALUES. It is one transaction already, so it has \
                 no COMMIT."
            }
            Wrapping::None if report.code == "42601" && report.routine == PARSE => {
                "A task with parameters is one statement: submit the others as tasks of their own, \
                 or give the values without parameters."
            }
            _ => return report,
        };
        Report {
            hint: report.hint.or_else(|| Some(hint.to_owned())),
            ..report
        }
    }

    /// What is said of the text, as if it had been sent alone.
    fn said(self, report: &Report) -> Diagnostics {
        let mut said = said(report);
        match self {
            Wrapping::None => {}
            Wrapping::Run => {
                said.context = said.context.and_then(|context| outside_of_run(&context));
                // Within a function it is a place in another text.
                let of_text = report.internal_position.filter(|_| said.context.is_none());
                said.position = said.position.or(of_text);
            }
            Wrapping::Prepare { prefix } => {
                said.position = said.position.and_then(|at| at.checked_sub(prefix));
            }
        }
        said
    }
}

/// The functions of an error without the one that has run the text.
fn outside_of_run(context: &str) -> Option<String> {
    let (inner, last) = context.rsplit_once('\n').unwrap_or(("", context));
    let context = match last.contains("rallypoint.run(") {
        true => inner,
        false => context,
    };
    (!context.is_empty()).then(|| context.to_owned())
}

fn said(report: &Report) -> Diagnostics {
    let Report {
        detail,
        hint,
        context,
        constraint,
        position,
        ..
    } = report.clone();
    Diagnostics {
        detail,
        hint,
        context,
        constraint,
        position,
        ..Diagnostics::default()
    }
}

/// Too many or too few: an error of the protocol to the server, and of the caller to us.
fn params_invalid(report: &Report) -> Failure {
    let message = format!(
        "{}: give one parameter for each of $1, $2, … in the text; \
         only SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES and CALL take any",
        report.message
    );
    Failure::refused("PARAMS_INVALID", message)
}

fn left(ready: &ReadyForQueryBody) -> Left {
    match ready.status() {
        b'I' => Left::Nothing,
        _ => Left::Transaction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_statements_with_parameters_are_answered_by_what_to_do() {
        let hinted = |wrapping: Wrapping, routine: &str| {
            let report = Report {
                code: "42601".into(),
                message: "cannot insert multiple commands into a prepared statement".into(),
                routine: routine.into(),
                ..Report::default()
            };
            wrapping.hinted(report).hint.unwrap_or_default()
        };
        assert!(hinted(Wrapping::None, PARSE).contains("tasks of their own"));
        assert_eq!(hinted(Wrapping::None, "scanner_yyerror"), "");
        let prepared = hinted(Wrapping::Prepare { prefix: 9 }, "scanner_yyerror");
        assert!(prepared.contains("it has no COMMIT"), "{prepared}");
    }

    #[test]
    fn what_a_function_runs_is_not_taken_for_the_statement_of_the_task() {
        let report = Report {
            code: "42601".into(),
            context: Some("PL/pgSQL function f(integer) line 1 at EXECUTE".into()),
            ..Report::default()
        };
        let hinted = Wrapping::Prepare { prefix: 9 }.hinted(report);
        assert_eq!(hinted.hint, None);
    }
}
