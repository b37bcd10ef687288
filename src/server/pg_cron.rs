//! Reads the table of pg_cron in somebody's database.

use super::unreached::Unreached;
use crate::database_url::options_of;
use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection, Row};

/// The jobs of pg_cron.
pub(crate) struct CronTable {
    /// By which its schedules go.
    pub time_zone: String,
    /// The database that has the table.
    pub here: String,
    pub jobs: Vec<CronJob>,
}

/// A row of `cron.job`.
pub(crate) struct CronJob {
    pub id: i64,
    pub name: Option<String>,
    pub schedule: String,
    pub command: String,
    pub database: String,
    pub user: String,
    pub active: bool,
}

/// Reads `cron.job`, in the sequence of its numbers.
pub(crate) async fn read(url: &str) -> Result<CronTable> {
    let mut connection = PgConnection::connect_with(&options_of(url)?)
        .await
        .context(Unreached)?;
    let rows = sqlx::query(
        "-- pg_cron_jobs
         select j.jobid, to_jsonb(j) ->> 'jobname' as jobname, j.schedule, j.command, j.database,
             j.username, j.active, coalesce(current_setting('cron.timezone', true), 'GMT') as zone,
             current_database()::text as here
         from cron.job j
         order by j.jobid",
    );
    let rows = rows
        .fetch_all(&mut connection)
        .await
        .context("is pg_cron there, and may the login read its table?")?;
    let first = |column| rows.first().map(|row| row.try_get::<String, _>(column));
    let zone = first("zone").transpose()?.unwrap_or_default();
    let here = first("here").transpose()?.unwrap_or_default();
    let jobs = rows.iter().map(|row| {
        Ok(CronJob {
            id: row.try_get("jobid")?,
            name: row.try_get("jobname")?,
            schedule: row.try_get("schedule")?,
            command: row.try_get("command")?,
            database: row.try_get("database")?,
            user: row.try_get("username")?,
            active: row.try_get("active")?,
        })
    });
    let jobs: Result<Vec<CronJob>> = jobs.collect();
    connection.close().await?;
    Ok(CronTable {
        time_zone: match &*zone {
            "" | "GMT" => "UTC".to_owned(),
            zone => zone.to_owned(),
        },
        here,
        jobs: jobs?,
    })
}
