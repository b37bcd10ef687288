//! Reads the tables of pgAgent in somebody's database.

use super::{login_zone, unreached::Unreached};
use crate::database_url::options_of;
use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection, Row};

/// The jobs of pgAgent.
pub(crate) struct AgentTables {
    /// By which its schedules go: that of the login.
    pub time_zone: String,
    /// The database that has the tables.
    pub here: String,
    pub jobs: Vec<AgentJob>,
}

/// A row of `pgagent.pga_job`.
pub(crate) struct AgentJob {
    pub id: i64,
    pub name: String,
    pub enabled: bool,
    /// The only machine on which it runs; empty: any.
    pub host: String,
    /// In the order in which they run.
    pub steps: Vec<AgentStep>,
    pub schedules: Vec<AgentSchedule>,
}

/// A row of `pgagent.pga_jobstep`.
pub(crate) struct AgentStep {
    pub id: i64,
    pub name: String,
    pub enabled: bool,
    /// Otherwise it is a program.
    pub is_sql: bool,
    pub code: String,
    /// `None`: it has a connection string of its own, which is not read, since it may have a
    /// password.
    pub database: Option<String>,
    /// What a failure does: `f` fails the job, `s` counts as success, `i` is ignored.
    pub on_error: String,
}

/// A row of `pgagent.pga_schedule`.
pub(crate) struct AgentSchedule {
    pub id: i64,
    pub name: String,
    pub enabled: bool,
    /// Seconds since 1970.
    pub start: i64,
    pub end: Option<i64>,
    /// 60 minutes, 24 hours, 7 days of the week from Sunday, 31 days of the month and the last
    /// one, 12 months.
    pub sets: [Vec<bool>; 5],
    /// With their numbers, a date and a time of day.
    pub exceptions: Vec<(i64, Option<String>, Option<String>)>,
}

/// Reads all jobs, in the sequence of their numbers.
pub(crate) async fn read(url: &str) -> Result<AgentTables> {
    let mut connection = PgConnection::connect_with(&options_of(url)?)
        .await
        .context(Unreached)?;
    let rows = sqlx::query(
        "-- pgagent_jobs
         select j.jobid::int8 as id, j.jobname, j.jobenabled, j.jobhostagent,
             current_database()::text as here
         from pgagent.pga_job j
         order by j.jobid",
    )
    .fetch_all(&mut connection)
    .await
    .context("is pgAgent there, and may the login read its tables?")?;
    let here = rows.first().map(|row| row.try_get("here"));
    let mut tables = AgentTables {
        time_zone: login_zone::of(&mut connection).await?,
        here: here.transpose()?.unwrap_or_default(),
        jobs: Vec::new(),
    };
    for row in rows {
        let id: i64 = row.try_get("id")?;
        tables.jobs.push(AgentJob {
            id,
            name: row.try_get("jobname")?,
            enabled: row.try_get("jobenabled")?,
            host: row.try_get("jobhostagent")?,
            steps: steps(&mut connection, id).await?,
            schedules: schedules(&mut connection, id).await?,
        });
    }
    connection.close().await?;
    Ok(tables)
}

async fn steps(connection: &mut PgConnection, job: i64) -> Result<Vec<AgentStep>> {
    let rows = sqlx::query(
        "-- pgagent_steps
         select s.jstid::int8 as id, s.jstname, s.jstenabled, s.jstkind = 's' as is_sql, s.jstcode,
             nullif(s.jstdbname::text, '') as database,
             s.jstonerror::text as on_error
         from pgagent.pga_jobstep s
         where s.jstjobid = $1
         order by s.jstname, s.jstid",
    )
    .bind(job)
    .fetch_all(connection)
    .await?;
    let step = |row: &sqlx::postgres::PgRow| {
        Ok(AgentStep {
            id: row.try_get("id")?,
            name: row.try_get("jstname")?,
            enabled: row.try_get("jstenabled")?,
            is_sql: row.try_get("is_sql")?,
            code: row.try_get("jstcode")?,
            database: row.try_get("database")?,
            on_error: row.try_get("on_error")?,
        })
    };
    rows.iter().map(step).collect()
}

async fn schedules(connection: &mut PgConnection, job: i64) -> Result<Vec<AgentSchedule>> {
    let rows = sqlx::query(
        "-- pgagent_schedules
         select s.jscid::int8 as id, s.jscname, s.jscenabled,
             case when isfinite(s.jscstart)
                 then floor(extract(epoch from s.jscstart))::int8
                 else case when s.jscstart > now() then 253402300799 else 0 end::int8
                 end as starts,
             case when isfinite(s.jscend)
                 then floor(extract(epoch from s.jscend))::int8 end as ends,
             s.jscminutes, s.jschours, s.jscweekdays, s.jscmonthdays, s.jscmonths
         from pgagent.pga_schedule s
         where s.jscjobid = $1
         order by s.jscid",
    )
    .bind(job)
    .fetch_all(&mut *connection)
    .await?;
    let mut schedules = Vec::new();
    for row in rows {
        let id: i64 = row.try_get("id")?;
        schedules.push(AgentSchedule {
            id,
            name: row.try_get("jscname")?,
            enabled: row.try_get("jscenabled")?,
            start: row.try_get("starts")?,
            end: row.try_get("ends")?,
            sets: [
                row.try_get("jscminutes")?,
                row.try_get("jschours")?,
                row.try_get("jscweekdays")?,
                row.try_get("jscmonthdays")?,
                row.try_get("jscmonths")?,
            ],
            exceptions: exceptions(connection, id).await?,
        });
    }
    Ok(schedules)
}

async fn exceptions(
    connection: &mut PgConnection,
    schedule: i64,
) -> Result<Vec<(i64, Option<String>, Option<String>)>> {
    let rows = sqlx::query_as(
        "-- pgagent_exceptions
         select e.jexid::int8, e.jexdate::text, e.jextime::text
         from pgagent.pga_exception e
         where e.jexscid = $1
         order by e.jexid",
    );
    Ok(rows.bind(schedule).fetch_all(connection).await?)
}
