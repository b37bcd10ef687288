//! Runs administrative statements on the private server from blocking code.

use anyhow::{Result, anyhow};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, postgres::PgConnectOptions};
use std::thread;

/// Runs each statement separately on one connection, on a dedicated thread: the caller may be
/// inside a runtime.
pub(super) fn run(options: PgConnectOptions, statements: Vec<String>) -> Result<()> {
    let work = move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut connection = PgConnection::connect_with(&options).await?;
            for statement in statements {
                connection
                    .execute(sqlx::raw_sql(AssertSqlSafe(statement)))
                    .await?;
            }
            Ok(connection.close().await?)
        })
    };
    thread::spawn(work)
        .join()
        .map_err(|_| anyhow!("the thread of an administrative statement panicked"))?
}
