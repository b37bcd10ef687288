//! Reads what holds the oldest day beyond its retention, for the status page.

use crate::core::{Day, Handle};
use crate::journal::{JournalError, Reader, encoding::Date};
use uuid::Uuid;

/// What holds a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionPin {
    /// The checkpoint of this scheduler still needs the day's rows: no later one has been written
    /// yet.
    Checkpoint(Handle),
    /// This scheduler has an unfinished task of the day, whose row has not been moved yet.
    Unfinished(Handle),
    /// A session reads the log in a long transaction: the day is dropped after it ends.
    Reader {
        backend_pid: i32,
        /// As far as our role may see it.
        application: String,
    },
    /// Nothing: the next round of maintenance drops it.
    Due,
}

impl Reader {
    /// What holds `day`, whose retention is over.
    pub(crate) async fn pin(&self, day: Day) -> Result<RetentionPin, JournalError> {
        if let Some((backend_pid, application)) = self.pinning_reader().await? {
            return Ok(RetentionPin::Reader {
                backend_pid,
                application: application.unwrap_or_default(),
            });
        }
        let (stale, unfinished) = self.pinning_schedulers(day).await?;
        Ok(match (stale, unfinished) {
            (Some(handle), _) => RetentionPin::Checkpoint(Handle::from_uuid(handle)),
            (None, Some(handle)) => RetentionPin::Unfinished(Handle::from_uuid(handle)),
            (None, None) => RetentionPin::Due,
        })
    }

    /// The oldest transaction of at least a minute that locks a table of the log.
    async fn pinning_reader(&self) -> Result<Option<(i32, Option<String>)>, JournalError> {
        self.read(|| {
            sqlx::query_as(
                "-- pinning_reader
                 select a.pid, a.application_name
                 from pg_locks l
                 join pg_stat_activity a on a.pid = l.pid
                 where l.relation = any (array['submission', 'completion', 'attempt']::regclass[])
                     and l.database = (
                         select oid from pg_database where datname = current_database()
                     )
                     and a.xact_start < now() - interval '1 minute'
                 order by a.xact_start
                 limit 1",
            )
            .fetch_optional(&self.pool)
        })
        .await
    }

    async fn pinning_schedulers(
        &self,
        day: Day,
    ) -> Result<(Option<Uuid>, Option<Uuid>), JournalError> {
        self.read(|| {
            sqlx::query_as(
                "-- pinning_schedulers
                 select (
                     select r.handle
                     from scheduler r
                     where r.shard = $1
                         and r.state <> 3
                         and r.first_day <= $2
                         and (
                             exists (
                                 select
                                 from submission s
                                 where s.shard = $1
                                     and s.handle = r.handle
                                     and s.day = $2
                                     and s.first_seq > r.highest_seq
                             )
                             or exists (
                                 select
                                 from completion c
                                 where c.shard = $1
                                     and c.handle = r.handle
                                     and c.day = $2
                                     and c.first_done_no > r.done_no
                             )
                         )
                     limit 1
                 ), (
                     select r.handle
                     from scheduler r
                     cross join lateral unnest(r.unfinished) as part
                     where r.shard = $1
                         and r.state <> 3
                         and exists (
                             select
                             from submission s
                             where s.shard = $1
                                 and s.handle = r.handle
                                 and s.day = $2
                                 and s.first_seq < upper(part)
                                 and s.first_seq + s.count > lower(part)
                         )
                     limit 1
                 )",
            )
            .bind(self.shard.0)
            .bind(Date(day))
            .fetch_one(&self.pool)
        })
        .await
    }
}
