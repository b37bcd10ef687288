//! Looks for events by how their tasks ended, from the last one backwards or from the first one
//! forwards. Rows are looked through by what they say of all their events, and only those that may
//! hold what is asked for are unpacked. Rows of events that did not succeed have an index; the
//! others are looked at one after the other.

use crate::core::{DoneNo, Handle, Order, Outcome, Seq, TaskFilter};
use crate::journal::{
    JournalError, Reader,
    rows::ends::{EndsRow, ends_columns},
};
use std::ops::Range;

/// Rows unpacked at a time: few first, because a row may have thousands of events.
const UNPACKED_AT_ONCE: std::ops::RangeInclusive<usize> = 2..=1_024;

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

impl Reader {
    /// At most `most` events (at least one), of a bounded number of rows.
    pub(super) async fn ends(&self, look: &Look<'_>, most: usize) -> Result<Found, JournalError> {
        let looked = self.look(look).await?;
        let mut next = match look.direction {
            Direction::Back => looked.lowest,
            Direction::Forward => looked.highest,
        };
        next = next.filter(|_| looked.rows == look.rows);
        let (hits, left_out) = looked.into_hits(look.direction);
        if left_out {
            next = hits.last().copied();
        }
        let (mut ends, mut unpacked) = (Vec::new(), 0);
        let (fewest, most_rows) = UNPACKED_AT_ONCE.into_inner();
        let mut step = (most / 64).clamp(fewest, most_rows);
        while unpacked < hits.len() {
            let until = hits.len().min(unpacked + step);
            let hits = &hits[unpacked..until];
            for row in self.ends_of(look.handle, hits, look.filter).await? {
                if left_out && look.direction == Direction::Forward {
                    next = Some(row.done_no(row.len() - 1).0);
                }
                if !look.take(&row, most, &mut ends)? {
                    let next = ends.last().map(|last| last.done_no);
                    return Ok(Found { ends, next });
                }
            }
            (unpacked, step) = (until, (step * 4).min(most_rows));
        }
        Ok(Found {
            ends,
            next: next.map(DoneNo),
        })
    }

    /// Where the row begins that has an event.
    pub(super) async fn row_of_event(
        &self,
        handle: Handle,
        done_no: i64,
    ) -> Result<i64, JournalError> {
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
    /// Adds the events of a row that are looked for; false: there is one more than `most`.
    fn take(
        &self,
        row: &EndsRow,
        most: usize,
        ends: &mut Vec<EndedTask>,
    ) -> Result<bool, JournalError> {
        for place in 0..row.len() {
            let index = match self.direction {
                Direction::Back => row.len() - 1 - place,
                Direction::Forward => place,
            };
            if !self.admits(row, index)? {
                continue;
            }
            if ends.len() == most {
                return Ok(false);
            }
            ends.push(EndedTask::of(row, index)?);
        }
        Ok(true)
    }

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
