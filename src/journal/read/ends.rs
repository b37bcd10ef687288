//! Looks for events by how their tasks ended, from the last one backwards or from the first one
//! forwards. Rows are looked through by what they say of all their events, and only those that may
//! hold what is asked for are unpacked. Rows of events that did not succeed have an index; the
//! others are looked at one after the other.

use super::outcome_index;
use crate::core::{DoneNo, Handle, Order, Outcome, Seq, TaskFilter};
use crate::journal::{
    JournalError, Reader,
    encoding::Stamp,
    rows::{
        ends::{EndsRow, ends_columns},
        from_row,
    },
};
use std::ops::Range;

/// Rows unpacked at a time.
const MAX_UNPACKED: usize = 64;

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

/// Which way events are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The last one first.
    Back,
    /// The first one first.
    Forward,
}

/// Which events are looked for, and where.
#[derive(Clone, Debug)]
pub(super) struct Look<'a> {
    pub handle: Handle,
    /// How their tasks ended; what these were submitted with is not looked at.
    pub filter: &'a TaskFilter,
    /// Numbers of their tasks.
    pub seqs: Range<i64>,
    /// Their own numbers.
    pub done_nos: Range<i64>,
    pub direction: Direction,
    /// Rows looked at.
    pub rows: i64,
}

/// What is found.
#[derive(Debug)]
pub(super) struct Found {
    /// In the order of the direction.
    pub ends: Vec<EndedTask>,
    /// Beyond which event to look on; `None`: nowhere.
    pub next: Option<DoneNo>,
}

/// What rows say about all their events.
#[derive(Debug)]
struct Looked {
    rows: i64,
    /// The first event of the first row, and the last one of the last row.
    lowest: Option<i64>,
    highest: Option<i64>,
    /// The rows to unpack.
    hits: Option<Vec<i64>>,
}

from_row!(Looked {
    rows,
    lowest,
    highest,
    hits
});

/// What is asked of rows of `completion` of which `hit` has been found out.
macro_rules! looked {
    () => {
        "count(*) as rows,
            min(c.first_done_no) as lowest,
            max(c.first_done_no + c.count - 1) as highest,
            array_agg(c.first_done_no) filter (where c.hit) as hits"
    };
}

/// Whether a row of `completion` may hold what is asked for.
macro_rules! hit {
    () => {
        "(
            ($6::int2[] is null or c.outcome && $6 or (c.outcome is null and 1 = any ($6)))
            and ($7::int8 is null or $7 = any (c.task_order))
            and c.max_seq >= $8
            and c.min_seq < $9
            and (c.ended is not null or $10::timestamptz is null or c.ended_at >= $10)
            and (c.ended is not null or $11::timestamptz is null or c.ended_at < $11)
        )"
    };
}

/// The expression of the index of outcomes.
macro_rules! outcomes_of_row {
    () => {
        "(2 = any (c.outcome))::int4 + 2 * (3 = any (c.outcome))::int4
            + 4 * (4 = any (c.outcome))::int4 + 8 * (5 = any (c.outcome))::int4"
    };
}

impl Reader {
    /// At most `most` events (at least one), of a bounded number of rows.
    pub(super) async fn ends(&self, look: &Look<'_>, most: usize) -> Result<Found, JournalError> {
        let looked = self.look(look).await?;
        let mut hits = looked.hits.unwrap_or_default();
        hits.sort_unstable();
        let mut next = match look.direction {
            Direction::Back => {
                hits.reverse();
                looked.lowest
            }
            Direction::Forward => looked.highest,
        };
        next = next.filter(|_| looked.rows == look.rows);
        let left_out = hits.len() > MAX_UNPACKED;
        hits.truncate(MAX_UNPACKED);
        let rows = self.ends_of(look.handle, &hits, look.filter).await?;
        if left_out {
            next = hits.last().copied();
        }
        let mut ends: Vec<EndedTask> = Vec::new();
        for row in &rows {
            if left_out && look.direction == Direction::Forward {
                next = Some(row.done_no(row.len() - 1).0);
            }
            for place in 0..row.len() {
                let index = match look.direction {
                    Direction::Back => row.len() - 1 - place,
                    Direction::Forward => place,
                };
                if !look.admits(row, index)? {
                    continue;
                }
                if ends.len() == most {
                    let next = ends.last().map(|last| last.done_no);
                    return Ok(Found { ends, next });
                }
                ends.push(EndedTask::of(row, index)?);
            }
        }
        Ok(Found {
            ends,
            next: next.map(DoneNo),
        })
    }

    /// Looks at the next rows.
    async fn look(&self, look: &Look<'_>) -> Result<Looked, JournalError> {
        let filter = look.filter;
        let wanted: Vec<i16> = filter.outcomes.iter().map(|one| *one as i16).collect();
        let outcomes = Some(&wanted).filter(|wanted| !wanted.is_empty());
        let indexed = outcome_index::values(filter);
        let from = match look.direction {
            Direction::Back => look.done_nos.start,
            Direction::Forward => self.row_of_event(look.handle, look.done_nos.start).await?,
        };
        self.read(|| {
            let query = match (look.direction, &indexed) {
                (Direction::Back, None) => sqlx::query_as(LOOK_BACK),
                (Direction::Back, Some(_)) => sqlx::query_as(LOOK_BACK_BY_OUTCOME),
                (Direction::Forward, None) => sqlx::query_as(LOOK_FORWARD),
                (Direction::Forward, Some(_)) => sqlx::query_as(LOOK_FORWARD_BY_OUTCOME),
            };
            let query = query
                .bind(self.shard.0)
                .bind(look.handle.uuid())
                .bind(look.done_nos.end)
                .bind(from)
                .bind(look.rows)
                .bind(outcomes)
                .bind(filter.order.map(|order| order.0))
                .bind(look.seqs.start)
                .bind(look.seqs.end)
                .bind(filter.ended.from.map(Stamp))
                .bind(filter.ended.before.map(Stamp));
            let query = match &indexed {
                None => query,
                Some(values) => query.bind(values),
            };
            query.fetch_one(&self.pool)
        })
        .await
    }

    /// Where the row begins that has an event.
    async fn row_of_event(&self, handle: Handle, done_no: i64) -> Result<i64, JournalError> {
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
                .bind(done_no)
                .fetch_optional(&self.pool)
            })
            .await?;
        Ok(first.unwrap_or_default())
    }

    /// How the events of these rows ended, in this order; error codes only if the filter asks.
    pub(super) async fn ends_of(
        &self,
        handle: Handle,
        first_done_nos: &[i64],
        filter: &TaskFilter,
    ) -> Result<Vec<EndsRow>, JournalError> {
        self.read(|| {
            sqlx::query_as(ENDS_OF)
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(first_done_nos)
                .bind(!filter.error_codes.is_empty())
                .fetch_all(&self.pool)
        })
        .await
    }
}

impl EndedTask {
    /// The task of the event at `index` of a row.
    pub(super) fn of(row: &EndsRow, index: usize) -> Result<Self, JournalError> {
        Ok(EndedTask {
            seq: row.seq(index),
            order: row.order(index),
            done_no: row.done_no(index),
            outcome: row.outcome(index)?,
        })
    }
}

impl Look<'_> {
    fn admits(&self, row: &EndsRow, index: usize) -> Result<bool, JournalError> {
        Ok(self.done_nos.contains(&row.done_no(index).0)
            && self.seqs.contains(&row.seq(index).0)
            && row.admits(index, self.filter)?)
    }
}

const ENDS_OF: &str = concat!(
    "-- ends_of
     select c.*
     from unnest($3::int8[]) with ordinality as w (first_done_no, place)
     cross join lateral (
         select ",
    ends_columns!(),
    " from completion c
         where c.shard = $1 and c.handle = $2 and c.first_done_no = w.first_done_no
         offset 0
     ) c
     order by w.place"
);

/// Rows in the order of their events, the last one first.
pub(super) const LOOK_BACK: &str = concat!(
    "-- look_back
     select ",
    looked!(),
    " from (
         select c.first_done_no, c.count, ",
    hit!(),
    " as hit
         from completion c
         where c.shard = $1
             and c.handle = $2
             and c.first_done_no < $3
             and c.first_done_no >= $4
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The same, the first one first.
pub(super) const LOOK_FORWARD: &str = concat!(
    "-- look_forward
     select ",
    looked!(),
    " from (
         select c.first_done_no, c.count, ",
    hit!(),
    " as hit
         from completion c
         where c.shard = $1
             and c.handle = $2
             and c.first_done_no < $3
             and c.first_done_no >= $4
         order by c.first_done_no
         limit $5
     ) c"
);

/// Rows that have outcomes other than success, by the index of these, the last one first.
pub(super) const LOOK_BACK_BY_OUTCOME: &str = concat!(
    "-- look_back_by_outcome
     select ",
    looked!(),
    " from (
         select c.*
         from unnest($12::int4[]) as w (outcomes)
         cross join lateral (
             select c.first_done_no, c.count, ",
    hit!(),
    " as hit
             from completion c
             where c.shard = $1
                 and c.handle = $2
                 and c.outcome is not null
                 and ",
    outcomes_of_row!(),
    " = w.outcomes
                 and c.first_done_no < $3
                 and c.first_done_no >= $4
             order by c.first_done_no desc
             limit $5
         ) c
         order by c.first_done_no desc
         limit $5
     ) c"
);

/// The same, the first one first.
pub(super) const LOOK_FORWARD_BY_OUTCOME: &str = concat!(
    "-- look_forward_by_outcome
     select ",
    looked!(),
    " from (
         select c.*
         from unnest($12::int4[]) as w (outcomes)
         cross join lateral (
             select c.first_done_no, c.count, ",
    hit!(),
    " as hit
             from completion c
             where c.shard = $1
                 and c.handle = $2
                 and c.outcome is not null
                 and ",
    outcomes_of_row!(),
    " = w.outcomes
                 and c.first_done_no < $3
                 and c.first_done_no >= $4
             order by c.first_done_no
             limit $5
         ) c
         order by c.first_done_no
         limit $5
     ) c"
);
