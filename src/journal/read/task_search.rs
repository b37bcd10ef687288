//! Where to look for the tasks that a caller asks for: which index leads to few rows, and between
//! which numbers they lie. Numbers of tasks and events rise with time, so a time is found by
//! halving; no index is written for it.

use crate::core::{Handle, Order, Seq, TaskFilter, Time};
use crate::journal::{
    JournalError, Reader,
    encoding::Stamp,
    rows::label::{self, ANY},
};
use bytes::Bytes;
use std::{ops::Range, time::Duration};

/// Rows of a label or an order counted: with as many it is a common one.
const COMMON: i64 = 1_000;
/// Numbers asked for in one round trip while a time is looked for.
const NUMBERS: i64 = 7;
/// Ends become known in any order within this time. What became known later may be missed by a
/// search for the time of the end: its executor was cut off.
const LATE: Duration = Duration::from_secs(60);

/// A search for tasks of one scheduler.
#[derive(Clone, Debug)]
pub struct TaskSearch {
    pub(super) handle: Handle,
    pub(super) filter: TaskFilter,
    pub(super) rows: TaskRows,
    /// Tasks submitted at the times asked for have such numbers.
    pub(super) seqs: Range<i64>,
    /// Events of the times asked for have such numbers.
    pub(super) done_nos: Range<i64>,
}

/// In which rows of `submission` the tasks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskRows {
    All,
    OfOrder {
        order: Order,
        /// Its rows are few.
        few: bool,
    },
    /// This label is the rarest of those asked for.
    Labelled {
        label: Bytes,
        /// Its rows are few.
        few: bool,
    },
}

impl TaskSearch {
    /// Whose tasks.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// What to look for.
    pub fn filter(&self) -> &TaskFilter {
        &self.filter
    }

    /// No task has a lower number.
    pub fn first_seq(&self) -> Seq {
        Seq(self.seqs.start)
    }

    /// All tasks have lower numbers.
    pub fn below_seq(&self) -> Seq {
        Seq(self.seqs.end)
    }

    /// A label leads to few tasks.
    pub fn has_rare_label(&self) -> bool {
        matches!(self.rows, TaskRows::Labelled { few: true, .. })
    }

    /// A label or an order leads to few rows.
    pub(super) fn leads_to_few(&self) -> bool {
        match self.rows {
            TaskRows::All => false,
            TaskRows::OfOrder { few, .. } | TaskRows::Labelled { few, .. } => few,
        }
    }
}

impl Reader {
    /// Finds out where to look for the tasks of a filter.
    pub async fn search(
        &self,
        handle: Handle,
        filter: TaskFilter,
    ) -> Result<TaskSearch, JournalError> {
        let mut rarest = None;
        for (key, value) in &filter.labels {
            let label = label::of(key, value);
            let rows = self.rows_of_label(handle, &label).await?;
            if rarest.as_ref().is_none_or(|(fewest, _)| rows < *fewest) {
                rarest = Some((rows, label));
            }
        }
        let rows = match (rarest, filter.order) {
            (Some((rows, label)), order) if rows < COMMON || order.is_none() => {
                let few = rows < COMMON;
                TaskRows::Labelled { label, few }
            }
            (_, Some(order)) => {
                let few = self.rows_of_order(handle, order).await? < COMMON;
                TaskRows::OfOrder { order, few }
            }
            (_, None) => TaskRows::All,
        };
        let mut seqs = 1..i64::MAX;
        if let Some(from) = filter.submitted.from {
            seqs.start = self.submissions_at(handle, from).await?.start.max(1);
        }
        if let Some(before) = filter.submitted.before {
            seqs.end = self.submissions_at(handle, before).await?.end;
        }
        let mut done_nos = 1..i64::MAX;
        // No task has ended before it was submitted.
        let mut since = filter.ended.from.max(filter.submitted.from);
        if filter.asks_for_ends() {
            since = since.max(self.first_submitted(handle, &rows).await?);
        }
        if let Some(from) = since.filter(|_| filter.asks_for_ends()) {
            done_nos.start = self.ends_at(handle, from - LATE).await?.start.max(1);
        }
        if let Some(before) = filter.ended.before {
            done_nos.end = self.ends_at(handle, before + LATE).await?.end;
        }
        Ok(TaskSearch {
            handle,
            filter,
            rows,
            seqs,
            done_nos,
        })
    }

    /// Tasks of these rows were submitted then or later; `None`: at any time.
    async fn first_submitted(
        &self,
        handle: Handle,
        rows: &TaskRows,
    ) -> Result<Option<Time>, JournalError> {
        let TaskRows::Labelled { label, few: false } = rows else {
            return Ok(None);
        };
        let first: Option<Stamp> = self
            .read(|| {
                sqlx::query_scalar(FIRST_LABELLED)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(vec![label.as_ref(), ANY])
                    .fetch_optional(&self.pool)
            })
            .await?;
        Ok(first.map(|stamp| stamp.0))
    }

    /// Rows that have a label, counted up to [`COMMON`].
    async fn rows_of_label(&self, handle: Handle, label: &[u8]) -> Result<i64, JournalError> {
        self.read(|| {
            sqlx::query_scalar(ROWS_OF_LABEL)
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(vec![label, ANY])
                .bind(COMMON)
                .fetch_one(&self.pool)
        })
        .await
    }

    /// Rows that may have tasks of an order, counted up to [`COMMON`].
    async fn rows_of_order(&self, handle: Handle, order: Order) -> Result<i64, JournalError> {
        self.read(|| {
            sqlx::query_scalar(ROWS_OF_ORDER)
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(order.0)
                .bind(COMMON)
                .fetch_one(&self.pool)
        })
        .await
    }

    /// The last row submitted before `at` (0: none), and the first submitted then or later.
    async fn submissions_at(&self, handle: Handle, at: Time) -> Result<Range<i64>, JournalError> {
        let mut halving = Halving::of(at);
        while let Some(numbers) = halving.numbers() {
            let rows = self
                .read(|| {
                    sqlx::query_as(SUBMISSIONS_AT)
                        .bind(self.shard.0)
                        .bind(handle.uuid())
                        .bind(&numbers)
                        .fetch_all(&self.pool)
                })
                .await?;
            halving.learn(&numbers, &rows);
        }
        Ok(halving.before..halving.since)
    }

    /// The last row of events that ended before `at` (0: none), and the first that did not. One
    /// that became known late does not mislead: the latest of some neighbours counts.
    async fn ends_at(&self, handle: Handle, at: Time) -> Result<Range<i64>, JournalError> {
        let mut halving = Halving::of(at);
        while let Some(numbers) = halving.numbers() {
            let rows = self
                .read(|| {
                    sqlx::query_as(ENDS_AT)
                        .bind(self.shard.0)
                        .bind(handle.uuid())
                        .bind(&numbers)
                        .fetch_all(&self.pool)
                })
                .await?;
            halving.learn(&numbers, &rows);
        }
        Ok(halving.before..halving.since)
    }
}

pub(super) const ROWS_OF_LABEL: &str = "-- rows_of_label
     select count(*)
     from (
         select
         from unnest($3::bytea[]) as w (label)
         cross join lateral (
             select
             from task_label l
             where l.shard = $1 and l.handle = $2 and l.label = w.label
             order by l.first_seq
             limit $4
         ) l
         limit $4
     ) l";

/// When the first row was submitted that may have one of the labels `$3`. A label may stay longer
/// than its row: then the row after it is the first one.
pub(super) const FIRST_LABELLED: &str = "-- first_labelled
     select s.submitted_at
     from submission s
     where s.shard = $1
         and s.handle = $2
         and s.first_seq >= (
             select min(l.first_seq)
             from unnest($3::bytea[]) as w (label)
             cross join lateral (
                 select l.first_seq
                 from task_label l
                 where l.shard = $1 and l.handle = $2 and l.label = w.label
                 order by l.first_seq
                 limit 1
             ) l
         )
     order by s.first_seq
     limit 1";

/// Rows of one order by key, and as many of several orders as there are: which of these have the
/// order no index says. Pairs are compared: when both orders equal `$3`, the planner no longer sees
/// that they equal each other, as the index of rows of one order wants.
pub(super) const ROWS_OF_ORDER: &str = "-- rows_of_order
     select count(*)
     from (
         (
             select
             from submission s
             where s.shard = $1
                 and s.handle = $2
                 and (s.lowest_order, s.first_seq) >= ($3, 0)
                 and (s.lowest_order, s.first_seq) < ($3, 9223372036854775807)
                 and s.lowest_order = s.highest_order
             order by s.lowest_order, s.first_seq
             limit $4
         )
         union all
         (
             select
             from submission s
             where s.shard = $1 and s.handle = $2 and s.lowest_order < s.highest_order
             order by s.first_seq
             limit $4
         )
     ) s";

/// The last rows up to the numbers `$3`, with when they were submitted.
pub(super) const SUBMISSIONS_AT: &str = "-- submissions_at
     select s.first_seq, s.submitted_at
     from unnest($3::int8[]) as w (seq)
     cross join lateral (
         select s.first_seq, s.submitted_at
         from submission s
         where s.shard = $1 and s.handle = $2 and s.first_seq <= w.seq
         order by s.first_seq desc
         limit 1
     ) s
     order by s.first_seq";

/// The last rows up to the numbers `$3`, with the latest end of some neighbours.
pub(super) const ENDS_AT: &str = "-- ends_at
     select c.first_done_no, c.ended_at
     from unnest($3::int8[]) as w (done_no)
     cross join lateral (
         select max(c.first_done_no) as first_done_no, max(c.ended_at) as ended_at
         from (
             select c.first_done_no, c.ended_at
             from completion c
             where c.shard = $1 and c.handle = $2 and c.first_done_no <= w.done_no
             order by c.first_done_no desc
             limit 16
         ) c
     ) c
     where c.first_done_no is not null
     order by c.first_done_no";

/// Finds between which rows a time lies, which rises with their numbers.
struct Halving {
    at: Time,
    /// The last row known to be before that time; 0: none.
    before: i64,
    /// Rows up to this number are.
    known: i64,
    /// The first row known not to be.
    since: i64,
    asked: bool,
}

impl Halving {
    fn of(at: Time) -> Self {
        Halving {
            at,
            before: 0,
            known: 0,
            since: i64::MAX,
            asked: false,
        }
    }

    /// Numbers of which the last rows up to them are asked for, ascending; `None`: it is found.
    fn numbers(&self) -> Option<Vec<i64>> {
        if !self.asked {
            return Some(vec![i64::MAX - 1]);
        }
        let step = ((self.since - self.known) / (NUMBERS + 1)).max(1);
        let numbers = (1..=NUMBERS).map(|steps| self.known.saturating_add(steps * step));
        let numbers: Vec<i64> = numbers.filter(|number| *number < self.since).collect();
        Some(numbers).filter(|numbers| !numbers.is_empty())
    }

    /// Takes in these rows, ascending, with their times.
    fn learn(&mut self, numbers: &[i64], rows: &[(i64, Stamp)]) {
        self.asked = true;
        let below = rows.partition_point(|(_, stamp)| stamp.0 < self.at);
        if let Some(last) = below.checked_sub(1) {
            self.before = self.before.max(rows[last].0);
        }
        self.since = rows.get(below).map_or(self.since, |(first, _)| *first);
        let before_it = numbers.iter().filter(|number| **number < self.since);
        self.known = before_it.fold(self.known, |known, number| known.max(*number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &[(i64, i64)], at: i64) -> Range<i64> {
        let mut halving = Halving::of(Time(at));
        while let Some(numbers) = halving.numbers() {
            let up_to = |number: &i64| {
                let row = rows.iter().rfind(|(first, _)| first <= number);
                row.map(|(first, at)| (*first, Stamp(Time(*at))))
            };
            let found: Vec<_> = numbers.iter().filter_map(up_to).collect();
            halving.learn(&numbers, &found);
        }
        halving.before..halving.since
    }

    #[test]
    fn a_time_lies_between_the_rows_around_it() {
        let rows: Vec<(i64, i64)> = (0..500)
            .map(|row| (1 + row * row, 10 * (row / 3)))
            .collect();
        for at in [0, 1, 9, 10, 11, 800, 801, 1659, 1660, 1661] {
            let before = rows.iter().rfind(|row| row.1 < at).map_or(0, |row| row.0);
            let since = rows.iter().find(|row| row.1 >= at);
            let since = since.map_or(i64::MAX, |row| row.0);
            assert_eq!(found(&rows, at), before..since, "{at}");
        }
        assert_eq!(found(&[], 5), 0..i64::MAX);
    }
}
