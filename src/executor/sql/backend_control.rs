//! The control connection of a target: cancels and terminates backends, and finds out whether one
//! is gone.
//!
//! It runs no task. A backend counts as gone only when the server says so.

use super::{
    RECONNECT_BACKOFF,
    session::{self, Session},
};
use sqlx::{PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tokio::{sync::Mutex, time::sleep};

/// How long the target may take for one statement.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between checks of a backend that was asked to end.
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks of a backend that should be running.
const LIVENESS_POLL_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Admin {
    options: PgConnectOptions,
    /// Taken out while in use, so that a connection that was left in the middle of a statement is
    /// not used again.
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
        if self.query_until_answered(CANCEL, session).await {
            sleep(grace).await;
            self.end(session).await;
        }
    }

    /// Terminates the backend, and returns when it is gone. Keeps trying when the target cannot be
    /// reached.
    pub(crate) async fn end(&self, session: &Session) {
        while self.query_until_answered(TERMINATE, session).await {
            sleep(END_POLL_INTERVAL).await;
        }
    }

    /// Returns when the backend has gone silently: a broken network reports nothing, and sqlx has
    /// no keep-alive.
    pub(crate) async fn vanished(&self, session: &Session) {
        loop {
            sleep(LIVENESS_POLL_INTERVAL).await;
            if let Ok(false) = self.query(CHECK, session).await {
                // Its last answer may still be under way.
                return sleep(QUERY_TIMEOUT).await;
            }
        }
    }

    /// One try of [`Self::end`]: false when the backend is still there.
    pub(crate) async fn try_end(&self, session: &Session) -> Result<bool, sqlx::Error> {
        Ok(!self.query(TERMINATE, session).await?)
    }

    async fn query_until_answered(&self, query: &'static str, session: &Session) -> bool {
        let mut failures = 0;
        loop {
            match self.query(query, session).await {
                Ok(present) => return present,
                Err(error) => {
                    tracing::debug!(
                        target = %session.target,
                        pid = session.pid,
                        %error,
                        "cannot reach the target to stop a task"
                    );
                    sleep(RECONNECT_BACKOFF.delay(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Runs the statement; returns whether the backend was there.
    async fn query(&self, query: &'static str, session: &Session) -> Result<bool, sqlx::Error> {
        let mut idle = self.connection.lock().await;
        let mut connection = match idle.take() {
            Some(connection) => connection,
            None => session::connect(&self.options).await?,
        };
        let answer = sqlx::query(query)
            .bind(session.pid)
            .bind(session.backend_start.0)
            .fetch_optional(&mut connection);
        let row = session::within(QUERY_TIMEOUT, answer).await?;
        *idle = Some(connection);
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

const CHECK: &str = "-- check_backend
    select true
    from pg_stat_activity
    where pid = $1
        and (extract(epoch from backend_start) * 1000000)::int8 = $2";
