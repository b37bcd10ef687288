//! The control connection of a target: cancels and terminates backends, and finds out whether one
//! is gone.
//!
//! It runs no task. A backend counts as gone only when the very server it was started on says so,
//! or an operator does: a server that cannot be reached, another server under the same name, and a
//! session that this login may not see prove nothing.

use super::{
    RECONNECT_BACKOFF,
    register::{Register, Session},
    session_end::{Obstacle, Sighting},
    target_session,
};
use crate::executor::pg_client::{Connection, Login, within};
use std::{
    sync::{Mutex as SyncMutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Mutex, time::sleep};

/// How long the target may take for one statement.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between checks of a backend that was asked to end.
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks of a backend that should be running.
const LIVENESS_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// What is done with a backend that is still there.
#[derive(Clone, Copy)]
enum Act {
    Check,
    Cancel,
    Terminate,
}

pub(crate) struct Admin {
    login: SyncMutex<Login>,
    register: Register,
    /// Taken out while in use, so that a connection that was left in the middle of a statement is
    /// not used again.
    connection: Mutex<Option<(Login, Connection)>>,
}

impl Admin {
    pub(crate) fn new(login: Login, register: Register) -> Self {
        Admin {
            login: SyncMutex::new(login),
            register,
            connection: Mutex::new(None),
        }
    }

    /// Logs in like this from now on.
    pub(crate) fn log_in_as(&self, login: Login) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = login;
    }

    fn login(&self) -> Login {
        let login = self.login.lock();
        login.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cancels what the backend runs, terminates it after `grace`, and returns when it is gone.
    pub(crate) async fn interrupt(&self, session: &Session, grace: Duration) {
        if self.until_answered(Act::Cancel, session).await {
            sleep(grace).await;
            self.end(session).await;
        }
    }

    /// Terminates the backend, and returns when it is gone, however long that takes to show.
    pub(crate) async fn end(&self, session: &Session) {
        while self.until_answered(Act::Terminate, session).await {
            sleep(END_POLL_INTERVAL).await;
        }
    }

    /// Returns when the backend has gone silently: a broken network reports nothing.
    pub(crate) async fn vanished(&self, session: &Session) {
        loop {
            sleep(LIVENESS_POLL_INTERVAL).await;
            let present = match self.query(Act::Check, session).await {
                Ok(present) => present,
                Err(obstacle @ Obstacle::OtherServer { .. }) => {
                    let why = obstacle.to_string();
                    !self.register.is_declared_dead(session, why).await
                }
                Err(_) => true,
            };
            if !present {
                // Its last answer may still be under way.
                return sleep(QUERY_TIMEOUT).await;
            }
        }
    }

    /// Asks until it is known whether the backend is still there. The register shows meanwhile what
    /// is in the way, and an operator may decide it there.
    async fn until_answered(&self, act: Act, session: &Session) -> bool {
        let mut failures = 0;
        let mut last = String::new();
        loop {
            let obstacle = match self.query(act, session).await {
                Ok(present) => return present,
                Err(obstacle) => obstacle.to_string(),
            };
            if last != obstacle {
                tracing::warn!(
                    target = %session.target,
                    pid = session.pid,
                    error = %obstacle,
                    "cannot show yet that a session has ended"
                );
                last.clone_from(&obstacle);
            }
            if self.register.is_declared_dead(session, obstacle).await {
                tracing::warn!(
                    target = %session.target,
                    pid = session.pid,
                    "an operator has declared this session dead"
                );
                return false;
            }
            sleep(RECONNECT_BACKOFF.delay(failures)).await;
            failures += 1;
        }
    }

    /// Does it; returns whether the backend was there.
    async fn query(&self, act: Act, session: &Session) -> Result<bool, Obstacle> {
        let login = self.login();
        let mut idle = self.connection.lock().await;
        let mut connection = match idle.take() {
            Some((as_whom, connection)) if as_whom == login => connection,
            _ => Connection::open(&login).await?,
        };
        let row = within(QUERY_TIMEOUT, connection.row(&control(act, session))).await?;
        *idle = Some((login, connection));
        Sighting::of(&row)?.shows(session)
    }
}

/// One row: the server, and the backend of that process id if there is one. Only the registered
/// backend of the registered server is cancelled or terminated.
fn control(act: Act, session: &Session) -> String {
    let action = match act {
        Act::Check => "null",
        Act::Cancel => "pg_cancel_backend(b.pid)",
        Act::Terminate => "pg_terminate_backend(b.pid)",
    };
    let server = match &session.postmaster {
        None => "true".to_owned(),
        Some(server) => format!(
            "s.system = {} and s.started = {}",
            server.system, server.started.0
        ),
    };
    let (pid, start) = (session.pid, session.backend_start.0);
    format!(
        "-- control_backend
        select s.system, s.address, s.port, s.started, b.pid, b.backend_start,
            case when b.backend_start = {start} and {server} then {action} end as done
        from ({postmaster}) s
        left join (
            select pid, (extract(epoch from backend_start) * 1000000)::int8 as backend_start
            from pg_stat_activity
            where pid = {pid}
        ) b on true",
        postmaster = target_session::POSTMASTER,
    )
}
