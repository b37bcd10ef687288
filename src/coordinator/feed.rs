//! Recent durable events of the schedulers that somebody watches. There is no queue per stream: a stream is a cursor
//! into a bounded ring, and what has left the ring is read from the journal.

use super::machine::Release;
use crate::core::{CompletionRecord, Done, DoneNo, Handle, Progress};
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Outcomes a ring holds.
const RING: usize = 4_096;

/// The feeds of all watched schedulers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Feeds(Arc<Mutex<FxHashMap<Handle, Arc<Feed>>>>);

/// What streams of one scheduler share.
#[derive(Debug)]
pub(super) struct Feed {
    ring: Mutex<Ring>,
    told: watch::Sender<Told>,
}

/// What a feed tells besides its events.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// How far the scheduler durably is; `None`: nothing was released since the feed was opened.
    pub progress: Option<Progress>,
    /// It is told elsewhere from now on: the shard is another replica's.
    pub moved: bool,
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<Arc<CompletionRecord>>,
    outcomes: usize,
}

impl Feeds {
    /// The feed of a scheduler, shared by all its streams; it lives as long as one of them.
    pub fn open(&self, handle: Handle) -> Arc<Feed> {
        lock(&self.0).entry(handle).or_insert_with(|| Arc::new(Feed::new())).clone()
    }

    /// A stream has ended: without a reader the feed goes.
    pub fn close(&self, handle: Handle, feed: Arc<Feed>) {
        let mut feeds = lock(&self.0);
        drop(feed);
        if feeds.get(&handle).is_some_and(|feed| Arc::strong_count(feed) == 1) {
            feeds.remove(&handle);
        }
    }

    /// The shard is another replica's: every stream goes on there.
    pub fn move_away(&self) {
        for (_, feed) in lock(&self.0).drain() {
            feed.told.send_modify(|told| told.moved = true);
        }
    }

    /// Makes what a durable batch brought visible to the streams.
    pub fn publish(&self, release: &Release) {
        let feeds = lock(&self.0);
        if feeds.is_empty() {
            return;
        }
        for record in release.batch.iter().flat_map(|batch| &batch.records.completions) {
            if let Some(feed) = feeds.get(&record.handle) {
                lock(&feed.ring).push(record.clone());
            }
        }
        for (handle, progress) in &release.progress {
            if let Some(feed) = feeds.get(handle) {
                feed.told.send_modify(|told| told.progress = Some(progress.clone()));
            }
        }
    }
}

impl Feed {
    fn new() -> Self {
        Feed { ring: Mutex::default(), told: watch::channel(Told::default()).0 }
    }

    /// Tells each change.
    pub fn subscribe(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    /// Events after `after`, about `most` of them; `None`: the ring does not reach back so far.
    pub fn read(&self, after: DoneNo, most: usize) -> Option<Vec<(DoneNo, Done)>> {
        let ring = lock(&self.ring);
        let at = ring.records.partition_point(|record| record.last_done_no() <= after);
        if ring.records.get(at)?.first_done_no.0 > after.0 + 1 {
            return None;
        }
        let mut events = Vec::new();
        let mut count = 0;
        for record in ring.records.range(at..) {
            for (done_no, done) in events_after(record, after) {
                count += done.count as usize;
                events.push((done_no, done));
                if count >= most {
                    return Some(events);
                }
            }
        }
        Some(events)
    }
}

impl Ring {
    fn push(&mut self, record: Arc<CompletionRecord>) {
        // Outcomes that became durable unseen, before a change of owner, leave a gap: what lies before it is of no use.
        if self.records.back().is_some_and(|last| last.last_done_no().0 + 1 != record.first_done_no.0) {
            *self = Ring::default();
        }
        self.outcomes += record.done.len();
        self.records.push_back(record);
        while self.outcomes > RING
            && self.records.len() > 1
            && let Some(old) = self.records.pop_front()
        {
            self.outcomes -= old.done.len();
        }
    }
}

/// The events of a record after `after`, each with the number of its first task's event.
pub(super) fn events_after(record: &CompletionRecord, after: DoneNo) -> impl Iterator<Item = (DoneNo, Done)> {
    let mut next = record.first_done_no.0;
    record.done.iter().filter_map(move |done| {
        let first = next;
        next += i64::from(done.count);
        let skipped = (after.0 + 1 - first).clamp(0, i64::from(done.count)) as u32;
        let count = done.count - skipped;
        let rest = || Done { first: done.first.plus(skipped), count, ..done.clone() };
        (count > 0).then(|| (DoneNo(first + i64::from(skipped)), rest()))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Outcome, Seq, ShardId, Time};

    fn record(first_done_no: i64, counts: &[u32]) -> CompletionRecord {
        let done = |first: i64, count: u32| Done {
            first: Seq(first),
            count,
            order: None,
            outcome: Outcome::Succeeded,
            attempt: Attempt(1),
            started: None,
            ended: Time(0),
            slot: 0,
            backend_pid: 0,
            error: None,
            result: None,
        };
        let mut first = 100;
        let done = counts.iter().map(|count| (done(first, *count), first += i64::from(*count)).0).collect();
        CompletionRecord { handle: Handle::new(ShardId(0), 1, [0; 10]), first_done_no: DoneNo(first_done_no), done }
    }

    fn numbers(events: impl Iterator<Item = (DoneNo, Done)>) -> Vec<(i64, i64, u32)> {
        events.map(|(no, done)| (no.0, done.first.0, done.count)).collect()
    }

    #[test]
    fn a_cursor_inside_a_span_gets_the_rest_of_it() {
        let record = record(5, &[3, 4]);
        assert_eq!(numbers(events_after(&record, DoneNo(0))), [(5, 100, 3), (8, 103, 4)]);
        assert_eq!(numbers(events_after(&record, DoneNo(6))), [(7, 102, 1), (8, 103, 4)]);
        assert_eq!(numbers(events_after(&record, DoneNo(9))), [(10, 105, 2)]);
        assert_eq!(numbers(events_after(&record, DoneNo(11))), []);
    }

    #[test]
    fn a_gap_in_the_ring_is_never_skipped() {
        let feed = Feed::new();
        for first in [1, 2, 5] {
            lock(&feed.ring).push(Arc::new(record(first, &[1])));
        }
        assert!(feed.read(DoneNo(1), 10).is_none());
        assert_eq!(feed.read(DoneNo(4), 10).map(|events| events.len()), Some(1));
    }

    #[test]
    fn the_ring_says_when_it_does_not_reach_back() {
        let feed = Feed::new();
        for no in 0..RING as i64 {
            lock(&feed.ring).push(Arc::new(record(1 + no * 2, &[1, 1])));
        }
        assert!(feed.read(DoneNo(0), 10).is_none());
        assert_eq!(feed.read(DoneNo(RING as i64 * 2 - 3), 10).map(|events| events.len()), Some(3));
    }
}
