//! Sums over all schedulers, kept as they change: GetStatus asks for them however many schedulers there are.

use super::{CoreStatus, Counts, Handle, Pool, Scheduler, SchedulerState, Shard, Time};
use rustc_hash::FxHashMap;
use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Debug, Default)]
pub(super) struct Totals {
    counts: Counts,
    /// Schedulers that are not over.
    schedulers: i64,
    /// Schedulers with tasks that may start, by the submission of the oldest one or by an earlier time.
    oldest: BinaryHeap<Reverse<(Time, Handle)>>,
}

/// What of a scheduler is in the totals.
#[derive(Debug)]
pub(super) struct Share {
    counts: Counts,
    lives: bool,
    /// Its time in `oldest`; `Time::NEVER`: it is not there.
    oldest: Time,
}

impl Default for Share {
    fn default() -> Self {
        Share { counts: Counts::default(), lives: false, oldest: Time::NEVER }
    }
}

impl Totals {
    /// Takes in what has changed about a scheduler.
    pub fn update(&mut self, scheduler: &mut Scheduler) {
        let (new, old) = (scheduler.counts(), &scheduler.in_totals.counts);
        self.counts.blocked += new.blocked - old.blocked;
        self.counts.queued += new.queued - old.queued;
        self.counts.running += new.running - old.running;
        self.counts.retrying += new.retrying - old.retrying;
        scheduler.in_totals.counts = new;
        let lives = scheduler.image.state != SchedulerState::Released;
        self.schedulers += i64::from(lives) - i64::from(scheduler.in_totals.lives);
        scheduler.in_totals.lives = lives;
        let oldest = scheduler.queue.oldest(scheduler.gate()).unwrap_or(Time::NEVER);
        if oldest < scheduler.in_totals.oldest {
            scheduler.in_totals.oldest = oldest;
            self.oldest.push(Reverse((oldest, scheduler.handle())));
        }
    }

    /// Submission time of the oldest task that may start. What has changed since it was noted is put right on the way.
    fn oldest(&mut self, schedulers: &mut FxHashMap<Handle, Box<Scheduler>>) -> Option<Time> {
        while let Some(Reverse((noted, handle))) = self.oldest.peek().copied() {
            let scheduler = schedulers.get_mut(&handle).filter(|scheduler| scheduler.in_totals.oldest == noted);
            let Some(scheduler) = scheduler else {
                self.oldest.pop();
                continue;
            };
            let oldest = scheduler.queue.oldest(scheduler.gate()).unwrap_or(Time::NEVER);
            if oldest == noted {
                return Some(noted);
            }
            self.oldest.pop();
            scheduler.in_totals.oldest = oldest;
            if oldest != Time::NEVER {
                self.oldest.push(Reverse((oldest, handle)));
            }
        }
        None
    }
}

impl Shard {
    pub(super) fn status(&mut self) -> CoreStatus {
        let of = |pool: &Pool| (pool.work.clone(), pool.total, pool.busy, pool.reserve());
        let mut slots: Vec<_> = self.fair.pools().iter().map(of).collect();
        slots.sort_unstable();
        CoreStatus {
            schedulers: self.totals.schedulers,
            counts: self.totals.counts,
            slots,
            oldest_queued: self.totals.oldest(&mut self.schedulers),
        }
    }
}
