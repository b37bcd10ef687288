//! Reads what RetryTask and RetryFailed need: the tasks that ended in a way that can be retried,
//! their bodies, and which of them have a retry.

use super::{bodies::Body, tasks::StoredTask};
use crate::core::{DoneNo, Handle, Order, Outcome, Seq};
use crate::journal::{
    JournalError, Reader,
    append::take_error,
    rows::{completion::item, from_row},
};
use bytes::Bytes;
use std::collections::HashMap;

/// Rows of `completion` read at once when only failures are wanted, all of which have some.
const FAILED_ROWS: i64 = 64;
/// The same when each row has to be looked at.
const ALL_ROWS: i64 = 1_000;

/// A task that ended in a wanted way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTask {
    pub seq: Seq,
    /// The order in force.
    pub order: Option<Order>,
    /// Its event.
    pub done_no: DoneNo,
    pub outcome: Outcome,
}

/// Which ends of tasks are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndFilter {
    /// One of these.
    pub outcomes: Vec<Outcome>,
    /// Of this effective order.
    pub order: Option<Order>,
    /// With one of these error codes; none: with any.
    pub codes: Vec<String>,
}

/// The outcome columns that a search for ends needs.
struct EndRow {
    first_done_no: i64,
    count: i32,
    min_seq: i64,
    seq: Option<Vec<i64>>,
    task_order: Option<Vec<i64>>,
    outcome: Option<Vec<i16>>,
    error_ends: Option<Vec<i32>>,
    errors: Option<Vec<u8>>,
}

from_row!(EndRow {
    first_done_no,
    count,
    min_seq,
    seq,
    task_order,
    outcome,
    error_ends,
    errors
});

/// The columns of an [`EndRow`], of a table called `c`; `$5`: the errors are wanted.
macro_rules! end_columns {
    () => {
        "c.first_done_no, c.count, c.min_seq, c.seq, c.task_order, c.outcome, c.error_ends,
        case when $5 then c.errors end as errors"
    };
}

const FAILED: &str = concat!(
    "-- failed_ends
     select ",
    end_columns!(),
    " from completion c
     where c.shard = $1 and c.handle = $2 and c.first_done_no >= $3 and c.failed > 0
     order by c.first_done_no
     limit $4"
);

const ALL: &str = concat!(
    "-- all_ends
     select ",
    end_columns!(),
    " from completion c
     where c.shard = $1 and c.handle = $2 and c.first_done_no >= $3
     order by c.first_done_no
     limit $4"
);

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

    /// Tasks that ended in a wanted way, by their events, those after `after` and up to `last`: at
    /// most `most`, from a bounded number of rows. And the event to go on after; `None`: these are
    /// all.
    pub async fn ended(
        &self,
        handle: Handle,
        (after, last): (DoneNo, DoneNo),
        filter: &EndFilter,
        most: usize,
    ) -> Result<(Vec<EndedTask>, Option<DoneNo>), JournalError> {
        let failures = filter.outcomes.iter().all(|outcome| outcome.is_failure());
        let limit = if failures { FAILED_ROWS } else { ALL_ROWS };
        let from = self.row_of_event(handle, after).await?;
        let rows: Vec<EndRow> = self
            .read(|| {
                let query = match failures {
                    true => sqlx::query_as(FAILED),
                    false => sqlx::query_as(ALL),
                };
                query
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(from)
                    .bind(limit)
                    .bind(!filter.codes.is_empty())
                    .fetch_all(&self.pool)
            })
            .await?;
        let mut ended = Vec::new();
        for row in &rows {
            for index in 0..row.count as usize {
                let done_no = DoneNo(row.first_done_no + index as i64);
                if done_no > last {
                    return Ok((ended, None));
                }
                if ended.len() == most {
                    return Ok((ended, Some(DoneNo(done_no.0 - 1))));
                }
                if done_no > after {
                    ended.extend(row.wanted(index, filter)?);
                }
            }
        }
        let end = rows.last().filter(|_| rows.len() as i64 == limit);
        let next = end.map(|row| DoneNo(row.first_done_no + i64::from(row.count) - 1));
        Ok((ended, next.filter(|next| *next < last)))
    }

    /// Where the row begins that has the event after `after`.
    async fn row_of_event(&self, handle: Handle, after: DoneNo) -> Result<i64, JournalError> {
        let first: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- row_of_event
                     select first_done_no
                     from completion
                     where shard = $1 and handle = $2 and first_done_no <= $3
                     order by first_done_no desc
                     limit 1",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(after.0.saturating_add(1))
                .fetch_optional(&self.pool)
            })
            .await?;
        Ok(first.unwrap_or_default())
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

impl EndRow {
    /// The task at `index`, if it ended in a wanted way.
    fn wanted(&self, index: usize, filter: &EndFilter) -> Result<Option<EndedTask>, JournalError> {
        let at =
            |values: &Option<Vec<i64>>| values.as_ref().and_then(|all| all.get(index).copied());
        let corrupt = || JournalError::corrupt(format!("completion {}", self.first_done_no));
        let outcome = self.outcome.as_ref().and_then(|all| all.get(index));
        let outcome = Outcome::from_number(outcome.copied().unwrap_or(1)).ok_or_else(corrupt)?;
        let order = at(&self.task_order).filter(|order| *order >= 0).map(Order);
        let is_of_order = filter.order.is_none_or(|wanted| order == Some(wanted));
        if !is_of_order || !filter.outcomes.contains(&outcome) {
            return Ok(None);
        }
        if !filter.codes.is_empty() {
            let error = item(&self.errors, &self.error_ends, index).map_err(|()| corrupt())?;
            let error = error.and_then(take_error);
            if !error.is_some_and(|error| filter.codes.contains(&error.code)) {
                return Ok(None);
            }
        }
        Ok(Some(EndedTask {
            seq: Seq(at(&self.seq).unwrap_or(self.min_seq + index as i64)),
            order,
            done_no: DoneNo(self.first_done_no + index as i64),
            outcome,
        }))
    }
}
