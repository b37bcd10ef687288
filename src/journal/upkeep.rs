//! Housekeeping, never on the writer's connection: days are made a week ahead, old batch numbers go.

use super::{JournalError, connect::Duty, wire::Date};
use crate::core::{Day, ShardId};
use jiff::{ToSpan, civil};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;

/// Tables with a partition for each day.
const TABLES: [&str; 3] = ["submission", "completion", "attempt"];
/// Days made ahead.
const DAYS_AHEAD: i32 = 7;
/// Batch rows kept.
const BATCHES_KEPT: i64 = 100_000;
/// How often making days is tried: replicas that do it at the same time get in each other's way.
const TRIES: u32 = 10;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Batch rows deleted by one statement.
const SLICE: i64 = 10_000;

/// Connects for each piece of work.
#[derive(Clone, Debug)]
pub struct Upkeep {
    options: PgConnectOptions,
    shard: ShardId,
}

impl Upkeep {
    pub(super) fn new(options: &PgConnectOptions, shard: ShardId) -> Self {
        Upkeep { options: Duty::Upkeep.options(options), shard }
    }

    /// All of it. To be called every hour.
    pub async fn run(&self) -> Result<(), JournalError> {
        self.ensure_days().await?;
        self.drop_old_batches().await?;
        self.drop_old_replicas().await
    }

    /// Makes the partitions from yesterday to a week ahead that do not exist. A table is made first and then attached,
    /// which does not stall inserts.
    pub async fn ensure_days(&self) -> Result<(), JournalError> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let mut made = make_days(&mut connection).await;
        for _ in 1..TRIES {
            if made.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            made = make_days(&mut connection).await;
        }
        made?;
        Ok(connection.close().await?)
    }

    /// Deletes the rows of old batches in slices; says how many.
    pub async fn drop_old_batches(&self) -> Result<u64, JournalError> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let mut dropped = 0;
        loop {
            let slice = sqlx::query(
                "-- drop_old_batches
                 delete from batch
                 where shard = $1
                     and batch_no < (select max(batch_no) from batch where shard = $1) - $2
                     and batch_no < (select min(batch_no) from batch where shard = $1) + $3",
            )
            .bind(self.shard.0)
            .bind(BATCHES_KEPT)
            .bind(SLICE)
            .execute(&mut connection)
            .await?
            .rows_affected();
            dropped += slice;
            if slice == 0 {
                connection.close().await?;
                return Ok(dropped);
            }
        }
    }

    /// Forgets runs of servers not seen for a day.
    async fn drop_old_replicas(&self) -> Result<(), JournalError> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        sqlx::query(
            "-- drop_old_replicas
             delete from replica
             where shard = $1 and seen_at < now() - interval '1 day'",
        )
        .bind(self.shard.0)
        .execute(&mut connection)
        .await?;
        Ok(connection.close().await?)
    }
}

async fn make_days(connection: &mut PgConnection) -> Result<(), JournalError> {
    let today: Date = sqlx::query_scalar(
        "-- today
         select (now() at time zone 'utc')::date",
    )
    .fetch_one(&mut *connection)
    .await?;
    for table in TABLES {
        let attached = attached(connection, table).await?;
        for ahead in -1..=DAYS_AHEAD {
            let day = Day(today.0.0 + ahead);
            let name = partition(table, day)?;
            if !attached.contains(&name) {
                make_partition(connection, table, &name, day).await?;
            }
        }
    }
    Ok(())
}

async fn attached(connection: &mut PgConnection, table: &str) -> Result<Vec<String>, JournalError> {
    let names = sqlx::query_scalar(
        "-- attached_days
         select c.relname::text
         from pg_inherits i
         join pg_class c on c.oid = i.inhrelid
         where i.inhparent = $1::regclass",
    )
    .bind(table)
    .fetch_all(connection)
    .await?;
    Ok(names)
}

async fn make_partition(connection: &mut PgConnection, table: &str, name: &str, day: Day) -> Result<(), JournalError> {
    let (from, to) = (date(day)?, date(Day(day.0 + 1))?);
    let create = format!("create table if not exists {name} (like {table} including all)");
    let attach = format!("alter table {table} attach partition {name} for values from ('{from}') to ('{to}')");
    connection.execute(AssertSqlSafe(create)).await?;
    connection.execute(AssertSqlSafe(attach)).await?;
    Ok(())
}

/// Name of a day's partition: `submission_2026_11_21`.
fn partition(table: &str, day: Day) -> Result<String, JournalError> {
    Ok(format!("{table}_{}", date(day)?.strftime("%Y_%m_%d")))
}

fn date(day: Day) -> Result<civil::Date, JournalError> {
    civil::date(1970, 1, 1).checked_add(day.0.days()).map_err(|_| JournalError::corrupt(format!("day {}", day.0)))
}
