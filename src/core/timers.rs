//! What happens because time passes: delayed tasks come due, deadlines pass, idle schedulers are released, ended ones
//! leave memory.

use super::{Handle, Outcome, Output, Scheduler, SchedulerState, Shard, Time, limits};

impl Shard {
    /// Runs every timer that is due.
    pub(super) fn run_timers(&mut self, now: Time, out: &mut Output) {
        self.watch_attempts(now, out);
        while let Some((at, handle)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            let Some(scheduler) = self.schedulers.get_mut(&handle) else { continue };
            scheduler.wake = Time::NEVER;
            scheduler.queue.wake(now);
            self.end_overdue(now, handle, out);
            self.release_if_idle(now, handle, out);
            self.forget_if_over(now, handle);
            self.refresh(handle);
        }
    }

    fn end_overdue(&mut self, now: Time, handle: Handle, out: &mut Output) {
        while let Some(scheduler) = self.schedulers.get_mut(&handle)
            && let Some(entry) = scheduler.deadlines.first_entry()
            && entry.key().0 <= now
        {
            let ((_, first), (last, order)) = entry.remove_entry();
            for span in scheduler.queue.remove_of(order, first, last) {
                self.end_waiting(now, handle, &span, Outcome::TimedOut, "DEADLINE", "its deadline passed while it waited", out);
            }
        }
    }

    fn release_if_idle(&mut self, now: Time, handle: Handle, out: &mut Output) {
        let scheduler = self.scheduler_mut(handle);
        if scheduler.idle_at() <= now {
            let mode = scheduler.abandon_mode();
            self.release(now, handle, mode, true, out);
        }
    }

    /// An ended scheduler leaves memory when its calls can no longer be repeated; the journal knows the rest.
    fn forget_if_over(&mut self, now: Time, handle: Handle) {
        let over = |s: &Scheduler| {
            let since = s.image.released_at.unwrap_or_default().max(s.last_activity);
            s.image.state == SchedulerState::Released && s.streams == 0 && since + limits::REQUEST_MEMORY <= now
        };
        if self.schedulers.get(&handle).is_some_and(|scheduler| over(scheduler))
            && let Some(mut scheduler) = self.schedulers.remove(&handle)
        {
            self.fair.list(&mut scheduler.share, &[]);
        }
    }
}
