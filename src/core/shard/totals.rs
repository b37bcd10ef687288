//! Sums over all schedulers, maintained as they change, so that GetStatus costs the same however
//! many schedulers there are.

use crate::core::{
    CoreStatus, Counts, Handle, Outcome, SchedulerState, Shard, Time, Waiting, Work,
    fairness::slot_kinds::{KindId, KindSlots},
    scheduler::{Scheduler, startable::Startable},
};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Totals {
    counts: Counts,
    waits: Waiting,
    /// Tasks that would start if there were slots, by the number of their kind.
    startable: Vec<Startable>,
    /// Schedulers that are not over.
    schedulers: i64,
    /// Schedulers with tasks that may start, by the submission of the oldest one.
    oldest: BTreeSet<(Time, Handle)>,
    /// Tasks that have ended, and those of them that failed; for rates, and not in the digest.
    ended: i64,
    failed: i64,
}

impl Totals {
    /// Schedulers that are not over, and unfinished tasks.
    pub(crate) fn digest(&self) -> (i64, i64) {
        let Counts {
            blocked,
            queued,
            running,
            retrying,
        } = self.counts;
        (self.schedulers, blocked + queued + running + retrying)
    }

    /// Counts tasks that have ended alike.
    pub(crate) fn count_ended(&mut self, outcome: Outcome, count: u32) {
        self.ended += i64::from(count);
        if outcome.is_failure() {
            self.failed += i64::from(count);
        }
    }

    /// Takes in what has changed about a scheduler.
    pub(crate) fn update(&mut self, scheduler: &mut Scheduler) {
        let (new, old) = (scheduler.counts(), &scheduler.in_totals.counts);
        self.counts.blocked += new.blocked - old.blocked;
        self.counts.queued += new.queued - old.queued;
        self.counts.running += new.running - old.running;
        self.counts.retrying += new.retrying - old.retrying;
        scheduler.in_totals.counts = new;
        let waits = scheduler.waits(&new);
        let old = std::mem::replace(&mut scheduler.in_totals.waits, waits);
        self.waits.replace(&old, &waits);
        self.update_startable(scheduler);
        let lives = scheduler.image.state != SchedulerState::Released;
        self.schedulers += i64::from(lives) - i64::from(scheduler.in_totals.lives);
        scheduler.in_totals.lives = lives;
        let oldest = scheduler
            .queue
            .oldest(scheduler.start_limit())
            .unwrap_or(Time::NEVER);
        let noted = std::mem::replace(&mut scheduler.in_totals.oldest, oldest);
        if noted != oldest {
            self.oldest.remove(&(noted, scheduler.handle()));
            if oldest != Time::NEVER {
                self.oldest.insert((oldest, scheduler.handle()));
            }
        }
    }
}

impl Totals {
    fn update_startable(&mut self, scheduler: &mut Scheduler) {
        let mut by_kind = std::mem::take(&mut scheduler.in_totals.startable);
        self.add_startable(&by_kind, -1);
        scheduler.count_startable(&mut by_kind);
        self.add_startable(&by_kind, 1);
        scheduler.in_totals.startable = by_kind;
    }

    fn add_startable(&mut self, by_kind: &[(KindId, Startable)], sign: i64) {
        for (kind, count) in by_kind {
            let at = kind.index();
            if self.startable.len() <= at {
                self.startable.resize(at + 1, Startable::default());
            }
            self.startable[at].plain += sign * count.plain;
            self.startable[at].in_lines += sign * count.in_lines;
        }
    }
}

impl Shard {
    /// Tasks that would start at once if there were slots enough, and those that run where there
    /// are none any more, by kind; of a target that is paused only those that were handed out.
    /// Lines for resources count as far as the resources admit them all.
    fn startable(&self, now: Time) -> Vec<(Work, i64)> {
        let of = |slots: &KindSlots| {
            let kind = self.fair.slots.find(&slots.work)?;
            let all = self.totals.startable.get(kind.index()).copied();
            let all = all.filter(|_| !self.is_paused(kind)).unwrap_or_default();
            let in_lines = match all.in_lines {
                0 => 0,
                lines => lines.min(self.resources.admitted(kind, now)),
            };
            let without_slot = i64::from(slots.open - slots.running());
            Some((slots.work.clone(), all.plain + in_lines + without_slot))
        };
        self.fair.slots.iter().filter_map(of).collect()
    }

    pub(crate) fn status(&self, now: Time) -> CoreStatus {
        let of = |slots: &KindSlots| {
            (
                slots.work.clone(),
                slots.counts.total,
                slots.running(),
                slots.reserved().min(slots.free()),
            )
        };
        let mut slots: Vec<_> = self.fair.slots.iter().map(of).collect();
        slots.sort_unstable();
        let lag = |slots: &KindSlots| (slots.work.clone(), slots.lag());
        CoreStatus {
            schedulers: self.totals.schedulers,
            counts: self.totals.counts,
            waiting: self.totals.waits,
            lags: self.fair.slots.iter().map(lag).collect(),
            slots,
            startable: self.startable(now),
            oldest_queued: self.totals.oldest.first().map(|(at, _)| *at),
            ended: self.totals.ended,
            failed: self.totals.failed,
            pauses: self.pause_views(),
            claims: self.resources.counts(),
            jobs: self.jobs.counts(now, &self.limits),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::core::tests::world::{World, free, order, plain};

    #[test]
    fn a_scheduler_is_noted_only_while_a_task_of_it_may_start() {
        let mut w = World::new(0);
        let all: Vec<_> = (0..3).map(|_| w.open(plain)).collect();
        let begin = w.now;
        for s in &all {
            w.submit(*s, [free()]);
            w.seconds(1.0);
            w.submit(*s, [order(1)]);
        }
        let oldest = |w: &World| {
            w.shard
                .totals
                .oldest
                .iter()
                .map(|(at, _)| at.since(begin).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(oldest(&w), [0, 1, 2]);
        w.cancel(all[0], 1);
        assert_eq!(oldest(&w), [1, 1, 2]);
        assert_eq!(
            w.status().oldest_queued.map(|at| at.since(begin).as_secs()),
            Some(1)
        );
        w.set_slots(100);
        assert_eq!(oldest(&w), [0u64; 0]);
    }
}
