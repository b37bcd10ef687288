//! Bytes of the bodies of a scheduler's unfinished tasks, for the quota. It never sees a body:
//! tasks of about one size that were submitted one after the other are one entry, so it costs an
//! element per change of size, not per task.

use crate::core::Seq;
use std::collections::BTreeMap;

/// A task counts in whole blocks of so many bytes.
const BLOCK: usize = 1 << 10;

/// Unfinished tasks by size: each entry counts those from its number up to the next entry's.
#[derive(Debug, Default)]
pub(crate) struct Sizes(BTreeMap<Seq, Alike>);

#[derive(Debug)]
struct Alike {
    unfinished: u32,
    blocks: u32,
}

/// Blocks of 1 KiB that each of `tasks` tasks of a call counts for, at least one: the average,
/// rounded up.
pub fn blocks(bytes: usize, tasks: usize) -> u32 {
    bytes.div_ceil(tasks.max(1)).div_ceil(BLOCK).max(1) as u32
}

/// Bytes that so many tasks of so many blocks count for.
pub(crate) fn bytes(tasks: u32, blocks: u32) -> i64 {
    i64::from(tasks) * i64::from(blocks) * BLOCK as i64
}

impl Sizes {
    /// Counts tasks from `first` on, which come after all those counted so far. Returns their
    /// bytes.
    pub(crate) fn add(&mut self, first: Seq, tasks: u32, blocks: u32) -> i64 {
        match self.0.last_entry() {
            Some(mut last) if last.get().blocks == blocks => last.get_mut().unfinished += tasks,
            _ => drop(self.0.insert(
                first,
                Alike {
                    unfinished: tasks,
                    blocks,
                },
            )),
        }
        bytes(tasks, blocks)
    }

    /// The unfinished tasks `first..=last` have ended. Returns their bytes.
    pub(crate) fn remove(&mut self, first: Seq, last: Seq) -> i64 {
        let mut freed = 0;
        let mut last = last;
        while last >= first
            && let Some((from, alike)) = self.0.range_mut(..=last).next_back()
        {
            let from = *from;
            let tasks = (last.0 - from.max(first).0 + 1) as u32;
            freed += bytes(tasks, alike.blocks);
            alike.unfinished -= tasks;
            if alike.unfinished == 0 {
                self.0.remove(&from);
            }
            last = Seq(from.0 - 1);
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_given_back_whatever_ends_first() {
        let mut sizes = Sizes::default();
        let added = sizes.add(Seq(1), 10, 1) + sizes.add(Seq(11), 5, 3) + sizes.add(Seq(16), 5, 1);
        assert_eq!(added, (15 + 15) << 10);
        assert_eq!(sizes.remove(Seq(9), Seq(17)), (2 + 15 + 2) << 10);
        // The second size is gone: tasks like the last ones go with them.
        assert_eq!(sizes.add(Seq(21), 1, 1), 1 << 10);
        let rest: i64 = [(18, 21), (1, 8)]
            .map(|(first, last)| sizes.remove(Seq(first), Seq(last)))
            .iter()
            .sum();
        assert_eq!(rest, 12 << 10);
        assert!(sizes.0.is_empty());
    }

    #[test]
    fn tasks_of_one_size_are_one_entry() {
        let mut sizes = Sizes::default();
        for seq in 1..=1000 {
            sizes.add(Seq(seq), 1, blocks(500, 1));
        }
        assert_eq!(sizes.0.len(), 1);
    }

    #[test]
    fn a_task_counts_in_whole_kibibytes() {
        assert_eq!(
            [
                blocks(0, 1),
                blocks(1024, 1),
                blocks(1025, 1),
                blocks(3000, 2)
            ],
            [1, 1, 2, 2]
        );
    }
}
