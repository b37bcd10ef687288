//! What can go wrong in the journal, apart from the result of an append.

use crate::database_url::NO_POSTGRES;
use std::borrow::Cow;

/// A constraint that forbids a row, or without one that there is no partition for it.
const NO_PARTITION: &str = "23514";
/// The server cannot read its own pages.
const DATA_CORRUPTED: &str = "XX001";
/// A trigger forbids it.
const RAISED: &str = "P0001";

/// The journal could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The database did not answer, or refused; may be retried.
    #[error("the coordination database: {}", without_line(.0.to_string()))]
    Database(#[from] sqlx::Error),
    /// Something else listens where it is said to be.
    #[error("the coordination database: {}: {}", .0, NO_POSTGRES)]
    NoPostgres(String),
    /// The schema is not ours, or could not be brought up to date.
    #[error("the schema of the coordination database: {}", without_line(.0.to_string()))]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// A newer program has changed the schema in a way that this one cannot live with.
    #[error(
        "the schema of the coordination database is too new for this program: it takes one that \
         knows migration {needs}, and this one knows migrations up to {knows}; run a newer version"
    )]
    TooNew { needs: i64, knows: i64 },
    /// The owner does not know a migration that is to be run, and cannot live with it.
    #[error(
        "the server {owner:?} owns the shard, and none of its version could after migration \
         {migration}"
    )]
    Owned { owner: String, migration: i64 },
    /// The database is set up in a way that would lose what it acknowledged.
    #[error("the coordination database is not safe to use: {0}")]
    Unsafe(String),
    /// It may take writes in a while.
    #[error(
        "the coordination database is read-only: a standby until it is promoted, or \
         default_transaction_read_only is on"
    )]
    ReadOnly,
    /// A row is missing, or cannot be what this version wrote.
    #[error(
        "the journal makes no sense to this version: {0}; run the version that wrote it, or \
         restore the coordination database from a backup"
    )]
    Corrupt(String),
    /// No answer within the time of the connection's duty.
    #[error(
        "the coordination database did not answer in time: it is overloaded, or the network to it \
         is broken"
    )]
    Timeout,
}

impl JournalError {
    /// The database is away or not ready, and may be there in a while; nothing is wrong with how it
    /// is set up or reached.
    pub fn is_outage(&self) -> bool {
        use sqlx::migrate::MigrateError;
        match self {
            JournalError::Timeout | JournalError::ReadOnly => true,
            JournalError::Database(error) => is_outage(error),
            JournalError::Schema(
                MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _),
            ) => is_outage(error),
            JournalError::NoPostgres(_)
            | JournalError::Schema(_)
            | JournalError::TooNew { .. }
            | JournalError::Owned { .. }
            | JournalError::Unsafe(_)
            | JournalError::Corrupt(_) => false,
        }
    }

    /// A row itself is at fault: others may well be read.
    pub(crate) fn is_of_a_row(&self) -> bool {
        match self {
            JournalError::Corrupt(_) => true,
            _ => self.sqlstate().as_deref() == Some(DATA_CORRUPTED),
        }
    }

    /// The storage does not give what is in it: a disk that fails, or what an index, a page or a
    /// value that is damaged leads to.
    pub(crate) fn is_of_storage(&self) -> bool {
        let code = self.sqlstate();
        code.is_some_and(|code| code.starts_with("58") || code.starts_with("XX"))
    }

    /// The SQLSTATE, when the database reported an error.
    pub(crate) fn sqlstate(&self) -> Option<Cow<'_, str>> {
        match self {
            JournalError::Database(error) => error.as_database_error()?.code(),
            _ => None,
        }
    }

    /// There is no partition yet for a row that was to be written.
    pub(super) fn is_missing_partition(&self) -> bool {
        let JournalError::Database(sqlx::Error::Database(error)) = self else {
            return false;
        };
        error.code().as_deref() == Some(NO_PARTITION) && error.constraint().is_none()
    }

    /// The database refuses what was to be written for what is in it, and always will: its form, a
    /// constraint, its size, or a trigger. Partitions that are missing will be there.
    pub(crate) fn is_of_the_content(&self) -> bool {
        let code = self.sqlstate().filter(|_| !self.is_missing_partition());
        code.is_some_and(|code| match &*code {
            RAISED => true,
            code => ["22", "23", "54"]
                .iter()
                .any(|class| code.starts_with(class)),
        })
    }

    /// A row that makes no sense.
    pub(super) fn corrupt(what: impl Into<String>) -> Self {
        JournalError::Corrupt(what.into())
    }
}

/// An error of Postgres without the line of its own source that the driver adds.
pub(crate) fn without_line(text: String) -> String {
    match text.rsplit_once(" at line ") {
        Some((said, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => said.to_owned(),
        _ => text,
    }
}

fn is_outage(error: &sqlx::Error) -> bool {
    // Too many connections, out of memory or disk: others give some back.
    let resources =
        |db: &dyn sqlx::error::DatabaseError| db.code().is_some_and(|code| code.starts_with("53"));
    match error {
        sqlx::Error::PoolTimedOut => true,
        // Files of certificates that cannot be used, or a server without TLS, or with a certificate
        // that does not show who it is: a connection that breaks is an error of its transport.
        sqlx::Error::Tls(_) => false,
        sqlx::Error::Io(broken) => !is_certificate_error(broken),
        sqlx::Error::Database(db) => connection_lost(error) || resources(&**db),
        _ => connection_lost(error),
    }
}

/// The server has no TLS, or a certificate that does not show who it is.
pub(super) fn is_of_tls(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(broken) => is_certificate_error(broken),
        _ => false,
    }
}

/// The server has no TLS, as the driver says it.
pub(super) fn is_without_tls(error: &sqlx::Error) -> bool {
    let text = |cause: &dyn std::error::Error| cause.to_string();
    matches!(error, sqlx::Error::Tls(cause) if text(&**cause).contains("not support TLS"))
}

/// What answers speaks another protocol, as the driver says it of the first bytes. Where it has
/// asked for TLS, two answers are those of an outage: none, which it takes for a zero, and an
/// error, with which a server answers that has no process to spare.
pub(super) fn is_no_postgres(error: &sqlx::Error) -> bool {
    let sqlx::Error::Protocol(said) = error else {
        return false;
    };
    match said.strip_prefix("unexpected response from SSLRequest: ") {
        Some(answer) => !answer.starts_with("0x00") && !answer.starts_with("0x45"),
        // Nor is a zero, with which begins what we have sent: a connection to an unused port of
        // this machine may lead to itself.
        None => said.starts_with("unknown message type: ") && !said.contains("'\\0'"),
    }
}

fn is_certificate_error(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(tokio_rustls::rustls::Error::InvalidCertificate(_))
    )
}

/// The connection is gone: the result of the statement is unknown, and a new connection may
/// succeed.
pub(super) fn connection_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
        sqlx::Error::Database(db) => db
            .code()
            .is_some_and(|code| code.starts_with("08") || code.starts_with("57P0")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_hangs_up_or_has_no_process_to_spare_is_not_taken_for_something_else() {
        let said = |text: &str| is_no_postgres(&sqlx::Error::Protocol(text.to_owned()));
        for (answer, expected) in [("0x00", false), ("0x45", false), ("0x48", true)] {
            let text = format!("unexpected response from SSLRequest: {answer} (tls:98)");
            assert_eq!(said(&text), expected, "{answer}");
        }
        assert!(said("unknown message type: '-' (message:173)"));
        assert!(!said("unknown message type: '\\0' (message:173)"));
        assert!(!said("unsupported authentication method: Gss"));
    }
}
