//! The one connection per target that watches over the others: cancels, terminates, and tells
//! whether a backend is gone.

use super::{
    RECONNECT_BACKOFF,
    session::{self, Session},
};
use sqlx::{PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tokio::{sync::Mutex, time::sleep};

const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a backend that has been told to end.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks at a backend that should be running.
const REMOTE_LOOK: Duration = Duration::from_secs(30);

pub(crate) struct Admin {
    options: PgConnectOptions,
    /// Taken out while in use: one that was left in the middle of something never comes back.
    connection: Mutex<Option<PgConnection>>,
}

impl Admin {
    pub(crate) fn new(options: PgConnectOptions) -> Self {
        Admin {
            options,
            connection: Mutex::new(None),
        }
    }

    /// Cancels what the backend runs, terminates it after `grace`, and returns when it is gone.
    pub(crate) async fn interrupt(&self, session: &Session, grace: Duration) {
        if self.insist(CANCEL, session).await {
            sleep(grace).await;
            self.end(session).await;
        }
    }

    /// Terminates the backend, and returns when it is gone. Keeps trying when the target cannot be
    /// reached.
    pub(crate) async fn end(&self, session: &Session) {
        while self.insist(TERMINATE, session).await {
            sleep(LOOK).await;
        }
    }

    /// Returns when the backend has gone without a word: a broken network tells nobody, and sqlx
    /// has no keep-alive.
    pub(crate) async fn vanished(&self, session: &Session) {
        loop {
            sleep(REMOTE_LOOK).await;
            if let Ok(false) = self.ask(LOOK_AT, session).await {
                // What it said last may still be on its way.
                return sleep(PATIENCE).await;
            }
        }
    }

    /// One try of [`Self::end`]: false when the backend is still there.
    pub(crate) async fn try_end(&self, session: &Session) -> Result<bool, sqlx::Error> {
        Ok(!self.ask(TERMINATE, session).await?)
    }

    async fn insist(&self, query: &'static str, session: &Session) -> bool {
        let mut failures = 0;
        loop {
            match self.ask(query, session).await {
                Ok(present) => return present,
                Err(error) => {
                    tracing::debug!(target = %session.target, pid = session.pid, %error, "cannot reach the target to stop a task");
                    sleep(RECONNECT_BACKOFF.delay(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Whether the backend was there.
    async fn ask(&self, query: &'static str, session: &Session) -> Result<bool, sqlx::Error> {
        let mut place = self.connection.lock().await;
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => session::connect(&self.options).await?,
        };
        let asked = sqlx::query(query)
            .bind(session.pid)
            .bind(session.backend_start.0)
            .fetch_optional(&mut connection);
        let row = session::within(PATIENCE, asked).await?;
        *place = Some(connection);
        Ok(row.is_some())
    }
}

const CANCEL: &str = "-- cancel_backend
    select pg_cancel_backend(pid)
    from pg_stat_activity
    where pid = $1
        and (extract(epoch from backend_start) * 1000000)::int8 = $2";

const TERMINATE: &str = "-- terminate_backend
    select pg_terminate_backend(pid)
    from pg_stat_activity
    where pid = $1
        and (extract(epoch from backend_start) * 1000000)::int8 = $2";

const LOOK_AT: &str = "-- look_at_backend
    select true
    from pg_stat_activity
    where pid = $1
        and (extract(epoch from backend_start) * 1000000)::int8 = $2";
