//! What happens because time passes: delayed tasks come due, deadlines pass, idle schedulers are released, ended ones
//! leave memory.
//!
//! After a pause of the server very much of it may be due at the same time. What yields records is done in slices.

use crate::core::{Handle, Outcome, Output, Shard, Time};

impl Shard {
    /// Runs the timers that are due, as many as one batch bears.
    pub(crate) fn run_timers(&mut self, now: Time, out: &mut Output) {
        self.watch_attempts(now, out);
        for _ in 0..self.limits.timers_per_batch {
            let Some((_, handle)) = self.timers.first().copied().filter(|(at, _)| *at <= now)
            else {
                return;
            };
            self.timers.pop_first();
            let Some(scheduler) = self.schedulers.get_mut(&handle) else {
                continue;
            };
            scheduler.wake = Time::NEVER;
            scheduler.queue.wake(now);
            if scheduler.is_overdue(now) || scheduler.idle_at() <= now {
                self.slice_later(now, handle);
            }
            self.refresh(handle);
        }
    }

    /// Ends up to `most` waiting tasks whose deadline has passed. Returns how many there were.
    pub(crate) fn end_overdue(
        &mut self,
        now: Time,
        handle: Handle,
        most: u32,
        out: &mut Output,
    ) -> u32 {
        let mut left = most;
        while let Some(scheduler) = self.schedulers.get_mut(&handle)
            && left > 0
            && let Some(entry) = scheduler.deadlines.first_entry()
            && entry.key().0 <= now
        {
            let ((at, first), (last, order)) = entry.remove_entry();
            let head = last.min(first.plus(left - 1));
            if head < last {
                scheduler
                    .deadlines
                    .insert((at, head.plus(1)), (last, order));
            }
            let spans = scheduler.queue.remove_of(order, first, head);
            for span in &spans {
                self.end_waiting(
                    now,
                    handle,
                    span,
                    Outcome::TimedOut,
                    "DEADLINE",
                    "its deadline passed while it waited",
                    out,
                );
            }
            // An entry whose tasks have ended otherwise counts too: there may be many of them.
            left -= spans.iter().map(|span| span.count).sum::<u32>().max(1);
        }
        most - left
    }

    pub(crate) fn release_if_idle(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let scheduler = self.scheduler_mut(handle);
        if scheduler.idle_at() <= now {
            let mode = scheduler.abandon_mode();
            self.release(now, handle, mode, true, out);
        }
    }

    /// Of the schedulers that are over the oldest leave memory when there are too many; the journal answers for them. Not
    /// those of this very batch: their end is still to be told.
    pub(crate) fn forget_ended(&mut self, out: &Output) {
        for _ in self.limits.ended_schedulers..self.ended.len() {
            let Some(handle) = self.ended.pop_front() else {
                return;
            };
            if out.touched.contains(&handle) {
                self.ended.push_back(handle);
                continue;
            }
            let Some(scheduler) = self.schedulers.get_mut(&handle) else {
                continue;
            };
            scheduler.leaving = false;
            if scheduler.is_over() {
                self.schedulers.remove(&handle);
            }
        }
    }
}
