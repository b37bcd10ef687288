//! A connection of the journal on which no answer is waited for longer than its duty allows.
//!
//! Everything that the journal sends goes through a [`BoundedConnection`], so the limit stands in
//! one place. An answer that does not come in time is an error like a broken connection: what
//! became of the statement is unknown, and the connection must not be used again.

use super::{JournalError, connection_limits::Duty};
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use sqlx::{
    Connection, Database, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr,
    postgres::PgConnectOptions,
};
use std::{io, time::Duration};
use tokio::time::timeout;

/// One connection.
#[derive(Debug)]
pub(super) struct BoundedConnection {
    connection: PgConnection,
    /// For an answer, or for the next row of one.
    pub(super) limit: Duration,
}

impl BoundedConnection {
    /// Connects for a duty.
    pub(super) async fn open(
        options: &PgConnectOptions,
        duty: Duty,
    ) -> Result<BoundedConnection, Error> {
        let mut link =
            BoundedConnection::open_within(options, duty, duty.connect_timeout()).await?;
        link.limit = duty.answer_timeout().limit();
        Ok(link)
    }

    /// Connects for a duty, and waits no longer than `limit` for that or for an answer.
    pub(super) async fn open_within(
        options: &PgConnectOptions,
        duty: Duty,
        limit: Duration,
    ) -> Result<BoundedConnection, Error> {
        let options = duty.options(options);
        let connection = within(limit, PgConnection::connect_with(&options)).await?;
        Ok(BoundedConnection { connection, limit })
    }

    /// Says goodbye. A server that does not take it notices the end of the connection.
    pub(super) async fn close(self) -> Result<(), JournalError> {
        Ok(within(self.limit, self.connection.close()).await?)
    }

    /// The connection itself, for work without a limit of ours.
    pub(super) fn unlimited(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Waits no longer than `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(lapsed(limit)))
}

fn lapsed(limit: Duration) -> Error {
    let message = format!("no answer within {} s", limit.as_secs_f32());
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// Whether an answer did not come in time.
pub(super) fn is_lapse(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::TimedOut)
}

type QueryResult = <Postgres as Database>::QueryResult;
type Row = <Postgres as Database>::Row;

impl<'c> Executor<'c> for &'c mut BoundedConnection {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<QueryResult, Row>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let limit = self.limit;
        let answer = Some(self.connection.fetch_many(query));
        stream::unfold(answer, move |answer| async move {
            let mut answer = answer?;
            match timeout(limit, answer.next()).await {
                Ok(item) => Some((item?, Some(answer))),
                Err(_) => Some((Err(lapsed(limit)), None)),
            }
        })
        .boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<Row>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let limit = self.limit;
        Box::pin(within(limit, self.connection.fetch_optional(query)))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [<Postgres as Database>::TypeInfo],
    ) -> BoxFuture<'e, Result<<Postgres as Database>::Statement, Error>>
    where
        'c: 'e,
    {
        let limit = self.limit;
        Box::pin(within(limit, self.connection.prepare_with(sql, parameters)))
    }
}
