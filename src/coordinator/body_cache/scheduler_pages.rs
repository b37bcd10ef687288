//! The bodies of one scheduler: the pages in memory, and the ranges that are being read.
//!
//! Invariant: pages and requested ranges never overlap, so no body is held or requested twice.

use super::page::{Page, Rank};
use crate::{
    core::{Seq, SeqRange},
    executor_protocol::Body,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct SchedulerPages {
    pages: BTreeMap<Seq, Page>,
    /// Pages by how soon they are needed; the last one is evicted first.
    by_rank: BTreeSet<(Rank, Seq)>,
    /// Bytes of memory of all pages.
    pub bytes: usize,
    /// Ranges that are being read, by their first task.
    requested: BTreeMap<Seq, Requested>,
}

#[derive(Debug)]
struct Requested {
    last: Seq,
    /// Tasks whose bodies are not needed any more.
    spent: Vec<(Seq, Seq)>,
}

impl SchedulerPages {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.requested.is_empty()
    }

    pub(crate) fn put(&mut self, page: Page) {
        self.bytes += page.bytes;
        self.by_rank.insert((page.rank, page.first));
        self.pages.insert(page.first, page);
    }

    /// Gives out the body of a task, once.
    pub(crate) fn take(&mut self, seq: Seq) -> Option<Body> {
        let body = self.page_of(seq)?.body(seq);
        self.spend(seq, seq);
        body
    }

    /// The bodies of the tasks `first..=last` are not needed any more, whether in memory or
    /// requested.
    pub(crate) fn spend(&mut self, first: Seq, last: Seq) {
        let pages: Vec<Seq> = overlapping(&self.pages, first, last, Page::last).collect();
        for at in pages {
            if let Some(page) = self.pages.get_mut(&at) {
                page.spend(first, last);
                if page.is_spent() {
                    self.drop_page(at);
                }
            }
        }
        let requested: Vec<Seq> =
            overlapping(&self.requested, first, last, |range| range.last).collect();
        for at in requested {
            self.requested
                .entry(at)
                .and_modify(|range| range.spent.push((first, last)));
        }
    }

    /// How soon, and from which task on, the page that is needed last is needed.
    pub(crate) fn furthest(&self) -> Option<(Rank, Seq)> {
        self.by_rank.last().copied()
    }

    /// Drops the page that is needed last; returns its last task.
    pub(crate) fn evict_last(&mut self) -> Option<Seq> {
        let (_, first) = self.furthest()?;
        let last = self.pages.get(&first).map(Page::last);
        self.drop_page(first);
        last
    }

    /// Drops all pages. What is being read is only for the assignments that wait for it now.
    pub(crate) fn clear(&mut self) {
        for range in self.requested.values_mut() {
            range.spent = vec![(Seq(0), range.last)];
        }
        self.pages.clear();
        self.by_rank.clear();
        self.bytes = 0;
    }

    /// The parts of a range that are neither in memory nor requested.
    pub(crate) fn missing(&self, range: &SeqRange) -> Vec<SeqRange> {
        let mut parts = Vec::new();
        let (mut next, end) = (range.first, range.last);
        while next <= end {
            if let Some(last) = self.covered_until(next) {
                next = last.plus(1);
                continue;
            }
            let page = self
                .pages
                .range(next..)
                .next()
                .map(|(first, _)| first.0 - 1);
            let requested = self
                .requested
                .range(next..)
                .next()
                .map(|(first, _)| first.0 - 1);
            let last = Seq([page, requested]
                .into_iter()
                .flatten()
                .fold(end.0, i64::min));
            parts.push(SeqRange {
                first: next,
                last,
                ..*range
            });
            next = last.plus(1);
        }
        parts
    }

    /// Whether all of a range is in memory or requested.
    pub(crate) fn covers(&self, range: &SeqRange) -> bool {
        let mut next = range.first;
        while next <= range.last {
            match self.covered_until(next) {
                Some(last) => next = last.plus(1),
                None => return false,
            }
        }
        true
    }

    /// Notes that a range is being read.
    pub(crate) fn request(&mut self, range: &SeqRange) {
        self.requested.insert(
            range.first,
            Requested {
                last: range.last,
                spent: Vec::new(),
            },
        );
    }

    /// The range has been read, or cannot be. Returns the tasks whose bodies are not needed any
    /// more.
    pub(crate) fn answered(&mut self, range: &SeqRange) -> Vec<(Seq, Seq)> {
        self.requested
            .remove(&range.first)
            .map(|range| range.spent)
            .unwrap_or_default()
    }

    fn page_of(&self, seq: Seq) -> Option<&Page> {
        self.pages
            .range(..=seq)
            .next_back()
            .map(|(_, page)| page)
            .filter(|page| seq <= page.last())
    }

    fn covered_until(&self, seq: Seq) -> Option<Seq> {
        let requested = self
            .requested
            .range(..=seq)
            .next_back()
            .map(|(_, range)| range.last)
            .filter(|last| seq <= *last);
        requested.or_else(|| self.page_of(seq).map(Page::last))
    }

    fn drop_page(&mut self, first: Seq) {
        if let Some(page) = self.pages.remove(&first) {
            self.bytes -= page.bytes;
            self.by_rank.remove(&(page.rank, first));
        }
    }
}

/// Keys of the entries that overlap `first..=last`.
fn overlapping<T>(
    map: &BTreeMap<Seq, T>,
    first: Seq,
    last: Seq,
    end: impl Fn(&T) -> Seq,
) -> impl Iterator<Item = Seq> {
    let before = map
        .range(..first)
        .next_back()
        .filter(|(_, entry)| end(entry) >= first);
    before
        .into_iter()
        .chain(map.range(first..=last))
        .map(|(at, _)| *at)
}
