//! Incremental effects, carried out in slices between other commands: of one durable intention, of
//! time that has passed, or of the end of executors. What is left to do follows from the unfinished
//! set, the rows, the time and what the loop tells a new core, so it goes on after a recovery.

use crate::core::{
    Handle, Order, Outcome, Shard, Time, Turn,
    resources::Resources,
    scheduler::{Scheduler, queue::cancellation::Drained},
};
use std::{collections::VecDeque, time::Duration};

/// Who is to get a slice, and when.
#[derive(Debug, Default)]
pub(crate) struct Incremental {
    queue: VecDeque<Handle>,
    /// No slice before this.
    from: Time,
    /// A caller has asked for something since the last slice.
    asked: bool,
    /// Lanes that have joined their lines with this batch, besides those of the slice.
    joined: u32,
}

impl Incremental {
    /// Has the lines of a scheduler follow its queue. What of that one batch does not bear is left
    /// to the slices, of `slice` lanes each.
    pub(crate) fn follow_lanes(
        &mut self,
        scheduler: &mut Scheduler,
        resources: &mut Resources,
        slice: u32,
    ) {
        let left = slice.saturating_sub(self.joined);
        self.joined += scheduler.follow_lanes(resources, left);
        if scheduler.lines.are_joining() && !std::mem::replace(&mut scheduler.sliced, true) {
            self.queue.push_back(scheduler.handle());
        }
    }
}

impl Shard {
    /// When the next slice is due.
    pub(crate) fn next_slice(&self) -> Time {
        if self.incremental.queue.is_empty() && !self.in_doubt.is_judging() {
            Time::NEVER
        } else {
            self.incremental.from
        }
    }

    /// A caller makes a call: pause before the next slice.
    pub(crate) fn note_call(&mut self) {
        self.incremental.asked = self.next_slice() != Time::NEVER;
    }

    /// Intends to cancel what waits above `above` (`None`: everything). The caller records the
    /// scheduler.
    pub(crate) fn begin_cancel(&mut self, handle: Handle, above: Option<Order>) {
        self.schedulers.expect_mut(handle).intend_cancel(above);
        self.queue_slice(handle);
    }

    /// Leaves what time has brought to the slices. Nothing starts whose deadline has passed.
    pub(crate) fn slice_later(&mut self, now: Time, handle: Handle) {
        let scheduler = self.schedulers.expect_mut(handle);
        scheduler.overdue = scheduler.is_overdue(now);
        self.queue_slice(handle);
    }

    pub(crate) fn queue_slice(&mut self, handle: Handle) {
        if !std::mem::replace(&mut self.schedulers.expect_mut(handle).sliced, true) {
            self.incremental.queue.push_back(handle);
        }
    }

    /// One slice for this batch, shared by the schedulers that have an incremental effect under
    /// way; half of it is for what has become of tasks in doubt. While callers ask for other things
    /// there is a pause between two slices, in which batches are as short as ever.
    pub(crate) fn run_slices(&mut self, turn: &mut Turn) {
        self.incremental.joined = 0;
        if self.next_slice() > turn.now {
            return;
        }
        let pause = if std::mem::take(&mut self.incremental.asked) {
            self.limits.slice_pause
        } else {
            Duration::ZERO
        };
        self.incremental.from = turn.now + pause;
        let mut left = self.limits.slice;
        let others = if self.incremental.queue.is_empty() {
            0
        } else {
            left / 2
        };
        left -= self.judge_cleared(turn, left - others);
        while left > 0
            && let Some(handle) = self.incremental.queue.pop_front()
        {
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            scheduler.sliced = false;
            let taken = self.slice(turn, handle, left);
            // Its row is a record too.
            left -= taken.clamp(1, left);
        }
    }

    /// Does up to `most` of what there is to do for a scheduler. Returns how much that was.
    fn slice(&mut self, turn: &mut Turn, handle: Handle, most: u32) -> u32 {
        let overdue = self.end_overdue(turn, handle, most);
        let scheduler = self.schedulers.expect_mut(handle);
        scheduler.overdue = scheduler.is_overdue(turn.now);
        if scheduler.overdue {
            self.queue_slice(handle);
            return overdue;
        }
        self.release_if_idle(turn, handle);
        let left = most - overdue;
        let cancels = self.schedulers.expect(handle).image.cancel_rest.is_some();
        let lanes = if cancels { left.div_ceil(2) } else { left };
        let joined = self.join_some(handle, lanes);
        let cancelled = self.cancel_some(turn, handle, left - joined);
        // What had to wait for the end of the cancellation.
        if self.schedulers.expect(handle).is_overdue(turn.now) {
            self.slice_later(turn.now, handle);
        }
        overdue + joined + cancelled
    }

    fn join_some(&mut self, handle: Handle, most: u32) -> u32 {
        let scheduler = self.schedulers.expect_mut(handle);
        let joined = scheduler.join_lines(&mut self.resources, most);
        if scheduler.lines.are_joining() {
            self.queue_slice(handle);
        }
        joined
    }

    fn cancel_some(&mut self, turn: &mut Turn, handle: Handle, most: u32) -> u32 {
        let scheduler = self.schedulers.expect_mut(handle);
        let Some(rest) = scheduler.image.cancel_rest else {
            return 0;
        };
        let why = match rest.above {
            Some(order) => format!("cancelled with the rest: order {} has failed", order.0),
            None => "cancelled with the rest of the scheduler".to_owned(),
        };
        let Drained { spans, steps, over } = scheduler.queue.drain(most);
        for span in spans {
            self.end_waiting(turn, handle, span, Outcome::Cancelled, "CANCELLED", &why);
        }
        if over {
            let scheduler = self.schedulers.expect_mut(handle);
            scheduler.image.cancel_rest = None;
            scheduler.ledger.deadlines.resume();
            self.record(turn, handle);
        } else {
            self.queue_slice(handle);
        }
        steps
    }
}
