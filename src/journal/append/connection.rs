//! The connection of the writer: what it relies on is checked on the connection itself.
//!
//! Acknowledged means durable, so nothing is sent on a connection on which a commit may return
//! before it is on disk. The settings are asked for when the session starts, but a pooler in
//! between may drop them without a word, and the server's own may be weaker.

use super::batch::Batch;
use crate::core::{BatchNo, Epoch};
use crate::journal::{
    JournalError,
    bounded_connection::{BoundedConnection, is_lapse},
    connection_limits::{AnswerTimeout, Duty},
    preflight::CONNECT_DIRECTLY,
};
use sqlx::{
    Executor, Postgres,
    postgres::{PgArguments, PgConnectOptions},
    query::Query,
};
use uuid::Uuid;

/// Connects when needed.
pub(super) struct Connection {
    options: PgConnectOptions,
    /// The replica that owns the shard while this is used.
    owner: Uuid,
    link: Option<BoundedConnection>,
    /// The batch that was written last on it, and its epoch.
    written: Option<(Epoch, BatchNo)>,
    timeout: AnswerTimeout,
}

impl Connection {
    pub(super) fn new(options: &PgConnectOptions, owner: Uuid) -> Self {
        Connection {
            options: options.clone(),
            owner,
            link: None,
            written: None,
            timeout: Duty::Writer.answer_timeout(),
        }
    }

    /// The present connection, or a new one.
    pub(super) async fn link(&mut self) -> Result<&mut BoundedConnection, JournalError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                // Rare, and large.
                let open = BoundedConnection::open(&self.options, Duty::Writer);
                let mut link = Box::pin(open).await?;
                Box::pin(verify(&mut link)).await?;
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
        Ok(self.note_lapse(done)?.rows_affected())
    }

    /// Notes that this batch was written on it.
    pub(super) fn note_written(&mut self, batch: &Batch) {
        self.written = Some((batch.epoch, batch.no));
        self.note_durable();
    }

    /// A batch is durable. Nothing else makes the limit short again: before a batch that takes long
    /// is sent once more, other statements are answered soon.
    pub(super) fn note_durable(&mut self) {
        self.timeout.note(true);
    }

    fn note_lapse<T>(&mut self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        if answer.as_ref().is_err_and(is_lapse) {
            self.timeout.note(false);
        }
        answer
    }

    /// Whether the journal has the batch before this one, of the same epoch and owner: an ownership
    /// begins with a batch of its own, and one of another owner may have a number that was ours
    /// before a standby took over, and an epoch as well if that had not heard of this ownership. A
    /// database can lose what it has committed only together with its connections, as such a
    /// takeover does: so what was written on this connection is there, and anything else is asked
    /// for. A standby that has not taken over may not show it yet.
    pub(super) async fn has_predecessor(&mut self, batch: &Batch) -> Result<bool, JournalError> {
        let before = BatchNo(batch.no.0 - 1);
        if self.written == Some((batch.epoch, before)) {
            return Ok(true);
        }
        let query = sqlx::query_as(
            "-- predecessor_of_batch
             select pg_is_in_recovery(), exists (
                 select 1
                 from batch b
                 join lease l on l.shard = b.shard
                 where b.shard = $1 and b.batch_no = $2 and b.epoch = $3 and l.owner_id = $4
             )",
        );
        let query = query.bind(batch.shard.0).bind(before.0);
        let query = query.bind(batch.epoch.0).bind(self.owner);
        let asked = query.fetch_one(self.link().await?).await;
        match self.note_lapse(asked)? {
            (true, _) => Err(JournalError::Unsafe("it is a standby".to_owned())),
            (false, has_it) => Ok(has_it),
        }
    }

    /// The next statement is sent on a new connection.
    pub(super) fn drop(&mut self) {
        self.link = None;
        self.written = None;
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
         dropped it: {CONNECT_DIRECTLY}"
    )))
}
