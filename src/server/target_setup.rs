//! Prepares the database of a target for EXACTLY_ONCE tasks: the place of their markers, and who
//! may use it. Doing it again changes nothing.

use crate::executor::MARKERS_SETUP;
use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, postgres::PgConnectOptions};

/// The statements that do it, for these logins.
pub(crate) fn statements(logins: &[String]) -> String {
    let mut statements = MARKERS_SETUP.to_owned();
    for login in logins {
        let login = format!("\"{}\"", login.replace('"', "\"\""));
        statements.push_str(&format!(
            "\ngrant usage on schema rallypoint to {login};\
             \ngrant execute on all routines in schema rallypoint to {login};\n"
        ));
    }
    statements
}

/// Does it as an administrator of the database.
pub(crate) async fn prepare(administrator: &PgConnectOptions, logins: &[String]) -> Result<()> {
    let mut connection = PgConnection::connect_with(administrator)
        .await
        .context("cannot connect to the database of the target")?;
    // One message, and so one transaction.
    let statements = sqlx::raw_sql(AssertSqlSafe(statements(logins)));
    connection
        .execute(statements)
        .await
        .context("cannot prepare the database of the target")?;
    Ok(connection.close().await?)
}
