//! What must have happened once nothing is under way and nothing is due: deadlines and incremental
//! cancellations are carried out, idle schedulers are released, and no slot is free while something
//! may run.

use super::{
    Oracle,
    model::{Scheduler, Task},
    rows::Rows,
};
use rallypoint::{
    core::{Handle, ReleaseMode, SchedulerState, Time, Work},
    journal::Batch,
};

/// What the world outside the core looks like.
pub(crate) struct Outside<'a> {
    pub now: Time,
    /// Attempts that executors run or have to report.
    pub running: Vec<(Handle, i64)>,
    /// Streams that are open.
    pub streams: &'a [Handle],
}

impl Oracle {
    /// Nothing is under way between callers, core and journal, and nothing is due.
    pub(crate) fn settled(&mut self, outside: &Outside<'_>) {
        self.settled_at = outside.now;
        (self.in_doubt, self.host_lost) = (false, false);
        let early = std::mem::take(&mut self.early);
        self.no_longer_early(&early);
        for scheduler in &mut self.schedulers {
            let handle = scheduler.handle;
            for task in &mut scheduler.tasks {
                let still_runs = |first| {
                    let mut all = outside.running.iter();
                    all.any(|(of, seq)| *of == handle && *seq == first)
                };
                task.running.take_if(|running| !still_runs(running.first));
            }
        }
        for scheduler in &mut self.schedulers {
            scheduler.nothing_is_overdue(outside.now);
            scheduler.is_not_idle_for_too_long(outside);
            if scheduler.release_mode != Some(ReleaseMode::Cancel) {
                scheduler.cancelling = None;
            }
        }
        self.no_slot_is_idle(outside);
        self.resources.settled(outside.now);
        self.what_runs_holds_its_resources();
    }

    /// A scheduler that nobody uses is released as it asked for, not before its time, and not while
    /// something runs, waits for its next attempt, or is watched.
    pub(super) fn abandon(&mut self, now: Time, batch: &Batch, rows: &mut Rows<'_>) {
        for (handle, image) in &batch.records.schedulers {
            let Some(at) = self.at(*handle) else {
                continue;
            };
            let scheduler = &self.schedulers[at];
            let abandoned =
                image.state != SchedulerState::Open && scheduler.state == SchedulerState::Open;
            if !abandoned {
                continue;
            }
            // What the deadlines that have passed bring comes first.
            let due = scheduler.used.0 + scheduler.settings.idle_timeout;
            assert!(due <= now, "{handle} is abandoned before its time");
            let runs = |task: &Task| task.surely_runs(self.core);
            let busy = scheduler.unfinished().any(runs);
            assert!(!busy, "{handle} is abandoned while it runs something");
            let mode = scheduler.settings.on_abandon;
            self.release(at, mode, true, rows);
        }
    }

    /// Work conservation. The slots of the reserve are not judged: whoever is ahead of the others
    /// in virtual time is kept out of it today, even if it runs nothing.
    fn no_slot_is_idle(&self, outside: &Outside<'_>) {
        for (work, slots) in &self.executors.slots {
            let runs = |task: &&Task| task.running.is_some() && task.spec.work == *work;
            let busy = self.schedulers.iter();
            let busy = busy.map(|s| s.unfinished().filter(runs).count() as i64);
            let free = i64::from(slots.total) - busy.sum::<i64>();
            if free <= i64::from(reserve(slots.total)) || self.is_paused(work) {
                continue;
            }
            for scheduler in &self.schedulers {
                let may_hold = |task: &Task| {
                    let namespace = &scheduler.namespace;
                    self.resources.could_have(namespace, task, outside.now)
                };
                let waits = scheduler.startable(outside, work, may_hold);
                assert!(
                    waits.is_none(),
                    "{free} slots for {work} are free, and {}/{} does not start",
                    scheduler.handle,
                    waits.unwrap_or(0)
                );
            }
        }
    }
}

impl Scheduler {
    fn nothing_is_overdue(&self, now: Time) {
        for (task, seq) in self.tasks.iter().zip(1..) {
            let waits = task.ended.is_none() && task.running.is_none();
            let name = format_args!("{}/{seq}", self.handle);
            assert!(
                !waits || !task.doomed,
                "{name} is to be cancelled and still waits"
            );
            assert!(
                !waits || task.deadline() > now,
                "{name} waits though its deadline has passed"
            );
        }
    }

    fn is_not_idle_for_too_long(&self, outside: &Outside<'_>) {
        let of = |handle: &Handle| *handle == self.handle;
        let runs = outside.running.iter().any(|(handle, _)| of(handle));
        let retries = self.unfinished().any(|task| task.next_at > outside.now);
        let idle = !runs && !retries && !self.watched && !outside.streams.iter().any(of);
        let too_long = self.used.1 + self.settings.idle_timeout < outside.now;
        assert!(
            !(idle && too_long) || self.state != SchedulerState::Open,
            "{} is idle for too long and not released",
            self.handle
        );
    }

    /// A task that only needs a slot.
    fn startable(
        &self,
        outside: &Outside<'_>,
        work: &Work,
        may_hold: impl Fn(&Task) -> bool,
    ) -> Option<i64> {
        let runs = self.unfinished();
        let runs = runs.filter(|task| task.running.is_some()).count();
        let room = self
            .settings
            .max_parallelism
            .is_none_or(|room| runs < room as usize);
        if !room || self.paused || self.release_mode == Some(ReleaseMode::Cancel) {
            return None;
        }
        let current = self.current_order();
        let starts = |task: &Task| {
            let turn = task.order.is_none() || task.order == current;
            task.spec.work == *work
                && task.ended.is_none()
                && task.running.is_none()
                && turn
                && !self.is_halted(task.order)
                && task.ready_at() <= outside.now
                && may_hold(task)
        };
        let mut all = self.tasks.iter().zip(1..);
        all.find(|(task, _)| starts(task)).map(|(_, seq)| seq)
    }
}

/// Free slots kept for those that run nothing: none below four, else a tenth, at least one.
pub(crate) fn reserve(total: u32) -> u32 {
    match total {
        0..4 => 0,
        _ => (total / 10).max(1),
    }
}
