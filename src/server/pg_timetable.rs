//! Reads the tables of pg_timetable, from its version 4 on, in somebody's database.

use super::{login_zone, unreached::Unreached};
use crate::database_url::options_of;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use sqlx::{Connection, PgConnection, Row, postgres::PgRow};

/// The chains of pg_timetable.
pub(crate) struct Timetable {
    /// By which its schedules go: that of the login.
    pub time_zone: String,
    pub chains: Vec<Chain>,
}

/// A row of `timetable.chain`.
pub(crate) struct Chain {
    pub id: i64,
    pub name: String,
    /// As it is written; `None`: each minute.
    pub run_at: Option<String>,
    /// Of `@every` and `@after`: seconds.
    pub every: Option<f64>,
    pub max_instances: Option<i64>,
    /// In milliseconds; 0: none.
    pub timeout: i64,
    pub live: bool,
    pub self_destruct: bool,
    pub exclusive: bool,
    /// The only client that runs it.
    pub client: Option<String>,
    /// What runs when it fails.
    pub on_error: Option<String>,
    /// In the order in which they run.
    pub tasks: Vec<ChainTask>,
}

/// A row of `timetable.task`.
#[derive(Deserialize)]
pub(crate) struct ChainTask {
    pub id: i64,
    pub kind: String,
    pub command: String,
    pub run_as: Option<String>,
    /// It has a connection string of its own, which is not read, since it may have a password.
    pub connects: bool,
    pub ignore_error: bool,
    /// In milliseconds; 0: none.
    pub timeout: i64,
    /// It runs beside the transaction of its chain.
    pub autonomous: bool,
    /// It runs once for each, or once if there are none.
    pub parameters: Vec<Value>,
}

/// Reads all chains, in the sequence of their numbers.
pub(crate) async fn read(url: &str) -> Result<Timetable> {
    let mut connection = PgConnection::connect_with(&options_of(url)?)
        .await
        .context(Unreached)?;
    // Columns that some versions lack are taken from the row as JSON.
    let rows = sqlx::query(
        "-- pg_timetable_chains
         select c.chain_id::int8 as id, c.chain_name, c.run_at::text as run_at,
             case when c.run_at ~ '^@(every|after)'
                 then extract(epoch from substr(c.run_at, 7)::interval)::float8 end as every,
             c.max_instances::int8 as max_instances,
             coalesce((to_jsonb(c) ->> 'timeout')::int8, 0) as timeout,
             coalesce(c.live, false) as live,
             coalesce(c.self_destruct, false) as self_destruct,
             coalesce(c.exclusive_execution, false) as exclusive, c.client_name,
             to_jsonb(c) ->> 'on_error' as on_error,
             (select coalesce(jsonb_agg(jsonb_build_object(
                     'id', t.task_id, 'kind', t.kind::text, 'command', t.command,
                     'run_as', t.run_as, 'connects', coalesce(t.database_connection, '') <> '',
                     'ignore_error', coalesce(t.ignore_error, false),
                     'timeout', coalesce((to_jsonb(t) ->> 'timeout')::int8, 0),
                     'autonomous', coalesce((to_jsonb(t) ->> 'autonomous')::bool, false),
                     'parameters', (
                         select coalesce(jsonb_agg(p.value order by p.order_id), '[]')
                         from timetable.parameter p
                         where p.task_id = t.task_id
                     )) order by t.task_order, t.task_id), '[]')
              from timetable.task t
              where t.chain_id = c.chain_id)::text as tasks
         from timetable.chain c
         order by c.chain_id",
    )
    .fetch_all(&mut connection)
    .await
    .context("is pg_timetable there, from its version 4 on, and may the login read its tables?")?;
    let time_zone = login_zone::of(&mut connection).await?;
    let chains: Result<Vec<Chain>> = rows.iter().map(chain).collect();
    connection.close().await?;
    Ok(Timetable {
        time_zone,
        chains: chains?,
    })
}

fn chain(row: &PgRow) -> Result<Chain> {
    let (id, tasks): (i64, String) = (row.try_get("id")?, row.try_get("tasks")?);
    Ok(Chain {
        id,
        name: row.try_get("chain_name")?,
        run_at: row.try_get("run_at")?,
        every: row.try_get("every")?,
        max_instances: row.try_get("max_instances")?,
        timeout: row.try_get("timeout")?,
        live: row.try_get("live")?,
        self_destruct: row.try_get("self_destruct")?,
        exclusive: row.try_get("exclusive")?,
        client: row.try_get("client_name")?,
        on_error: row.try_get("on_error")?,
        tasks: serde_json::from_str(&tasks)
            .with_context(|| format!("a task of chain {id} makes no sense"))?,
    })
}
