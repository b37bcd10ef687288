//! The bodies of one scheduler: the pages that are here, and the ranges that are being fetched.
//!
//! Invariant: pages and asked ranges never overlap, so no body is here or on its way twice.

use super::page::{Page, Rank};
use crate::{
    assignment::Body,
    core::{Seq, SeqRange},
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct SchedulerPages {
    pages: BTreeMap<Seq, Page>,
    /// Pages by how soon they are needed; the last one gives way first.
    by_rank: BTreeSet<(Rank, Seq)>,
    /// Bytes of memory of all pages.
    pub bytes: usize,
    /// Stretches on their way, by their first task.
    asked: BTreeMap<Seq, Asked>,
}

#[derive(Debug)]
struct Asked {
    last: Seq,
    /// Tasks that will not be asked for any more.
    gone: Vec<(Seq, Seq)>,
}

impl SchedulerPages {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.asked.is_empty()
    }

    pub(crate) fn put(&mut self, page: Page) {
        self.bytes += page.bytes;
        self.by_rank.insert((page.rank, page.first));
        self.pages.insert(page.first, page);
    }

    /// The body of a task, which is given out.
    pub(crate) fn take(&mut self, seq: Seq) -> Option<Body> {
        let body = self.page_of(seq)?.body(seq);
        self.spend(seq, seq);
        body
    }

    /// The tasks `first..=last` will not be asked for any more, whether their bodies are here or on
    /// their way.
    pub(crate) fn spend(&mut self, first: Seq, last: Seq) {
        let touched: Vec<Seq> = overlapping(&self.pages, first, last, Page::last).collect();
        for at in touched {
            if let Some(page) = self.pages.get_mut(&at) {
                page.spend(first, last);
                if page.is_spent() {
                    self.drop_page(at);
                }
            }
        }
        let asked: Vec<Seq> = overlapping(&self.asked, first, last, |asked| asked.last).collect();
        for at in asked {
            self.asked
                .entry(at)
                .and_modify(|asked| asked.gone.push((first, last)));
        }
    }

    /// When the page that is needed last would be needed.
    pub(crate) fn furthest(&self) -> Option<(Rank, Seq)> {
        self.by_rank.last().copied()
    }

    /// Drops the page that is needed last; says which its last task was.
    pub(crate) fn give_way(&mut self) -> Option<Seq> {
        let (_, first) = self.furthest()?;
        let last = self.pages.get(&first).map(Page::last);
        self.drop_page(first);
        last
    }

    /// Drops all pages. What is on its way is only for those who wait for it now.
    pub(crate) fn clear(&mut self) {
        self.asked
            .values_mut()
            .for_each(|asked| asked.gone = vec![(Seq(0), asked.last)]);
        self.pages.clear();
        self.by_rank.clear();
        self.bytes = 0;
    }

    /// The parts of a range that are neither here nor asked for.
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
            let asked = self
                .asked
                .range(next..)
                .next()
                .map(|(first, _)| first.0 - 1);
            let last = Seq([page, asked].into_iter().flatten().fold(end.0, i64::min));
            parts.push(SeqRange {
                first: next,
                last,
                ..*range
            });
            next = last.plus(1);
        }
        parts
    }

    /// Whether a range is here or on its way as a whole.
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

    /// Notes that a range is on its way.
    pub(crate) fn ask(&mut self, range: &SeqRange) {
        self.asked.insert(
            range.first,
            Asked {
                last: range.last,
                gone: Vec::new(),
            },
        );
    }

    /// The range has arrived, or will not. Says which of its tasks are not needed any more.
    pub(crate) fn answered(&mut self, range: &SeqRange) -> Vec<(Seq, Seq)> {
        self.asked
            .remove(&range.first)
            .map(|asked| asked.gone)
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
        let asked = self
            .asked
            .range(..=seq)
            .next_back()
            .map(|(_, asked)| asked.last)
            .filter(|last| seq <= *last);
        asked.or_else(|| self.page_of(seq).map(Page::last))
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
