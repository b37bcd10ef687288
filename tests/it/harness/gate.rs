//! Tasks that run until the test lets them end, so that a test needs no clock to know what runs.
//!
//! The gate is an advisory lock of the target database: the test holds it, the tasks wait for it.

use super::{
    postgres::connect,
    work::{Work, sql},
};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tokio::time::sleep;

/// A closed gate in a target database. It also opens when it is dropped.
pub(crate) struct Gate(PgConnection);

impl Gate {
    /// Closes the gate of a database.
    pub(crate) async fn close(database: &PgConnectOptions) -> Gate {
        let mut session = connect(database).await;
        sqlx::raw_sql("select pg_advisory_lock(1)")
            .execute(&mut session)
            .await
            .expect("nobody else holds it");
        Gate(session)
    }

    /// A task that ends when the gate is open.
    pub(crate) fn task(&self) -> Work {
        sql("select pg_advisory_xact_lock_shared(1)")
    }

    /// Returns when so many tasks wait: their sessions are open, registered, and used.
    pub(crate) async fn reached_by(&mut self, tasks: i64) {
        // Other tests have gates of this number in databases of the same server.
        let waiting = "select count(*)
            from pg_locks
            where locktype = 'advisory' and not granted
                and database = (select oid from pg_database where datname = current_database())";
        while sqlx::query_scalar::<_, i64>(waiting)
            .fetch_one(&mut self.0)
            .await
            .expect("a number")
            < tasks
        {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The process id of the session that holds it.
    pub(crate) async fn pid(&mut self) -> i32 {
        let pid = sqlx::query_scalar("select pg_backend_pid()");
        pid.fetch_one(&mut self.0).await.expect("a number")
    }

    /// Lets all tasks through.
    pub(crate) async fn open(self) {
        self.0.close().await.expect("closed");
    }
}
