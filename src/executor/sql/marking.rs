//! What is sent around the text of an EXACTLY_ONCE task: its marker first, and behind it the
//! commit. Pure.
//!
//! Invariant: the marker and what the text did are one transaction, which the text cannot end. A
//! text without parameters runs inside a function of plpgsql, which takes no statement that ends a
//! transaction; with parameters, or when rows are asked for, it is prepared by PREPARE, whose
//! grammar has none. So nothing is inferred from what a text looks like.

use super::{
    error::{COPY_THROUGH_CLIENT, Failure, error},
    extended_query,
    markers::Marker,
    preparation,
    statement::{self, Conditions},
};
use crate::{
    core::{
        Attempt, SessionOptions, TaskError, TaskId, TaskResult, Time,
        model::diagnostics::Diagnostics,
    },
    executor::pg_client,
    executor_protocol::Body,
};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io;
use uuid::Uuid;

/// The marker is written with the rights of the login: the session may have begun with another
/// role, or an earlier text of its scheduler may have left one. The text finds the role it had.
const AS_LOGIN: &str = "select pg_catalog.set_config('role', 'none', true) \
    where pg_catalog.set_config('rallypoint.role', pg_catalog.current_setting('role'), true) is not null";
const AS_BEFORE: &str = "select pg_catalog.set_config('role', \
    pg_catalog.current_setting('rallypoint.role'), true)";
/// Commands that open the transaction and write the marker.
const OPENING: u32 = 3;
/// The name under which a text with parameters is prepared.
const PREPARED: &str = "rallypoint_body";
/// Raised when there is a marker already.
const MARKED: &str = "RP001";
/// Raised when the transaction is not that of the marker.
const ENDED: &str = "RP002";
/// The routine of the server that runs EXECUTE of plpgsql.
const EXECUTE: &str = "exec_stmt_dynexecute";

/// An attempt, as its marker is to know it.
#[derive(Clone, Debug)]
pub(crate) struct Marking {
    pub(crate) task: TaskId,
    pub(crate) attempt: Attempt,
    pub(crate) started: Time,
    pub(crate) slot: u32,
    pub(crate) backend_pid: i32,
    pub(crate) replica: String,
    secret: Uuid,
}

/// How many commands of ours are ahead of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Of them, the first ones that set the options of the session.
    options: u32,
    /// All of them.
    pub(super) all: u32,
}

impl Marking {
    pub(crate) fn new(
        task: TaskId,
        attempt: Attempt,
        started: Time,
        slot: u32,
        replica: &str,
    ) -> Self {
        Marking {
            task,
            attempt,
            started,
            slot,
            backend_pid: 0,
            replica: replica.to_owned(),
            secret: Uuid::now_v7(),
        }
    }

    /// What the session begins with, the beginning of the transaction, its marker, and the text.
    /// The marker is written with the rights of the login, and the text runs with those of its
    /// role. Our statements name schemas, so what the session calls its search path is the text's.
    pub(super) fn put_text(
        &self,
        body: &Body,
        conditions: &Conditions,
        out: &mut BytesMut,
    ) -> Result<Opening, Failure> {
        if conditions.session.read_only == Some(true) {
            return Err(Failure::refused(
                "NOT_TRANSACTIONAL",
                "an EXACTLY_ONCE task writes its marker: it cannot be read_only",
            ));
        }
        let text = statement::checked(&body.payload)?;
        let params = match &body.params {
            Some(params) => statement::parsed(statement::checked(params)?)?,
            None => Vec::new(),
        };
        let mut put_all = || -> io::Result<Opening> {
            let role = conditions.session.role.clone();
            let session = SessionOptions {
                role: None,
                ..conditions.session.clone()
            };
            let options = preparation::put(&session, conditions.token, out)?;
            self.put_begin(out)?;
            match &role {
                Some(role) => preparation::put_role(role, out)?,
                None => put(AS_BEFORE, &[], out)?,
            }
            let label = statement::label(self.task, conditions.span);
            self.put_body(text, &label, &params, is_prepared(body, conditions), out)?;
            frontend::sync(out);
            Ok(Opening {
                options,
                all: options + OPENING + 1,
            })
        };
        put_all().map_err(refused)
    }

    fn put_begin(&self, out: &mut BytesMut) -> io::Result<()> {
        let begin = [
            self.task.handle.to_string(),
            self.task.seq.0.to_string(),
            self.secret.to_string(),
            self.started.0.to_string(),
        ];
        put("begin", &[], out)?;
        put(AS_LOGIN, &[], out)?;
        put("call rallypoint.begin_task($1, $2, $3, $4)", &begin, out)
    }

    fn put_body(
        &self,
        text: &str,
        label: &str,
        params: &[Option<String>],
        is_prepared: bool,
        out: &mut BytesMut,
    ) -> io::Result<()> {
        if is_prepared {
            // A commit that has failed leaves that of an earlier attempt, which no rollback undoes.
            frontend::close(b'S', PREPARED, out)?;
            put(&format!("{}{text}{label}", prefix()), &[], out)?;
            return extended_query::put_prepared(PREPARED, params, out);
        }
        let run = format!("select rallypoint.run($1){label}");
        put(&run, &[text.to_owned()], out)
    }

    /// What completes the marker and commits, and behind it the cleaning, if that is due after
    /// every task. What the text has put off is done first, with the rights that the text has.
    pub(super) fn put_commit(
        &self,
        marker: &Marker,
        cleaning: &[&str],
        out: &mut BytesMut,
    ) -> Result<(), Failure> {
        // Plain data always have a JSON form.
        let outcome = serde_json::to_string(marker).unwrap_or_default();
        let complete = [
            self.task.handle.to_string(),
            self.task.seq.0.to_string(),
            self.secret.to_string(),
            marker.ended.0.to_string(),
            outcome,
            String::from_utf8_lossy(&marker.rows).into_owned(),
        ];
        let mut put_all = || {
            put("set constraints all immediate", &[], out)?;
            put("set local role none", &[], out)?;
            put("set local client_encoding to 'UTF8'", &[], out)?;
            let call = "call rallypoint.complete_task($1, $2, $3, $4, $5, $6)";
            put(call, &complete, out)?;
            put("commit", &[], out)?;
            // No error when there is none of this name.
            frontend::close(b'S', PREPARED, out)?;
            frontend::sync(out);
            statement::put_cleaning(cleaning, out)
        };
        put_all().map_err(refused)
    }

    /// What the marker is to say of a text that has returned.
    pub(super) fn marker(&self, ended: Time, result: &TaskResult, said: &Diagnostics) -> Marker {
        let replica = self.replica.clone();
        Marker {
            attempt: self.attempt.0,
            started: self.started,
            ended,
            slot: self.slot,
            backend_pid: self.backend_pid,
            rows_affected: result.rows_affected,
            truncated: result.truncated,
            said: Diagnostics {
                replica,
                ..said.clone()
            },
            rows: result.rows_json.clone(),
        }
    }
}

/// Whether a text is one statement that the server prepares.
pub(super) fn is_prepared(body: &Body, conditions: &Conditions) -> bool {
    conditions.max_rows > 0 || body.params.is_some()
}

/// What stands before a text that is prepared.
pub(super) fn prefix() -> String {
    format!("prepare {PREPARED} as ")
}

impl Opening {
    /// What went wrong before the text was begun, behind so many of these commands.
    pub(super) fn failure(self, done: u32, report: pg_client::Report) -> Failure {
        if done < self.options || done >= self.options + OPENING {
            let message = format!("the options of the task cannot be set: {}", report.message);
            return Failure::of(pg_client::Report { message, ..report });
        }
        match report.code.as_str() {
            MARKED => Failure::Marked(report.into()),
            // No such schema, no such procedure, no right to either.
            "3F000" | "42883" | "42501" => Failure::refused(
                "EXACTLY_ONCE_UNPREPARED",
                format!(
                    "this target is not prepared for EXACTLY_ONCE ({}): run `rallypoint \
                     prepare-target --url URL --login LOGIN` once, with the URL of an \
                     administrator of its database and the login of the target",
                    report.message
                ),
            ),
            _ => Failure::of(report),
        }
    }
}

/// An error of the text, or of what was put off to its end.
pub(super) fn of_text(report: &pg_client::Report) -> Option<TaskError> {
    let message = match report.code.as_str() {
        "0A000" if report.routine == EXECUTE => of_execute(&report.message).to_owned(),
        // VACUUM and its like; COMMIT in a procedure; COMMIT in the text.
        "25001" | "2D000" | ENDED => {
            let remedy = match report.message.contains("ISOLATION") {
                true => "name its isolation in the options of its session",
                false => "what ends a transaction or cannot run in one runs AT_LEAST_ONCE",
            };
            format!(
                "{}: the text of an EXACTLY_ONCE task runs in one transaction with its marker; \
                 {remedy}",
                report.message
            )
        }
        _ => return None,
    };
    Some(error("NOT_TRANSACTIONAL", message))
}

/// What to write instead of what EXECUTE of plpgsql does not take. Its own message reads as if a
/// part of this service were missing; it is told by the words of SQL, which no server translates.
fn of_execute(message: &str) -> &'static str {
    if message.contains("COPY") {
        return COPY_THROUGH_CLIENT;
    }
    match message.contains("INTO") {
        true => {
            "SELECT … INTO has no place in the text of an EXACTLY_ONCE task: write CREATE TABLE … AS"
        }
        false => {
            "the text of an EXACTLY_ONCE task is one transaction already, with its marker: leave \
             out BEGIN, COMMIT and ROLLBACK; instead of a SAVEPOINT write a DO block with \
             EXCEPTION; what commits parts of its work runs AT_LEAST_ONCE"
        }
    }
}

/// A statement of ours, with its parameters.
fn put(text: &str, params: &[String], out: &mut BytesMut) -> io::Result<()> {
    let params: Vec<Option<String>> = params.iter().cloned().map(Some).collect();
    extended_query::put_command(text, &params, out)
}

fn refused(error: io::Error) -> Failure {
    Failure::refused("BODY_INVALID", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_in_a_transaction_is_answered_by_what_to_write() {
        for (message, remedy) in [
            (
                "EXECUTE of transaction commands is not implemented",
                "leave out BEGIN, COMMIT and ROLLBACK",
            ),
            // As a server says it that speaks German.
            (
                "EXECUTE von Transaktionsbefehlen ist nicht implementiert",
                "DO block with EXCEPTION",
            ),
            (
                "cannot COPY to/from client in PL/pgSQL",
                "use COPY with a file of the server",
            ),
            (
                "EXECUTE of SELECT ... INTO is not implemented",
                "write CREATE TABLE … AS",
            ),
        ] {
            let report = |routine: &str| pg_client::Report {
                code: "0A000".into(),
                message: message.into(),
                routine: routine.into(),
                ..pg_client::Report::default()
            };
            let error = of_text(&report(EXECUTE)).expect(message);
            assert_eq!(&*error.code, "NOT_TRANSACTIONAL");
            assert!(error.message.contains(remedy), "{}", error.message);
            assert!(!error.message.contains("implement"), "{}", error.message);
            assert!(of_text(&report("another")).is_none());
        }
    }
}
