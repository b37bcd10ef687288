//! Reads what RetryTask and RetryFailed need: the tasks that ended in a way that can be retried,
//! their bodies, and which of them have a retry.

use super::{
    bodies::Body,
    ends::{Direction, EndedTask, Look},
    tasks::StoredTask,
};
use crate::core::{DoneNo, Handle, Outcome, Seq, TaskFilter};
use crate::journal::{JournalError, Reader};
use bytes::Bytes;
use std::collections::HashMap;

/// Rows of `completion` looked at by one search.
const MAX_ROWS: i64 = 4_096;

/// The bodies of the tasks `$3`, in that order, until `$4` bytes are exceeded; at least one. A row
/// is unpacked once, however many of its tasks are wanted.
const BODIES: &str = "-- bodies_of
with wanted as materialized (
    select w.seq, w.place, (
        select max(b.first_seq)
        from submission b
        where b.shard = $1 and b.handle = $2 and b.first_seq <= w.seq
    ) as first_seq
    from unnest($3::int8[]) with ordinality as w (seq, place)
), sized as materialized (
    select w.seq, w.place, w.first_seq, s.day, i.at,
        coalesce(s.body_ends[i.at - 1], 0) as body_start,
        s.body_ends[i.at] as body_end,
        coalesce(s.params_ends[i.at - 1], 0) as params_start,
        s.params_ends[i.at] as params_end
    from wanted w
    cross join lateral (
        select s.day, s.first_seq, s.count, s.body_ends, s.params_ends
        from submission s
        where s.shard = $1 and s.handle = $2 and s.first_seq = w.first_seq
        offset 0
    ) s
    cross join lateral (select (w.seq - s.first_seq + 1)::int4 as at) i
    where i.at <= s.count
), fitting as (
    select z.*, sum(z.bytes) over (order by z.place) as total
    from (
        select s.*,
            s.body_end - s.body_start + coalesce(s.params_end - s.params_start, 0) as bytes
        from sized s
    ) z
), rows as (
    select f.first_seq, f.day, array_agg(f.place) as places
    from fitting f
    where f.total <= $4 or f.place = 1
    group by f.first_seq, f.day
)
select f.seq,
    substring(p.bodies from f.body_start + 1 for f.body_end - f.body_start) as body,
    substring(p.params from f.params_start + 1 for f.params_end - f.params_start) as params
from rows r
cross join lateral (
    select s.bodies || ''::bytea as bodies, s.params || ''::bytea as params
    from submission s
    where s.shard = $1 and s.handle = $2 and s.first_seq = r.first_seq and s.day = r.day
    offset 0
) p
join fitting f on f.place = any (r.places)
order by f.place";

impl Reader {
    /// The last task whose submission can be read, or could be before its retention: whatever came
    /// before it is searched with it.
    pub async fn last_submitted(&self, handle: Handle) -> Result<Seq, JournalError> {
        let last: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- last_submitted
                     select greatest(r.highest_seq, s.last)
                     from scheduler r
                     left join lateral (
                         select s.first_seq + s.count - 1 as last
                         from submission s
                         where s.shard = $1 and s.handle = $2
                         order by s.first_seq desc
                         limit 1
                     ) s on true
                     where r.shard = $1 and r.handle = $2",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .fetch_optional(&self.pool)
            })
            .await?;
        Ok(Seq(last.unwrap_or_default()))
    }

    /// The retries of these tasks; those that have none are left out.
    pub async fn retries(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<HashMap<Seq, Seq>, JournalError> {
        if seqs.is_empty() {
            return Ok(HashMap::new());
        }
        let seqs: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
        let rows: Vec<(i64, i64)> = self
            .read(|| {
                sqlx::query_as(
                    "-- retries
                     select a.seq, a.retry
                     from unnest($3::int8[]) as w (seq)
                     cross join lateral (
                         select a.seq, a.retry
                         from attempt a
                         where a.shard = $1
                             and a.handle = $2
                             and a.seq = w.seq
                             and a.attempt = 0
                             and a.kind = 6
                         offset 0
                     ) a",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(&seqs)
                .fetch_all(&self.pool)
            })
            .await?;
        let pairs = rows.into_iter().map(|(of, retry)| (Seq(of), Seq(retry)));
        Ok(pairs.collect())
    }

    /// Notes at those that can be retried whether they have been.
    pub(crate) async fn note_retries(
        &self,
        handle: Handle,
        tasks: &mut [StoredTask],
    ) -> Result<(), JournalError> {
        let is_retriable = |task: &&StoredTask| {
            let done = task.done.as_ref();
            done.is_some_and(|(_, done)| done.outcome != Outcome::Succeeded)
        };
        let retriable = tasks.iter().filter(is_retriable);
        let seqs: Vec<Seq> = retriable.map(|task| task.seq).collect();
        let retries = self.retries(handle, &seqs).await?;
        for task in tasks {
            task.retried_as = retries.get(&task.seq).copied();
        }
        Ok(())
    }

    /// Tasks that ended as the filter asks, by their events, those after `after` and up to `last`:
    /// at most `most`, from a bounded number of rows. And the event to go on after; `None`: these
    /// are all. What the tasks were submitted with is not looked at.
    pub async fn ended(
        &self,
        handle: Handle,
        (after, last): (DoneNo, DoneNo),
        filter: &TaskFilter,
        most: usize,
    ) -> Result<(Vec<EndedTask>, Option<DoneNo>), JournalError> {
        let look = Look {
            handle,
            filter,
            seqs: 1..i64::MAX,
            done_nos: after.0.saturating_add(1)..last.0.saturating_add(1),
            direction: Direction::Forward,
            rows: MAX_ROWS,
        };
        let found = self.ends(&look, most).await?;
        Ok((found.ends, found.next.filter(|next| *next < last)))
    }

    /// The bodies of these tasks, in this order, until about `max_bytes` have been read; at least
    /// one, unless its row is gone.
    pub async fn bodies_of(
        &self,
        handle: Handle,
        seqs: &[Seq],
        max_bytes: usize,
    ) -> Result<Vec<Body>, JournalError> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
        let rows: Vec<(i64, Vec<u8>, Option<Vec<u8>>)> = self
            .read(|| {
                sqlx::query_as(BODIES)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(&seqs)
                    .bind(max_bytes as i64)
                    .fetch_all(&self.pool)
            })
            .await?;
        let body = |(seq, body, params): (i64, Vec<u8>, Option<Vec<u8>>)| Body {
            seq: Seq(seq),
            body: body.into(),
            params: params.filter(|params| !params.is_empty()).map(Bytes::from),
        };
        Ok(rows.into_iter().map(body).collect())
    }
}
