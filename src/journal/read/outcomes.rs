//! Reads how single tasks ended.
//!
//! A row of `completion` has the outcomes of consecutive events, whose tasks are mostly neighbours.
//! The narrow row that holds a task ends little after it, so an index on where rows end finds it;
//! the few wide rows have an index of their own.

use super::tasks::StoredTask;
use crate::core::{Done, DoneNo, Handle, Seq};
use crate::journal::{
    JournalError, Reader,
    rows::completion::{CompletionRow, completion_columns, narrow_row},
};
use std::collections::{BTreeMap, HashSet};

/// Tasks at most this far apart are looked up together.
const NEAR: i64 = 1_000;

/// A row is narrow and holds tasks from `w.first` to `w.last`, or neighbours of these.
macro_rules! is_near {
    () => {
        concat!(
            "c.max_seq >= w.first
             and c.max_seq <= w.last + ",
            narrow_row!(),
            "
             and c.min_seq <= w.last
             and c.max_seq - c.min_seq <= ",
            narrow_row!()
        )
    };
}

/// A row is wide and holds one of the tasks `$5`. Its numbers are unpacked once and compared by a
/// hash: `is true` keeps the planner from making of it a join that unpacks them for each task.
macro_rules! is_wide {
    () => {
        concat!(
            "c.max_seq - c.min_seq > ",
            narrow_row!(),
            "
             and c.min_seq <= $5[cardinality($5)]
             and c.max_seq >= $5[1]
             and case
                 when c.seq is null then exists (
                     select
                     from unnest($5::int8[]) as w (seq)
                     where w.seq between c.min_seq and c.max_seq
                 )
                 else exists (
                     select
                     from (select unnest(c.seq) as seq) s
                     where (s.seq in (select unnest($5::int8[]))) is true
                 )
             end"
        )
    };
}

/// The rows that hold one of the tasks `$5`, whose neighbourhoods are `$3` to `$4`.
const OUTCOMES: &str = concat!(
    "-- outcomes
     select c.*
     from unnest($3::int8[], $4::int8[]) as w (first, last)
     cross join lateral (
         select ",
    completion_columns!(),
    " from completion c
         where c.shard = $1 and c.handle = $2 and ",
    is_near!(),
    "
         offset 0
     ) c
     union all
     select ",
    completion_columns!(),
    " from completion c
     where c.shard = $1 and c.handle = $2 and ",
    is_wide!()
);

/// The first events of the same rows.
const ROWS_OF_TASKS: &str = concat!(
    "-- rows_of_tasks
     select c.first_done_no
     from unnest($3::int8[], $4::int8[]) as w (first, last)
     cross join lateral (
         select c.first_done_no
         from completion c
         where c.shard = $1 and c.handle = $2 and ",
    is_near!(),
    "
         offset 0
     ) c
     union
     select c.first_done_no
     from completion c
     where c.shard = $1 and c.handle = $2 and ",
    is_wide!()
);

/// Tasks to look up, and their neighbourhoods.
struct Places {
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    ascending: Vec<i64>,
}

impl Places {
    fn of(seqs: &[Seq]) -> Self {
        let mut ascending: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
        ascending.sort_unstable();
        ascending.dedup();
        let (firsts, lasts) = neighbours(&ascending).unzip();
        Places {
            firsts,
            lasts,
            ascending,
        }
    }
}

impl Reader {
    /// How these tasks ended, with the number of the event; those that have not are left out.
    pub async fn outcomes(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<BTreeMap<Seq, (DoneNo, Done)>, JournalError> {
        let wanted: HashSet<Seq> = seqs.iter().copied().collect();
        let mut outcomes = BTreeMap::new();
        for row in self.rows_with(handle, seqs, true).await? {
            for index in (0..row.len()).filter(|index| wanted.contains(&row.seq(*index))) {
                outcomes.insert(row.seq(index), (row.done_no(index), row.done(index)?));
            }
        }
        Ok(outcomes)
    }

    /// Notes at those of these tasks that have ended how they did, without the rows of results.
    pub(crate) async fn note_outcomes<'a>(
        &self,
        handle: Handle,
        tasks: impl IntoIterator<Item = &'a mut StoredTask>,
    ) -> Result<(), JournalError> {
        let by_seq = tasks.into_iter().map(|task| (task.seq, task));
        let mut by_seq: BTreeMap<Seq, &mut StoredTask> = by_seq.collect();
        let seqs: Vec<Seq> = by_seq.keys().copied().collect();
        for row in self.rows_with(handle, &seqs, false).await? {
            for index in 0..row.len() {
                if let Some(task) = by_seq.get_mut(&row.seq(index)) {
                    task.done = Some((row.done_no(index), row.done(index)?));
                    task.rows_omitted = row.lacks_rows(index);
                }
            }
        }
        Ok(())
    }

    /// The rows that hold one of these tasks, perhaps with the rows of results.
    async fn rows_with(
        &self,
        handle: Handle,
        seqs: &[Seq],
        results: bool,
    ) -> Result<Vec<CompletionRow>, JournalError> {
        let places = Places::of(seqs);
        self.read(|| {
            sqlx::query_as::<_, CompletionRow>(OUTCOMES)
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(&places.firsts)
                .bind(&places.lasts)
                .bind(&places.ascending)
                .bind(results)
                .fetch_all(&self.pool)
        })
        .await
    }

    /// The first events of the rows that hold one of these tasks.
    pub(super) async fn rows_of_tasks(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<i64>, JournalError> {
        let places = Places::of(seqs);
        self.read(|| {
            sqlx::query_scalar(ROWS_OF_TASKS)
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(&places.firsts)
                .bind(&places.lasts)
                .bind(&places.ascending)
                .fetch_all(&self.pool)
        })
        .await
    }
}

/// The first and last of each range of numbers that are near to each other.
fn neighbours(ascending: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    ascending
        .chunk_by(|one, next| next - one <= NEAR)
        .map(|near| (near[0], near[near.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_looked_for_together() {
        let found: Vec<(i64, i64)> = neighbours(&[1, 2, 500, 9_000, 9_001, 20_000]).collect();
        assert_eq!(found, [(1, 500), (9_000, 9_001), (20_000, 20_000)]);
        assert_eq!(neighbours(&[]).count(), 0);
    }
}
