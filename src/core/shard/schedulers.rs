//! The schedulers in memory, and which of them a rule may have changed.
//!
//! Mutable access puts a scheduler into the set of touched ones, so no rule can forget it. The
//! shard drains that set once per command or step of `settle`, and brings what it derives from
//! schedulers (fair share, totals, timers) up to date. Membership is a flag of the scheduler:
//! touching it again costs nothing.

use crate::core::{Handle, scheduler::Scheduler};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Schedulers {
    /// Boxed: a table of large values doubles at a high price.
    all: FxHashMap<Handle, Box<Scheduler>>,
    touched: VecDeque<Handle>,
}

impl Schedulers {
    pub(crate) fn get(&self, handle: Handle) -> Option<&Scheduler> {
        self.all.get(&handle).map(|scheduler| &**scheduler)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Scheduler> {
        let scheduler = self.all.get_mut(&handle)?;
        if !std::mem::replace(&mut scheduler.touched, true) {
            self.touched.push_back(handle);
        }
        Some(scheduler)
    }

    /// The scheduler of `handle`, which the caller has made sure exists.
    pub(crate) fn expect(&self, handle: Handle) -> &Scheduler {
        self.get(handle).expect("the scheduler is in memory")
    }

    /// The scheduler of `handle`, which the caller has made sure exists.
    pub(crate) fn expect_mut(&mut self, handle: Handle) -> &mut Scheduler {
        self.get_mut(handle).expect("the scheduler is in memory")
    }

    pub(crate) fn insert(&mut self, mut scheduler: Scheduler) {
        let handle = scheduler.handle();
        scheduler.touched = true;
        self.touched.push_back(handle);
        self.all.insert(handle, Box::new(scheduler));
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<Box<Scheduler>> {
        self.all.remove(&handle)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Scheduler> {
        self.all.values().map(|scheduler| &**scheduler)
    }

    /// Takes the first scheduler out of the touched set.
    pub(crate) fn pop_touched(&mut self) -> Option<&mut Scheduler> {
        // One that has left memory since is skipped.
        while let Some(handle) = self.touched.front() {
            if self.all.contains_key(handle) {
                break;
            }
            self.touched.pop_front();
        }
        let handle = self.touched.pop_front()?;
        let scheduler = self.all.get_mut(&handle)?;
        scheduler.touched = false;
        Some(scheduler)
    }
}
