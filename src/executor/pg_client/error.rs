//! What can go wrong between this process and a target, and what a server reports.

use crate::database_url::NO_POSTGRES;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use std::{fmt, io};

/// What a server says that has no place for one more session, of this login or of any.
const TOO_MANY_CONNECTIONS: &str = "53300";
/// Where it says so of one login.
const LIMIT_OF_LOGIN: &str = "InitializeSessionUserId";
/// What is kept of each part of a report.
const PART_BYTES: usize = 8 << 10;

/// Why a target cannot be talked to, or what it answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server reported an error.
    #[error("{0}")]
    Reported(Box<Report>),
    /// What answers does not speak the protocol from the beginning.
    #[error("{}: {}", NO_POSTGRES, .0)]
    NoPostgres(String),
    /// The server says what makes no sense here.
    #[error("the server answered with what was not asked for: {0}")]
    Protocol(String),
    /// The login cannot be used on this server.
    #[error("{0}")]
    Login(String),
}

/// An error or a notice as the server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// ERROR, FATAL, PANIC; NOTICE, WARNING, …
    pub(crate) severity: String,
    /// SQLSTATE.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
    /// Where in the text, in characters from 1.
    pub(crate) position: Option<u32>,
    /// Where in a text that the statement has run, in characters from 1.
    pub(crate) internal_position: Option<u32>,
    /// The routine of the server that reports it, which is never translated.
    pub(crate) routine: String,
    /// The functions it comes from.
    pub(crate) context: Option<String>,
    pub(crate) constraint: Option<String>,
}

impl Error {
    /// The SQLSTATE, when the server reported an error.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        match self {
            Error::Reported(report) => Some(&report.code),
            _ => None,
        }
    }

    /// The server answers that this login may not be used: it is refused, may not connect, or its
    /// database is not there.
    pub(crate) fn is_about_the_login(&self) -> bool {
        let refused = |code: &str| code.starts_with("28") || matches!(code, "42501" | "3D000");
        matches!(self, Error::Login(_)) || self.sqlstate().is_some_and(refused)
    }

    /// The server has no place for one more session.
    pub(crate) fn is_about_room(&self) -> bool {
        self.sqlstate() == Some(TOO_MANY_CONNECTIONS)
    }

    /// It has none for this login, whatever others have.
    pub(crate) fn is_about_room_of_login(&self) -> bool {
        let is_of_login = |report: &Report| report.routine == LIMIT_OF_LOGIN;
        self.is_about_room() && matches!(self, Error::Reported(report) if is_of_login(report))
    }

    /// The server answers so of this login alone: it may not be used, or has as many sessions as it
    /// may. Another one may get in.
    pub(crate) fn is_of_one_login(&self) -> bool {
        self.is_about_the_login() || self.is_about_room_of_login()
    }

    /// The same may succeed later: the network or the server failed, or has no room.
    pub(crate) fn may_pass(&self) -> bool {
        let classes = ["08", "53", "55", "57P", "58", "XX"];
        match self {
            Error::Io(_) => true,
            Error::Reported(report) => classes.iter().any(|class| report.code.starts_with(class)),
            Error::NoPostgres(_) | Error::Protocol(_) | Error::Login(_) => false,
        }
    }

    pub(super) fn unexpected(what: impl fmt::Debug) -> Self {
        Error::Protocol(format!("{what:?}"))
    }
}

impl Report {
    /// From the fields of a message. What was cut off is missing.
    pub(crate) fn of(mut fields: ErrorFields<'_>) -> Self {
        let mut report = Report::default();
        while let Ok(Some(field)) = fields.next() {
            let text = || cut(field.value_bytes());
            match field.type_() {
                // The second one is the same, never translated.
                b'S' if report.severity.is_empty() => report.severity = text(),
                b'V' => report.severity = text(),
                b'C' => report.code = text(),
                b'M' => report.message = text(),
                b'D' => report.detail = Some(text()),
                b'H' => report.hint = Some(text()),
                b'p' => report.internal_position = text().parse().ok(),
                b'R' => report.routine = text(),
                b'P' => report.position = text().parse().ok(),
                b'W' => report.context = Some(text()),
                b'n' => report.constraint = Some(text()),
                _ => {}
            }
        }
        report
    }

    /// The server ends the session with it.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

fn cut(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(PART_BYTES)]).into_owned();
    if bytes.len() > PART_BYTES {
        // Half a character at the cut.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
    }
    text
}
