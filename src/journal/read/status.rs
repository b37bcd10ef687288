//! Reads what the status page says about the journal.

use crate::core::{BatchNo, Day, Epoch, Time};
use crate::journal::{
    JournalError, PendingFence, Reader, RetentionPin,
    encoding::{Date, Stamp},
    rows::from_row,
};
use uuid::Uuid;

/// The journal and its replicas.
#[derive(Clone, Debug)]
pub struct JournalStatus {
    pub last_batch: BatchNo,
    pub last_at: Time,
    /// Time of the database.
    pub now: Time,
    pub epoch: Epoch,
    /// The oldest day with tasks.
    pub oldest_day: Option<Day>,
    /// What holds the oldest day, when its retention is over.
    pub pin: Option<RetentionPin>,
    pub retention_days: u32,
    /// Runs of servers seen in the last hour, the youngest first.
    pub replicas: Vec<ReplicaRow>,
    /// Sessions whose end is awaited before what they ran may start again.
    pub pending_fences: Vec<PendingFence>,
}

/// One run of a server.
#[derive(Clone, Debug)]
pub struct ReplicaRow {
    /// Differs for every run.
    pub id: Uuid,
    pub name: String,
    pub owner: bool,
    /// The epoch it knows.
    pub epoch: Epoch,
    pub started_at: Time,
    /// The last heartbeat.
    pub seen_at: Time,
}

struct Row {
    id: Uuid,
    name: String,
    owner: bool,
    epoch: i64,
    started_at: Stamp,
    seen_at: Stamp,
}

from_row!(Row {
    id,
    name,
    owner,
    epoch,
    started_at,
    seen_at
});

impl Reader {
    /// What the status page says about the journal.
    pub async fn status(&self) -> Result<JournalStatus, JournalError> {
        let (no, at, now, epoch, day): (i64, Stamp, Stamp, i64, Option<Date>) = self
            .read(|| {
                sqlx::query_as(
                    "-- status
                     select b.batch_no, b.at, clock_timestamp(), s.epoch, (
                         select min(to_date(right(c.relname, 10), 'YYYY_MM_DD'))
                         from pg_inherits i
                         join pg_class c on c.oid = i.inhrelid
                         where i.inhparent = 'submission'::regclass and pg_relation_size(c.oid) > 0
                     )
                     from batch b
                     join shard s on s.shard = b.shard
                     where b.shard = $1
                     order by b.batch_no desc
                     limit 1",
                )
                .bind(self.shard.0)
                .fetch_one(&self.pool)
            })
            .await?;
        let day = day.map(|day| day.0);
        // A day's tasks are retained a day longer than its events and dropped within an hour.
        let over = |day: &Day| {
            i64::from(day.0) + i64::from(self.retention_days) + 1 < i64::from(now.0.day().0)
        };
        let pin = match day.filter(over) {
            Some(day) => Some(self.pin(day).await?),
            None => None,
        };
        Ok(JournalStatus {
            last_batch: BatchNo(no),
            last_at: at.0,
            now: now.0,
            epoch: Epoch(epoch),
            oldest_day: day,
            pin,
            retention_days: self.retention_days,
            replicas: self.replicas().await?,
            pending_fences: self.pending_fences().await?,
        })
    }

    async fn replicas(&self) -> Result<Vec<ReplicaRow>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as::<_, Row>(
                    "-- replicas
                     select r.replica as id, r.name, r.epoch, r.started_at,
                         (l.owner_id is not distinct from r.replica and l.handover_to is null)
                             as owner,
                         r.seen_at
                     from replica r
                     join lease l on l.shard = r.shard
                     where r.shard = $1 and r.seen_at > now() - interval '1 hour'
                     order by r.started_at desc",
                )
                .bind(self.shard.0)
                .fetch_all(&self.pool)
            })
            .await?;
        let replica = |row: Row| ReplicaRow {
            id: row.id,
            name: row.name,
            owner: row.owner,
            epoch: Epoch(row.epoch),
            started_at: row.started_at.0,
            seen_at: row.seen_at.0,
        };
        Ok(rows.into_iter().map(replica).collect())
    }
}
