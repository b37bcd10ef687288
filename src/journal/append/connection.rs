//! The connection of the writer: what it relies on is checked on the connection itself.
//!
//! Acknowledged means durable, so nothing is sent on a connection on which a commit may return
//! before it is on disk. The settings are asked for when the session starts, but a pooler in
//! between may drop them without a word, and the server's own may be weaker.

use crate::journal::{
    JournalError,
    bounded_connection::{BoundedConnection, is_lapse},
    connection_limits::{AnswerTimeout, Duty},
};
use sqlx::{
    Executor, Postgres,
    postgres::{PgArguments, PgConnectOptions},
    query::Query,
};

/// Connects when needed.
pub(super) struct Connection {
    options: PgConnectOptions,
    link: Option<BoundedConnection>,
    timeout: AnswerTimeout,
}

impl Connection {
    pub(super) fn new(options: &PgConnectOptions) -> Self {
        Connection {
            options: options.clone(),
            link: None,
            timeout: Duty::Writer.answer_timeout(),
        }
    }

    /// The present connection, or a new one.
    pub(super) async fn link(&mut self) -> Result<&mut BoundedConnection, JournalError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                let mut link = BoundedConnection::open(&self.options, Duty::Writer).await?;
                verify(&mut link).await?;
                link
            }
        };
        link.limit = self.timeout.limit();
        Ok(self.link.insert(link))
    }

    /// Runs a statement; returns how many rows it wrote.
    pub(super) async fn execute(
        &mut self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> Result<u64, JournalError> {
        let done = self.link().await?.execute(query).await;
        self.timeout.note(!done.as_ref().is_err_and(is_lapse));
        Ok(done?.rows_affected())
    }

    /// The next statement is sent on a new connection.
    pub(super) fn drop(&mut self) {
        self.link = None;
    }
}

/// Refuses a connection on which a commit could be lost, or a statement never end.
async fn verify(link: &mut BoundedConnection) -> Result<(), JournalError> {
    let (commit, timeout): (String, String) = sqlx::query_as(
        "-- writer_settings
         select current_setting('synchronous_commit'), current_setting('statement_timeout')",
    )
    .fetch_one(link)
    .await?;
    let asked = format!("{}s", Duty::Writer.statement_timeout().as_secs());
    let problem = match (commit.as_str(), timeout) {
        ("on" | "remote_apply", timeout) if timeout == asked => return Ok(()),
        ("on" | "remote_apply", timeout) => format!("statement_timeout is {timeout}, not {asked}"),
        (commit, _) => format!("synchronous_commit is {commit}, not on"),
    };
    Err(JournalError::Unsafe(format!(
        "{problem} on the connection of the writer, which asked for it. A pooler between may have \
         dropped it: connect directly, or through one in session mode that passes `options` on"
    )))
}
