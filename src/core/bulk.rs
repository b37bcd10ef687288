//! Bulk effects: one durable intention, carried out in slices between other commands (design 5.9).

use super::{Handle, Order, Outcome, Output, Shard, Time, limits};

impl Shard {
    /// Intends to cancel what waits above `above` (`None`: everything). The caller records the scheduler.
    pub(super) fn begin_bulk(&mut self, handle: Handle, above: Option<Order>) {
        let scheduler = self.scheduler_mut(handle);
        let under_way = scheduler.image.cancel_rest.is_some();
        scheduler.intend_cancel(above);
        if !under_way {
            self.bulk.push_back(handle);
        }
    }

    /// One slice for this batch, shared by the schedulers that have a bulk effect under way.
    pub(super) fn run_slices(&mut self, now: Time, out: &mut Output) {
        let mut left = limits::SLICE;
        while left > 0
            && let Some(handle) = self.bulk.pop_front()
        {
            let Some(scheduler) = self.schedulers.get_mut(&handle) else { continue };
            let Some(intention) = scheduler.image.cancel_rest else { continue };
            let spans = scheduler.queue.drain(intention.above, intention.up_to, left);
            let taken: u32 = spans.iter().map(|span| span.count).sum();
            for span in &spans {
                self.end_waiting(now, handle, span, Outcome::Cancelled, "CANCELLED", "cancelled with the rest", out);
            }
            if taken < left {
                self.scheduler_mut(handle).image.cancel_rest = None;
                self.record(handle, out);
            } else {
                self.bulk.push_back(handle);
            }
            left = left.saturating_sub(taken);
            self.refresh(handle);
        }
    }
}
