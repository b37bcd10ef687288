//! What the unfinished tasks of a scheduler wait for, in sums that cost the same however many
//! there are.

use super::Scheduler;
use crate::core::{Counts, Waiting};

impl Scheduler {
    /// What those of `counts` wait for that do not run. A task that waits for several things counts
    /// once: with the one that an operator would look at first.
    pub(crate) fn waits(&self, counts: &Counts) -> Waiting {
        let Counts {
            blocked,
            queued,
            retrying,
            ..
        } = *counts;
        let retry = Waiting {
            retry: retrying,
            ..Waiting::default()
        };
        if self.image.paused {
            return Waiting {
                paused: blocked + queued,
                ..retry
            };
        }
        let halted = self.blocked_by_halt().min(blocked);
        let not_before = self.queue.not_before().min(blocked - halted);
        let (slot, max_parallelism) = match self.room() {
            0 => (0, queued),
            _ => (queued, 0),
        };
        Waiting {
            slot,
            max_parallelism,
            order: blocked - halted - not_before,
            not_before,
            halted,
            ..retry
        }
    }
}

impl Waiting {
    /// Takes in that one scheduler has `new` instead of `old`.
    pub(crate) fn replace(&mut self, old: &Waiting, new: &Waiting) {
        self.slot += new.slot - old.slot;
        self.max_parallelism += new.max_parallelism - old.max_parallelism;
        self.order += new.order - old.order;
        self.not_before += new.not_before - old.not_before;
        self.retry += new.retry - old.retry;
        self.paused += new.paused - old.paused;
        self.halted += new.halted - old.halted;
    }
}

#[cfg(test)]
mod tests {
    use crate::core::{
        Verb, Waiting,
        tests::world::{World, free, order, plain},
    };

    #[test]
    fn each_waiting_task_counts_with_one_reason() {
        let mut w = World::new(0);
        let s = w.open(plain);
        w.submit(s, [free(), free(), order(1), order(2)]);
        let waits = w.status().waiting;
        assert_eq!((waits.slot, waits.order), (3, 1), "{waits:?}");
        w.call(s, Verb::Pause);
        let waits = w.status().waiting;
        let paused = Waiting {
            paused: 4,
            ..Waiting::default()
        };
        assert_eq!(waits, paused);
    }
}
