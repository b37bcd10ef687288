//! Partitions of `batch`, by ranges of numbers.
//!
//! Some are made ahead of the last batch; those that every shard has left behind are dropped.

use super::{Maintenance, partition};
use crate::core::BatchNo;
use crate::journal::{
    JournalError, bounded_connection::BoundedConnection, connection_limits::Duty,
};

/// Numbers in one partition.
const RANGE: i64 = 1_000_000;
/// Partitions ahead of the last batch: half an hour at full speed.
const AHEAD: i64 = 4;
/// Partitions retained behind that of the last batch.
const BEHIND: i64 = 1;

impl Maintenance {
    /// Makes the ranges ahead of the last batch. Cheap when there is nothing to do.
    pub async fn make_batches(&self) -> Result<(), JournalError> {
        let mut connection = BoundedConnection::open(&self.options, Duty::Batches).await?;
        self.ensure_batches(&mut connection).await?;
        connection.close().await
    }

    /// Drops the ranges that are behind the last batch of every shard. Fails while somebody reads
    /// them; what was begun is finished the next time.
    pub async fn drop_batches(&self) -> Result<(), JournalError> {
        let mut connection = BoundedConnection::open(&self.options, Duty::Batches).await?;
        let every_shard = last_batches(&mut connection).await?;
        let Some(first) = every_shard.iter().min().map(|last| last / RANGE - BEHIND) else {
            return connection.close().await;
        };
        partition::finish(&mut connection, "batch", |name| {
            number(name).is_some_and(|number| number < first)
        })
        .await?;
        let mut attached = partition::attached(&mut connection, "batch").await?;
        attached.sort_by_key(|partition| number(&partition.name));
        for partition in attached {
            if number(&partition.name).is_some_and(|number| number < first) {
                partition::remove(&mut connection, "batch", &partition.name).await?;
            }
        }
        connection.close().await
    }

    /// The first number of the next range. Call [`Maintenance::make_batches`] and
    /// [`Maintenance::drop_batches`] when the last batch reaches it.
    pub fn next_turn(last: BatchNo) -> BatchNo {
        BatchNo((last.0 / RANGE + 1) * RANGE)
    }

    /// Makes the ranges ahead of the last batch.
    pub(in crate::journal) async fn ensure_batches(
        &self,
        connection: &mut BoundedConnection,
    ) -> Result<(), JournalError> {
        let last: Option<i64> = sqlx::query_scalar(
            "-- last_batch_of_shard
             select max(batch_no)
             from batch
             where shard = $1",
        )
        .bind(self.shard.0)
        .fetch_one(&mut *connection)
        .await?;
        let present = last.unwrap_or_default() / RANGE;
        let attached = partition::attached(connection, "batch").await?;
        for range in present..=present + AHEAD {
            let name = format!("batch_{range}");
            if !attached.iter().any(|partition| partition.name == name) {
                let (from, to) = (
                    (range * RANGE).to_string(),
                    ((range + 1) * RANGE).to_string(),
                );
                partition::make(connection, "batch", &name, &from, &to).await?;
            }
        }
        Ok(())
    }
}

/// The last batch of every shard: a range is dropped when no shard needs it.
async fn last_batches(connection: &mut BoundedConnection) -> Result<Vec<i64>, JournalError> {
    let last = sqlx::query_scalar(
        "-- last_batches
         select coalesce((select max(b.batch_no) from batch b where b.shard = s.shard), 0)
         from shard s",
    )
    .fetch_all(connection)
    .await?;
    Ok(last)
}

fn number(name: &str) -> Option<i64> {
    name.strip_prefix("batch_")
        .and_then(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_again_when_a_range_is_full() {
        assert_eq!(
            [0, 999_999, 1_000_000].map(|last| Maintenance::next_turn(BatchNo(last)).0),
            [1_000_000, 1_000_000, 2_000_000]
        );
    }
}
