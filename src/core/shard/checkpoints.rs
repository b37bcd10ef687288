//! How much finished work a recovery would have to read again, for each scheduler and for the
//! shard; and the checkpoints that keep it bounded.
//!
//! A checkpoint is written only where it pays: it saves several rows at least, and much more than
//! it writes. So schedulers that end each task before the next one do not cost a row more each
//! time, and one with a ragged backlog does not write all its ranges again and again. What a
//! recovery reads of finished work is then at most `Limits::checkpoint_total` in all, besides a few
//! rows for each scheduler in use and a few tasks for each unfinished one. A scheduler that has not
//! been in use for a while is quiesced: its checkpoint says that nothing came later, and recovery
//! does not look.

use crate::core::{
    Handle, SchedulerState, Shard, Time, Turn,
    model::limits::Limits,
    scheduler::{Scheduler, queue::step_counter::step},
};
use std::collections::BTreeSet;

/// Cost of a look at a scheduler, in ranges.
const LOOK_RANGES: usize = 10;
/// Cost of a checkpoint besides the look and without its ranges, in ranges.
const CHECKPOINT_RANGES: usize = 90;

/// The sum of the shard, and where most of it is.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    total: u64,
    /// Schedulers by the binary logarithm of the finished tasks since their checkpoint, which
    /// seldom changes; those below `Limits::checkpoint_min` are left out.
    by_level: BTreeSet<(u32, Handle)>,
    /// Schedulers without unfinished tasks that may be quiesced, and since when they are in this
    /// list. Each is in it once.
    idle: BTreeSet<(Time, Handle)>,
}

impl Checkpoints {
    /// When to look for schedulers to quiesce.
    pub(crate) fn next_quiesce(&self, limits: &Limits) -> Time {
        self.idle
            .first()
            .map_or(Time::NEVER, |(since, _)| *since + limits.quiesce_after)
    }

    /// The scheduler leaves memory.
    pub(crate) fn forget(&mut self, scheduler: &Scheduler) {
        if let Some(since) = scheduler.listed_idle {
            self.idle.remove(&(since, scheduler.handle()));
        }
    }

    /// Notes how many finished tasks a scheduler has had since its checkpoint.
    fn set(&mut self, limits: &Limits, scheduler: &mut Scheduler, uncovered: u32) {
        let level = |uncovered| level(limits, uncovered);
        let old = std::mem::replace(&mut scheduler.uncovered, uncovered);
        self.total = self.total + u64::from(uncovered) - u64::from(old);
        if level(old) != level(uncovered) {
            let handle = scheduler.handle();
            self.by_level.remove(&(level(old), handle));
            if level(uncovered) > 0 {
                self.by_level.insert((level(uncovered), handle));
            }
        }
    }
}

/// 0: not worth a checkpoint.
fn level(limits: &Limits, uncovered: u32) -> u32 {
    if uncovered >= limits.checkpoint_min {
        uncovered.ilog2()
    } else {
        0
    }
}

impl Scheduler {
    /// Whether a checkpoint saves much more than its ranges cost.
    fn pays(&self, limits: &Limits) -> bool {
        self.uncovered as usize
            >= self
                .ledger
                .ranges
                .count()
                .saturating_mul(limits.range_cost as usize)
    }
}

impl Shard {
    /// Counts finished tasks, in rows of the journal that are new.
    pub(crate) fn add_uncovered(&mut self, handle: Handle, tasks: u32, rows: u32) {
        let Some(scheduler) = self.schedulers.get_mut(handle) else {
            return;
        };
        let uncovered = scheduler
            .uncovered
            .saturating_add(tasks)
            .saturating_add(rows.saturating_mul(self.limits.row_cost));
        self.checkpoints.set(&self.limits, scheduler, uncovered);
    }

    /// Writes the checkpoint of a scheduler with this batch.
    pub(crate) fn checkpoint(&mut self, turn: &mut Turn, handle: Handle) {
        let Some(scheduler) = self.schedulers.get_mut(handle) else {
            return;
        };
        self.checkpoints.set(&self.limits, scheduler, 0);
        let checkpoint = scheduler.checkpoint(turn.now);
        self.record(turn, handle);
        turn.out
            .records
            .schedulers
            .entry(handle)
            .and_modify(|image| image.checkpoint = checkpoint);
    }

    /// The same, once enough has come together for this scheduler alone.
    pub(crate) fn checkpoint_if_due(&mut self, turn: &mut Turn, handle: Handle) {
        let limits = self.limits;
        let scheduler = self.schedulers.expect_mut(handle);
        if scheduler.uncovered >= limits.checkpoint_tasks && scheduler.pays(&limits) {
            self.checkpoint(turn, handle);
        }
    }

    /// Notes a scheduler that may be quiesced.
    pub(crate) fn note_idle(&mut self, now: Time, handle: Handle) {
        let step = self.limits.quiesce_interval.as_micros() as i64;
        let scheduler = self.schedulers.expect_mut(handle);
        let ended = scheduler.image.state == SchedulerState::Released;
        if scheduler.ledger.count == 0
            && !scheduler.quiesced
            && scheduler.listed_idle.is_none()
            && !ended
        {
            // Many at a time, in few batches.
            let since = Time(now.0.saturating_add(step - 1) / step * step);
            scheduler.listed_idle = Some(since);
            self.checkpoints.idle.insert((since, handle));
        }
    }

    /// A scheduler that was given tasks is not quiesced.
    pub(crate) fn resume_if_quiesced(&mut self, turn: &mut Turn, handle: Handle) {
        let scheduler = self.schedulers.expect_mut(handle);
        if std::mem::take(&mut scheduler.quiesced) {
            self.checkpoint(turn, handle);
        }
    }

    /// Writes what makes a recovery short, a slice with each batch.
    pub(crate) fn write_checkpoints(&mut self, turn: &mut Turn) {
        let left = self.quiesce_idle(turn, self.limits.checkpoint_ranges);
        self.checkpoint_largest(turn, left);
    }

    /// Those that have not been in use for a while; says what is left of the slice.
    fn quiesce_idle(&mut self, turn: &mut Turn, mut left: usize) -> usize {
        while left > 0 && self.checkpoints.next_quiesce(&self.limits) <= turn.now {
            let Some((_, handle)) = self.checkpoints.idle.pop_first() else {
                break;
            };
            step();
            left = left.saturating_sub(LOOK_RANGES);
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            scheduler.listed_idle = None;
            let idle =
                scheduler.ledger.count == 0 && scheduler.image.state != SchedulerState::Released;
            if idle && scheduler.last_activity + self.limits.quiesce_after <= turn.now {
                scheduler.quiesced = true;
                self.checkpoint(turn, handle);
                left = left.saturating_sub(CHECKPOINT_RANGES);
            } else {
                self.note_idle(turn.now, handle);
            }
        }
        left
    }

    /// Those that save most, while the shard as a whole is too far uncovered.
    fn checkpoint_largest(&mut self, turn: &mut Turn, mut left: usize) {
        let limits = self.limits;
        while left > 0 && self.checkpoints.total > limits.checkpoint_total {
            let Some((_, handle)) = self.checkpoints.by_level.pop_last() else {
                return;
            };
            step();
            left = left.saturating_sub(LOOK_RANGES);
            let scheduler = self.schedulers.expect_mut(handle);
            // One that does not pay now is looked at again when it is twice as far uncovered.
            if scheduler.pays(&limits) {
                left = left.saturating_sub(CHECKPOINT_RANGES + scheduler.ledger.ranges.count());
                self.checkpoint(turn, handle);
            }
        }
    }
}
