//! A session on a target: registered before its first task, clean before every task.
//!
//! Invariant: no task runs on a session that is not durably in the register, so that a new owner
//! can end it.

use super::{
    error::sqlstate,
    obstacle,
    register::{Register, Session},
};
use crate::core::Time;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row, postgres::PgConnectOptions};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long the target may take to open or label a session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long cleaning may take: it drops temporary tables.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(60);

/// An open connection.
pub(crate) struct Live {
    pub(crate) connection: PgConnection,
    pub(crate) session: Session,
}

/// What cleaning found.
pub(crate) struct Cleaned {
    /// The text had left a transaction open, which is rolled back.
    pub(crate) left_open: bool,
    /// The session may be used again.
    pub(crate) usable: bool,
}

impl Live {
    /// Opens one and has it registered.
    pub(crate) async fn open(
        options: &PgConnectOptions,
        target: &Arc<str>,
        slot: u32,
        register: &Register,
    ) -> Result<Self, sqlx::Error> {
        let mut connection = connect(options).await?;
        let row = within(
            CONNECT_TIMEOUT,
            sqlx::raw_sql(IDENTITY).fetch_one(&mut connection),
        )
        .await?;
        let session = Session {
            target: Arc::clone(target),
            slot,
            pid: row.try_get("pid")?,
            backend_start: Time(row.try_get("backend_start")?),
            postmaster: Some(obstacle::postmaster(&row)?),
        };
        register.register(&session).await?;
        Ok(Live {
            connection,
            session,
        })
    }

    /// Labels the session with its next task, which also shows that the session is still alive.
    pub(crate) async fn label(&mut self, task: &str) -> Result<(), sqlx::Error> {
        let label = AssertSqlSafe(format!(
            "-- task_label\nset application_name = 'rallypoint/{task}'"
        ));
        within(
            CONNECT_TIMEOUT,
            sqlx::raw_sql(label).execute(&mut self.connection),
        )
        .await
        .map(drop)
    }

    /// Resets everything the last text did to the session.
    pub(crate) async fn clean(&mut self) -> Cleaned {
        match self.discard().await {
            Ok(()) => Cleaned {
                left_open: false,
                usable: true,
            },
            Err(error) if matches!(sqlstate(&error), Some("25001" | "25P02")) => Cleaned {
                left_open: true,
                usable: self.rollback().await.is_ok(),
            },
            Err(_) => Cleaned {
                left_open: false,
                usable: false,
            },
        }
    }

    async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        within(
            CLEAN_TIMEOUT,
            sqlx::raw_sql("-- rollback\nrollback").execute(&mut self.connection),
        )
        .await?;
        self.discard().await
    }

    /// A cancel that came too late for the text hits this statement instead; then it is repeated.
    async fn discard(&mut self) -> Result<(), sqlx::Error> {
        let mut left = 3;
        loop {
            let discarded = sqlx::raw_sql("-- discard\ndiscard all").execute(&mut self.connection);
            match within(CLEAN_TIMEOUT, discarded).await {
                Err(error) if left > 0 && sqlstate(&error) == Some("57014") => left -= 1,
                other => return other.map(drop),
            }
        }
    }
}

/// The server that answers, as [`crate::executor_protocol::Postmaster`] has it.
macro_rules! postmaster {
    () => {
        "select (select system_identifier from pg_control_system()) as system,
            host(inet_server_addr()) as address,
            coalesce(inet_server_port(), current_setting('port')::int4) as port,
            (extract(epoch from pg_postmaster_start_time()) * 1000000)::int8 as started"
    };
}
pub(super) use postmaster;

const IDENTITY: &str = concat!(
    "-- session_identity
    select s.system, s.address, s.port, s.started, a.pid,
        (extract(epoch from a.backend_start) * 1000000)::int8 as backend_start
    from (",
    postmaster!(),
    ") s, pg_stat_activity a
    where a.pid = pg_backend_pid()"
);

/// The operator's login, prepared for tasks: no statement is logged, dead peers are noticed, and
/// notices are not sent (sqlx would log them, and they belong to the task).
pub(crate) fn task_login(options: &PgConnectOptions) -> PgConnectOptions {
    options
        .clone()
        .application_name("rallypoint")
        .disable_statement_logging()
        .statement_cache_capacity(10)
        .options([
            ("client_min_messages", "error"),
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "3"),
        ])
}

/// Has the backend of a dead client end within half a second, on servers that support it.
pub(crate) fn with_connection_check(options: &PgConnectOptions) -> PgConnectOptions {
    options
        .clone()
        .options([("client_connection_check_interval", "500ms")])
}

/// Opens a connection in bounded time.
pub(crate) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    within(CONNECT_TIMEOUT, options.connect()).await
}

/// Limits the time of `work`. The connection must not be used again after a timeout.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
