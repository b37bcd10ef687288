//! The pages of all schedulers, within one budget of bytes.
//!
//! Memory is shared fairly: the scheduler that holds most gives way first, and of its pages those
//! that are needed last. So a backlog of millions never pushes out a small newcomer.

use super::{page::Page, scheduler_pages::SchedulerPages};
use crate::core::{Handle, Seq};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) struct PageStore {
    schedulers: FxHashMap<Handle, SchedulerPages>,
    /// Schedulers by the bytes they hold.
    sizes: BTreeSet<(usize, Handle)>,
    bytes: usize,
    budget: usize,
}

/// Whether a page fits, and what was dropped for it.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub fits: bool,
    /// Schedulers that lost pages, each with the last task of such a page.
    pub evicted: Vec<(Handle, Seq)>,
}

impl PageStore {
    pub(crate) fn new(budget: usize) -> Self {
        PageStore {
            schedulers: FxHashMap::default(),
            sizes: BTreeSet::new(),
            bytes: 0,
            budget,
        }
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.schedulers.is_empty()
    }

    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.schedulers.keys().copied().collect()
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&SchedulerPages> {
        self.schedulers.get(&handle)
    }

    /// For changes that leave the bytes as they are; others go through [`Self::change`].
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut SchedulerPages> {
        self.schedulers.get_mut(&handle)
    }

    /// Likewise, for a scheduler that may hold nothing yet.
    pub(crate) fn entry(&mut self, handle: Handle) -> &mut SchedulerPages {
        self.schedulers.entry(handle).or_default()
    }

    /// Changes the pages of a scheduler and keeps the sums; drops the entry when it is empty.
    pub(crate) fn change<T>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut SchedulerPages) -> T,
    ) -> Option<T> {
        let pages = self.schedulers.get_mut(&handle)?;
        let before = pages.bytes;
        let outcome = change(pages);
        let after = pages.bytes;
        if before != after {
            self.bytes = self.bytes - before + after;
            self.sizes.remove(&(before, handle));
            if after > 0 {
                self.sizes.insert((after, handle));
            }
        }
        self.drop_if_empty(handle);
        Some(outcome)
    }

    pub(crate) fn drop_if_empty(&mut self, handle: Handle) {
        if self
            .schedulers
            .get(&handle)
            .is_some_and(SchedulerPages::is_empty)
        {
            self.schedulers.remove(&handle);
        }
    }

    /// Holds a page for which there is space.
    pub(crate) fn put(&mut self, handle: Handle, page: Page) {
        self.schedulers.entry(handle).or_default();
        self.change(handle, |pages| pages.put(page));
    }

    /// Makes space for a page, if others may be evicted for it: the scheduler that holds most gives
    /// way first, and of its pages those needed last. A scheduler that holds nothing, or stays
    /// within `guaranteed` bytes, may evict even one that holds as little as itself; with 0 no
    /// scheduler may.
    pub(crate) fn make_space(&mut self, handle: Handle, page: &Page, guaranteed: usize) -> Space {
        let mut space = Space::default();
        if page.is_spent() || page.bytes > self.budget {
            return space;
        }
        let own = self.get(handle).map_or(0, |pages| pages.bytes);
        let entitled = guaranteed > 0 && (own == 0 || own + page.bytes <= guaranteed);
        while self.bytes + page.bytes > self.budget {
            let Some(&(most, largest)) = self.sizes.iter().next_back() else {
                return space;
            };
            let victim = if largest == handle || own + page.bytes >= most && !entitled {
                // A scheduler's own later bodies give way to its sooner ones; nobody else's do.
                let furthest = self.get(handle).and_then(SchedulerPages::furthest);
                furthest
                    .is_some_and(|furthest| furthest > (page.rank, page.first))
                    .then_some(handle)
            } else {
                Some(largest)
            };
            let Some(victim) = victim else { return space };
            if let Some(last) = self.change(victim, SchedulerPages::evict_last).flatten() {
                space.evicted.push((victim, last));
            }
        }
        space.fits = true;
        space
    }
}
