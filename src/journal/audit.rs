//! The audit: who changed what, and who tried to. Rows are written beside the loop, in groups, and
//! lie in partitions by day that have nothing to do with those of the journal.

use super::{JournalError, encoding::Date, read::schedulers::Reader};
use crate::core::{Day, Time};
use std::sync::Arc;
use uuid::Uuid;

/// A call, and what became of it.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    /// Names the row: one that is written twice is there once.
    pub id: Uuid,
    /// When it was answered.
    pub at: Time,
    /// Who made it; empty: not known.
    pub caller: Arc<str>,
    /// From where.
    pub address: String,
    /// In which namespace; empty: not known.
    pub namespace: Arc<str>,
    /// Service and method.
    pub method: String,
    /// What it was about; empty: it was not read.
    pub object: String,
    /// Why, as the caller says.
    pub reason: String,
    /// `OK`, `UNKNOWN`, or the reason of the error.
    pub outcome: String,
    /// Rows before it that were not kept.
    pub left_out: u32,
}

impl Reader {
    /// Writes rows of calls that `replica` was called for. They may be written already.
    pub async fn write_audit(
        &self,
        replica: &str,
        entries: &[AuditEntry],
    ) -> Result<(), JournalError> {
        let Some(last) = entries.last() else {
            return Ok(());
        };
        let written = self.insert_audit(replica, entries, last.at.day()).await;
        match written {
            Err(error) if error.is_missing_partition() => {
                let day = self.last_audit_day(last.at.day()).await?;
                self.insert_audit(replica, entries, day).await
            }
            written => written,
        }
    }

    async fn insert_audit(
        &self,
        replica: &str,
        entries: &[AuditEntry],
        day: Day,
    ) -> Result<(), JournalError> {
        fn texts<'a>(
            entries: &'a [AuditEntry],
            text: impl Fn(&'a AuditEntry) -> &'a str,
        ) -> Vec<&'a [u8]> {
            entries.iter().map(|entry| text(entry).as_bytes()).collect()
        }
        let ids: Vec<Uuid> = entries.iter().map(|entry| entry.id).collect();
        let times: Vec<i64> = entries.iter().map(|entry| entry.at.0).collect();
        let left_out: Vec<i32> = entries.iter().map(|entry| entry.left_out as i32).collect();
        let rows = (
            texts(entries, |entry| &entry.caller),
            texts(entries, |entry| &entry.address),
            texts(entries, |entry| &entry.namespace),
            texts(entries, |entry| &entry.method),
            texts(entries, |entry| &entry.object),
            texts(entries, |entry| &entry.reason),
            texts(entries, |entry| &entry.outcome),
        );
        self.read(|| {
            sqlx::query(
                "-- write_audit
                 insert into audit (shard, day, id, at, caller, address, namespace, method, object,
                     reason, outcome, replica, left_out)
                 select $1, $2, a.id, to_timestamp(a.at / 1000000.0::float8), a.caller, a.address,
                     a.namespace, a.method, a.object, a.reason, a.outcome, $3, a.left_out
                 from unnest($4::uuid[], $5::int8[], $6::bytea[], $7::bytea[], $8::bytea[],
                     $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::int4[])
                     as a (id, at, caller, address, namespace, method, object, reason, outcome,
                         left_out)
                 on conflict (shard, day, id) do nothing",
            )
            .bind(self.shard.0)
            .bind(Date(day))
            .bind(replica.as_bytes())
            .bind(&ids)
            .bind(&times)
            .bind(&rows.0)
            .bind(&rows.1)
            .bind(&rows.2)
            .bind(&rows.3)
            .bind(&rows.4)
            .bind(&rows.5)
            .bind(&rows.6)
            .bind(&left_out)
            .execute(&self.pool)
        })
        .await
        .map(drop)
    }

    /// Where rows of a day go that has no partition: to the last one before it, else to the first.
    async fn last_audit_day(&self, day: Day) -> Result<Day, JournalError> {
        let days: Vec<Date> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- audit_days
                     select to_date(right(c.relname, 10), 'YYYY_MM_DD') as day
                     from pg_inherits i
                     join pg_class c on c.oid = i.inhrelid
                     where i.inhparent = 'audit'::regclass and not i.inhdetachpending
                     order by day",
                )
                .fetch_all(&self.pool)
            })
            .await?;
        let before = days.iter().rev().find(|known| known.0 <= day);
        Ok(before.or(days.first()).map_or(day, |known| known.0))
    }
}
