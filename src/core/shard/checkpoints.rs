//! How much finished work a recovery would have to read again, for each scheduler and for the shard; and the checkpoints
//! that keep it bounded.
//!
//! A checkpoint is written only where it pays: it saves several rows at least, and much more than it writes. So schedulers
//! that come to rest after each task do not cost a row more each time, and one with a ragged backlog does not write all its
//! ranges again and again. What a recovery reads of finished work is then at most `Limits::checkpoint_total` in all, besides a few rows for
//! each scheduler in use and a few tasks for each unfinished one. One that has not been in use for a while comes to rest: its
//! checkpoint says that nothing came later, and recovery does not look.

use crate::core::{
    Handle, Output, SchedulerState, Shard, Time, model::limits::Limits, scheduler::Scheduler,
};
use std::collections::{BTreeSet, VecDeque};

/// Ranges that cost as much as the rest of a checkpoint.
const EACH: usize = 100;

/// The sum of the shard, and where most of it is.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    total: u64,
    /// By the binary logarithm of how far a scheduler is behind, which seldom changes; those below `Limits::checkpoint_min` are left out.
    by_level: BTreeSet<(u32, Handle)>,
    /// Schedulers without unfinished tasks that may come to rest, and since when they are in this list. Each is in it once.
    dozing: VecDeque<(Time, Handle)>,
}

impl Checkpoints {
    /// When to see who comes to rest.
    pub(crate) fn next_rest(&self, limits: &Limits) -> Time {
        self.dozing
            .front()
            .map_or(Time::NEVER, |(since, _)| *since + limits.quiesce_after)
    }

    /// Notes how far a scheduler is behind now.
    fn set(&mut self, limits: &Limits, scheduler: &mut Scheduler, behind: u32) {
        let level = |behind| level(limits, behind);
        let old = std::mem::replace(&mut scheduler.behind, behind);
        self.total = self.total + u64::from(behind) - u64::from(old);
        if level(old) != level(behind) {
            let handle = scheduler.handle();
            self.by_level.remove(&(level(old), handle));
            if level(behind) > 0 {
                self.by_level.insert((level(behind), handle));
            }
        }
    }
}

/// 0: not worth a checkpoint.
fn level(limits: &Limits, behind: u32) -> u32 {
    if behind >= limits.checkpoint_min {
        behind.ilog2()
    } else {
        0
    }
}

impl Scheduler {
    /// Whether a checkpoint saves much more than its ranges cost.
    fn pays(&self, limits: &Limits) -> bool {
        self.behind as usize >= self.open.count().saturating_mul(limits.range_cost as usize)
    }
}

impl Shard {
    /// Counts finished tasks, in rows of the journal that are new.
    pub(crate) fn fall_behind(&mut self, handle: Handle, tasks: u32, rows: u32) {
        let Some(scheduler) = self.schedulers.get_mut(&handle) else {
            return;
        };
        let behind = scheduler
            .behind
            .saturating_add(tasks)
            .saturating_add(rows.saturating_mul(self.limits.row_cost));
        self.checkpoints.set(&self.limits, scheduler, behind);
    }

    /// Writes the checkpoint of a scheduler with this batch.
    pub(crate) fn checkpoint(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let Some(scheduler) = self.schedulers.get_mut(&handle) else {
            return;
        };
        self.checkpoints.set(&self.limits, scheduler, 0);
        let checkpoint = scheduler.checkpoint(now);
        self.record(handle, out);
        out.records
            .schedulers
            .entry(handle)
            .and_modify(|image| image.checkpoint = checkpoint);
    }

    /// The same, once enough has come together for this scheduler alone.
    pub(crate) fn checkpoint_if_due(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let limits = self.limits;
        let scheduler = self.scheduler_mut(handle);
        if scheduler.behind >= limits.checkpoint_tasks && scheduler.pays(&limits) {
            self.checkpoint(now, handle, out);
        }
    }

    /// Notes a scheduler that may come to rest.
    pub(crate) fn doze(&mut self, now: Time, handle: Handle) {
        let step = self.limits.quiesce_interval.as_micros() as i64;
        let scheduler = self.scheduler_mut(handle);
        let ended = scheduler.image.state == SchedulerState::Released;
        if scheduler.unfinished == 0 && !scheduler.resting && !scheduler.dozing && !ended {
            scheduler.dozing = true;
            // Many at a time, in few batches.
            let since = Time(now.0.saturating_add(step - 1) / step * step);
            self.checkpoints.dozing.push_back((since, handle));
        }
    }

    /// A scheduler that was given tasks is not at rest.
    pub(crate) fn stir(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let scheduler = self.scheduler_mut(handle);
        if std::mem::take(&mut scheduler.resting) {
            self.checkpoint(now, handle, out);
        }
    }

    /// Writes what makes a recovery short, a slice with each batch.
    pub(crate) fn keep_up(&mut self, now: Time, out: &mut Output) {
        let left = self.come_to_rest(now, self.limits.checkpoint_ranges, out);
        self.catch_up(now, left, out);
    }

    /// Those that have not been in use for a while; says what is left of the slice.
    fn come_to_rest(&mut self, now: Time, mut left: usize, out: &mut Output) -> usize {
        while left > 0 && self.checkpoints.next_rest(&self.limits) <= now {
            let Some((_, handle)) = self.checkpoints.dozing.pop_front() else {
                break;
            };
            let Some(scheduler) = self.schedulers.get_mut(&handle) else {
                continue;
            };
            scheduler.dozing = false;
            let idle =
                scheduler.unfinished == 0 && scheduler.image.state != SchedulerState::Released;
            if idle && scheduler.last_activity + self.limits.quiesce_after <= now {
                scheduler.resting = true;
                self.checkpoint(now, handle, out);
                left = left.saturating_sub(EACH);
            } else {
                self.doze(now, handle);
                left -= 1;
            }
        }
        left
    }

    /// Those that save most, while the shard as a whole is too far behind.
    fn catch_up(&mut self, now: Time, mut left: usize, out: &mut Output) {
        let limits = self.limits;
        while left > 0 && self.checkpoints.total > limits.checkpoint_total {
            let Some((_, handle)) = self.checkpoints.by_level.pop_last() else {
                return;
            };
            let scheduler = self.scheduler_mut(handle);
            // One that does not pay now is looked at again when it is twice as far behind.
            if scheduler.pays(&limits) {
                left = left.saturating_sub(EACH + scheduler.open.count());
                self.checkpoint(now, handle, out);
            }
        }
    }
}
