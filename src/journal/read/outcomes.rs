//! Reads how single tasks ended.
//!
//! A row of `completion` has the outcomes of consecutive events, whose tasks are mostly neighbours.
//! The narrow row that holds a task ends little after it, so an index on where rows end finds it;
//! the few wide rows have an index of their own.

use crate::core::{Done, DoneNo, Handle, Seq};
use crate::journal::{
    JournalError, Reader,
    rows::completion::{CompletionRow, completion_columns, narrow_row},
};
use std::collections::{BTreeMap, HashSet};

/// Tasks at most this far apart are looked up together.
const NEAR: i64 = 1_000;

/// The rows that hold one of the tasks `$5`, whose neighbourhoods are `$3` to `$4`.
const OUTCOMES: &str = concat!(
    "-- outcomes
     select c.*
     from unnest($3::int8[], $4::int8[]) as w (first, last)
     cross join lateral (
         select ",
    completion_columns!(),
    " from completion c
         where c.shard = $1
             and c.handle = $2
             and c.max_seq >= w.first
             and c.max_seq <= w.last + ",
    narrow_row!(),
    "
             and c.min_seq <= w.last
             and c.max_seq - c.min_seq <= ",
    narrow_row!(),
    "
         offset 0
     ) c
     union all
     select ",
    completion_columns!(),
    " from completion c
     where c.shard = $1
         and c.handle = $2
         and c.max_seq - c.min_seq > ",
    narrow_row!(),
    "
         and c.min_seq <= $5[cardinality($5)]
         and c.max_seq >= $5[1]
         and exists (
             select
             from unnest($5::int8[]) as w (seq)
             where w.seq between c.min_seq and c.max_seq
                 and (c.seq is null or w.seq = any (c.seq))
         )"
);

impl Reader {
    /// How these tasks ended, with the number of the event; those that have not are left out.
    pub async fn outcomes(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<BTreeMap<Seq, (DoneNo, Done)>, JournalError> {
        let seqs: HashSet<i64> = seqs.iter().map(|seq| seq.0).collect();
        let mut ascending: Vec<i64> = seqs.iter().copied().collect();
        ascending.sort_unstable();
        let (firsts, lasts): (Vec<i64>, Vec<i64>) = neighbours(&ascending).unzip();
        let rows = self
            .read(|| {
                sqlx::query_as::<_, CompletionRow>(OUTCOMES)
                    .bind(self.shard.0)
                    .bind(handle.uuid())
                    .bind(&firsts)
                    .bind(&lasts)
                    .bind(&ascending)
                    .fetch_all(&self.pool)
            })
            .await?;
        let mut outcomes = BTreeMap::new();
        for row in rows {
            for index in (0..row.len()).filter(|index| seqs.contains(&row.seq(*index).0)) {
                outcomes.insert(row.seq(index), (row.done_no(index), row.done(index)?));
            }
        }
        Ok(outcomes)
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
