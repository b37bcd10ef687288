//! The connections that the handlers of RPCs share.
//!
//! A read takes a connection of its own for as long as it lasts. One that ended without an answer,
//! because the connection broke or went silent or nobody waits for it any more, takes its
//! connection along: the next one opens another. So a connection in the pool has answered all that
//! it was ever asked, and a caller who hangs up leaves nothing behind.

use super::{
    bounded_connection::{BoundedConnection, within},
    connection_limits::Duty,
    error::connection_lost,
};
use futures_util::{
    StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use sqlx::{
    Database, Either, Error, Execute, Executor, Postgres, SqlStr, postgres::PgConnectOptions,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How long a read waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is older is replaced.
const LIFETIME: Duration = Duration::from_secs(1800);

/// Connections of one duty. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Links>);

#[derive(Debug)]
struct Links {
    options: PgConnectOptions,
    turns: Semaphore,
    /// The one used last is taken first.
    idle: Mutex<Vec<(BoundedConnection, Instant)>>,
}

/// A connection in use, with its turn and when it was opened.
struct Lent<'a> {
    link: BoundedConnection,
    opened: Instant,
    _turn: SemaphorePermit<'a>,
}

impl Pool {
    /// A pool of at most `size` connections for reads, opened when needed.
    pub(super) fn new(options: &PgConnectOptions, size: u32) -> Pool {
        Pool(Arc::new(Links {
            options: options.clone(),
            turns: Semaphore::new(size.max(1) as usize),
            idle: Mutex::default(),
        }))
    }

    /// Drops what is not in use: one of them was found dead, and the others may be.
    pub(crate) fn renew(&self) {
        self.0.idle().clear();
    }
}

impl Links {
    async fn lend(&self) -> Result<Lent<'_>, Error> {
        let turn = async { self.turns.acquire().await.map_err(|_| Error::PoolClosed) };
        let turn = within(TURN_TIMEOUT, turn)
            .await
            .map_err(|_| Error::PoolTimedOut)?;
        let idle = self.idle().pop();
        let (link, opened) = match idle.filter(|(_, opened)| opened.elapsed() < LIFETIME) {
            Some(idle) => idle,
            None => (
                BoundedConnection::open(&self.options, Duty::Reader).await?,
                Instant::now(),
            ),
        };
        Ok(Lent {
            link,
            opened,
            _turn: turn,
        })
    }

    /// Takes a connection back that has answered, also with an error of the server.
    fn take_back<T>(&self, lent: Lent<'_>, answer: &Result<T, Error>) {
        let answered = match answer {
            Ok(_) => true,
            Err(error) => matches!(error, Error::Database(_)) && !connection_lost(error),
        };
        if answered {
            self.idle().push((lent.link, lent.opened));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(BoundedConnection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type QueryResult = <Postgres as Database>::QueryResult;
type Row = <Postgres as Database>::Row;

impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    /// Reads the whole answer before it gives any of it.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<QueryResult, Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let whole = async move {
            let mut lent = self.0.lend().await?;
            let answer: Result<Vec<_>, Error> = lent.link.fetch_many(query).try_collect().await;
            self.0.take_back(lent, &answer);
            Ok::<_, Error>(stream::iter(answer?.into_iter().map(Ok)))
        };
        stream::once(whole).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let mut lent = self.0.lend().await?;
            let answer = lent.link.fetch_optional(query).await;
            self.0.take_back(lent, &answer);
            answer
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [<Postgres as Database>::TypeInfo],
    ) -> BoxFuture<'e, Result<<Postgres as Database>::Statement, Error>>
    where
        'p: 'e,
    {
        Box::pin(async move {
            let mut lent = self.0.lend().await?;
            let answer = lent.link.prepare_with(sql, parameters).await;
            self.0.take_back(lent, &answer);
            answer
        })
    }
}
