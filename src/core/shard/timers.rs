//! What happens because time passes: delayed tasks come due, deadlines pass, idle schedulers are
//! released, ended ones leave memory.
//!
//! After a pause of the server very much of it may be due at the same time, also of one scheduler.
//! So a batch looks at a limited number of schedulers and wakes a limited number of spans; what
//! yields records is done in slices.

use super::lifecycle::Releaser;
use crate::core::{Handle, Outcome, Shard, Time, Turn, scheduler::deadlines::Overdue};

/// What a timer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// Delayed tasks, deadlines and the idle timeout of a scheduler.
    Scheduler(Handle),
}

impl Shard {
    /// Runs the timers that are due, as many as one batch bears.
    pub(crate) fn run_timers(&mut self, turn: &mut Turn) {
        self.watch_attempts(turn);
        let mut left = self.limits.timers_per_batch;
        while left > 0 {
            let first = self.timers.first().copied();
            let Some((at, due)) = first.filter(|(at, _)| *at <= turn.now) else {
                return;
            };
            self.timers.remove(&(at, due));
            left -= match due {
                Due::Scheduler(handle) => self.wake(turn.now, handle, left).clamp(1, left),
            };
        }
    }

    /// Wakes up to `most` spans of a scheduler. Returns how many there were.
    fn wake(&mut self, now: Time, handle: Handle, most: usize) -> usize {
        let Some(scheduler) = self.schedulers.get_mut(handle) else {
            return 0;
        };
        scheduler.wake = Time::NEVER;
        scheduler.woken_at = now;
        let woken = scheduler.queue.wake(now, most);
        if scheduler.is_overdue(now) || scheduler.idle_at() <= now {
            self.slice_later(now, handle);
        }
        woken
    }

    /// Ends up to `most` waiting tasks whose deadline has passed. Returns how many there were.
    pub(crate) fn end_overdue(&mut self, turn: &mut Turn, handle: Handle, most: u32) -> u32 {
        let mut left = most;
        while left > 0 {
            let scheduler = self.schedulers.expect_mut(handle);
            let deadlines = &mut scheduler.ledger.deadlines;
            let Some(overdue) = deadlines.pop_overdue(turn.now, left) else {
                break;
            };
            let Overdue {
                first, last, order, ..
            } = overdue;
            if scheduler.queue.holds_back(order) {
                deadlines.postpone(overdue);
                left -= 1;
                continue;
            }
            let spans = scheduler.queue.remove_of(order, first, last);
            let ended: u32 = spans.iter().map(|span| span.count).sum();
            for span in spans {
                let scheduler = self.schedulers.expect(handle);
                let why = scheduler.reason_to_wait(&span, self);
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                let message = format!("its deadline passed while it waited{why}");
                self.end_waiting(turn, handle, span, Outcome::TimedOut, "DEADLINE", &message);
            }
            // An entry whose tasks have ended otherwise counts too: there may be many of them.
            left -= ended.max(1);
        }
        most - left
    }

    pub(crate) fn release_if_idle(&mut self, turn: &mut Turn, handle: Handle) {
        let scheduler = self.schedulers.expect_mut(handle);
        if scheduler.idle_at() <= turn.now {
            let mode = scheduler.abandon_mode();
            self.release(turn, handle, mode, Releaser::IdleTimeout);
        }
    }

    /// Of the schedulers that are over the oldest leave memory when there are too many; the journal
    /// answers for them. Not those of this very batch: their end is still to be reported.
    pub(crate) fn forget_ended(&mut self, turn: &Turn) {
        for _ in self.limits.ended_schedulers..self.ended.len() {
            let Some(handle) = self.ended.pop_front() else {
                return;
            };
            if turn.out.touched.contains(&handle) {
                self.ended.push_back(handle);
                continue;
            }
            let Some(scheduler) = self.schedulers.get_mut(handle) else {
                continue;
            };
            scheduler.leaving = false;
            if scheduler.is_over()
                && let Some(ended) = self.schedulers.remove(handle)
            {
                self.forget_open(&ended.image, ended.share.namespace);
                self.checkpoints.forget(&ended);
            }
        }
    }
}
