//! Adds or removes one partition without ever stalling the writer.
//!
//! A table is created first and then attached. It is removed by `detach … concurrently`, whose
//! locks wait behind open readers without blocking others; a plain create or drop behind an open
//! reader was measured to stall every insert. Statements are built from our own names and numbers
//! only.

use crate::journal::{JournalError, bounded_connection::BoundedConnection, rows::from_row};
use sqlx::{AssertSqlSafe, Executor};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub name: String,
    /// A detach was begun and not finished.
    pub pending: bool,
}

from_row!(Partition { name, pending });

/// The partitions of `table`, by name.
pub(crate) async fn attached(
    connection: &mut BoundedConnection,
    table: &str,
) -> Result<Vec<Partition>, JournalError> {
    let partitions = sqlx::query_as(
        "-- attached_partitions
         select c.relname::text as name, i.inhdetachpending as pending
         from pg_inherits i
         join pg_class c on c.oid = i.inhrelid
         where i.inhparent = $1::regclass
         order by c.relname",
    )
    .bind(table)
    .fetch_all(connection)
    .await?;
    Ok(partitions)
}

/// Makes a table like `table` and attaches it for values from `from` up to but excluding `to`.
pub(crate) async fn make(
    connection: &mut BoundedConnection,
    table: &str,
    name: &str,
    from: &str,
    to: &str,
) -> Result<(), JournalError> {
    let create = format!("create table if not exists {name} (like {table} including all)");
    let attach = format!(
        "alter table {table} attach partition {name} for values from ('{from}') to ('{to}')"
    );
    connection.execute(AssertSqlSafe(create)).await?;
    connection.execute(AssertSqlSafe(attach)).await?;
    Ok(())
}

/// Detaches a partition and drops it. When that fails half-way, because an open reader holds it
/// beyond the lock timeout, the partition is no longer visible, and [`finish`] does the rest later.
pub(crate) async fn remove(
    connection: &mut BoundedConnection,
    table: &str,
    name: &str,
) -> Result<(), JournalError> {
    connection
        .execute(AssertSqlSafe(format!(
            "alter table {table} detach partition {name} concurrently"
        )))
        .await?;
    discard(connection, name).await
}

/// Finishes pending detaches, and drops detached tables whose names are `old`.
pub(crate) async fn finish(
    connection: &mut BoundedConnection,
    table: &str,
    old: impl Fn(&str) -> bool,
) -> Result<(), JournalError> {
    for partition in attached(connection, table)
        .await?
        .into_iter()
        .filter(|partition| partition.pending)
    {
        let name = partition.name;
        connection
            .execute(AssertSqlSafe(format!(
                "alter table {table} detach partition {name} finalize"
            )))
            .await?;
    }
    let detached: Vec<String> = sqlx::query_scalar(
        "-- detached_partitions
         select c.relname::text
         from pg_class c
         where c.relnamespace = (select relnamespace from pg_class where oid = $1::regclass)
             and c.relkind = 'r'
             and not c.relispartition
             and starts_with(c.relname::text, $1 || '_')",
    )
    .bind(table)
    .fetch_all(&mut *connection)
    .await?;
    for name in detached.into_iter().filter(|name| old(name)) {
        discard(connection, &name).await?;
    }
    Ok(())
}

async fn discard(connection: &mut BoundedConnection, name: &str) -> Result<(), JournalError> {
    connection
        .execute(AssertSqlSafe(format!("drop table {name}")))
        .await?;
    Ok(())
}
