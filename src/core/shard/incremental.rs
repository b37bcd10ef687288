//! Incremental effects, carried out in slices between other commands: of one durable intention, or
//! of time that has passed. What is left to do follows from the unfinished set, the rows and the
//! time, so it goes on after a recovery.

use crate::core::{Handle, Order, Outcome, Shard, Time, Turn};
use std::{collections::VecDeque, time::Duration};

/// Who is to get a slice, and when.
#[derive(Debug, Default)]
pub(crate) struct Incremental {
    queue: VecDeque<Handle>,
    /// No slice before this.
    from: Time,
    /// A caller has asked for something since the last slice.
    asked: bool,
}

impl Incremental {
    /// When the next slice is due.
    pub(crate) fn next_due(&self) -> Time {
        if self.queue.is_empty() {
            Time::NEVER
        } else {
            self.from
        }
    }

    /// A caller makes a call: pause before the next slice.
    pub(crate) fn note_call(&mut self) {
        self.asked = !self.queue.is_empty();
    }
}

impl Shard {
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
    /// way. While callers ask for other things there is a pause between two slices, in which
    /// batches are as short as ever.
    pub(crate) fn run_slices(&mut self, turn: &mut Turn) {
        if self.incremental.next_due() > turn.now {
            return;
        }
        let pause = if std::mem::take(&mut self.incremental.asked) {
            self.limits.slice_pause
        } else {
            Duration::ZERO
        };
        self.incremental.from = turn.now + pause;
        let mut left = self.limits.slice;
        while left > 0
            && let Some(handle) = self.incremental.queue.pop_front()
        {
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            scheduler.sliced = false;
            let taken = self.slice(turn, handle, left);
            // Its row is a record too.
            left -= taken.max(1);
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
        overdue + self.cancel_some(turn, handle, most - overdue)
    }

    fn cancel_some(&mut self, turn: &mut Turn, handle: Handle, most: u32) -> u32 {
        let scheduler = self.schedulers.expect_mut(handle);
        let Some(intention) = scheduler.image.cancel_rest else {
            return 0;
        };
        let spans = scheduler
            .queue
            .drain(intention.above, intention.up_to, most);
        let taken = spans.iter().map(|span| span.count).sum();
        for span in &spans {
            self.end_waiting(
                turn,
                handle,
                span,
                Outcome::Cancelled,
                "CANCELLED",
                "cancelled with the rest",
            );
        }
        if taken < most {
            self.schedulers.expect_mut(handle).image.cancel_rest = None;
            self.record(turn, handle);
        } else {
            self.queue_slice(handle);
        }
        taken
    }
}
