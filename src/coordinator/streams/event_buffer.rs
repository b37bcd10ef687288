//! Recent durable events of the schedulers that are being watched. There is no queue per stream: a
//! stream is a cursor into a ring, and what has left the ring is read from the journal.
//!
//! All rings together have one budget of bytes; the largest gives way first, so that a busy
//! scheduler does not push out the recent events of others. Readers do not hold up the loop: they
//! only clone references under the ring's lock.

use super::event_ring::EventRing;
use crate::{
    coordinator::machine::Release,
    core::{CompletionRecord, DoneNo, Handle, Progress},
};
use rustc_hash::FxHashMap;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Bytes of memory that all rings hold together.
const BUDGET_BYTES: usize = 32 << 20;

/// The buffers of all watched schedulers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventBuffers(Arc<Mutex<Rings>>);

#[derive(Debug)]
struct Rings {
    buffers: FxHashMap<Handle, Arc<EventBuffer>>,
    /// Rings that are not empty, by their size.
    sizes: BTreeSet<(usize, Handle)>,
    bytes: usize,
    budget: usize,
}

/// What the streams of one scheduler share.
#[derive(Debug)]
pub(crate) struct EventBuffer {
    ring: Mutex<EventRing>,
    state: watch::Sender<StreamState>,
}

/// What the streams of a scheduler learn besides its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// Durable progress of the scheduler; `None`: nothing was released since the buffer was opened.
    pub progress: Option<Progress>,
    /// Another replica owns the shard: the streams continue there.
    pub moved: bool,
}

impl Default for EventBuffers {
    fn default() -> Self {
        EventBuffers::new(BUDGET_BYTES)
    }
}

impl EventBuffers {
    fn new(budget: usize) -> Self {
        let rings = Rings {
            buffers: FxHashMap::default(),
            sizes: BTreeSet::new(),
            bytes: 0,
            budget,
        };
        EventBuffers(Arc::new(Mutex::new(rings)))
    }

    /// The buffer of a scheduler, shared by all its streams; it lives as long as one of them.
    pub(crate) fn open(&self, handle: Handle) -> Arc<EventBuffer> {
        lock(&self.0)
            .buffers
            .entry(handle)
            .or_insert_with(|| Arc::new(EventBuffer::new()))
            .clone()
    }

    /// A stream has ended; the buffer is dropped with the last one.
    pub(crate) fn close(&self, handle: Handle, buffer: Arc<EventBuffer>) {
        let mut rings = lock(&self.0);
        drop(buffer);
        let unread = rings
            .buffers
            .get(&handle)
            .is_some_and(|buffer| Arc::strong_count(buffer) == 1);
        let gone = if unread { rings.remove(handle) } else { None };
        drop(rings);
        // The memory is freed after the lock is released.
        drop(gone);
    }

    /// Another replica owns the shard: every stream continues there.
    pub(crate) fn move_away(&self) {
        let mut rings = lock(&self.0);
        for (_, buffer) in rings.buffers.drain() {
            *lock(&buffer.ring) = EventRing::default();
            buffer.state.send_modify(|state| state.moved = true);
        }
        rings.sizes.clear();
        rings.bytes = 0;
    }

    /// Makes what a durable batch brought visible to the streams.
    pub(crate) fn publish(&self, release: &Release) {
        let mut rings = lock(&self.0);
        if rings.buffers.is_empty() {
            return;
        }
        for record in release
            .batch
            .iter()
            .flat_map(|batch| &batch.records.completions)
        {
            rings.push(record);
        }
        for (handle, progress) in &release.progress {
            if let Some(buffer) = rings.buffers.get(handle) {
                buffer.state.send_if_modified(|state| {
                    let before = state.progress.replace(progress.clone());
                    before.is_none_or(|before| !only_grew(&before, progress))
                });
            }
        }
    }
}

/// Whether tasks were submitted, and nothing else has happened: no stream has anything to say of
/// that, so none is woken.
fn only_grew(before: &Progress, now: &Progress) -> bool {
    let Progress {
        done_no,
        pending,
        blocked,
        halt,
        released,
    } = now;
    *pending > before.pending
        && (done_no, blocked) == (&before.done_no, &before.blocked)
        && (halt, released) == (&before.halt, &before.released)
}

impl Rings {
    fn push(&mut self, record: &Arc<CompletionRecord>) {
        self.change(record.handle, |ring| ring.push(record.clone()));
        while self.bytes > self.budget
            && let Some((_, largest)) = self.sizes.last().copied()
        {
            self.change(largest, EventRing::drop_oldest);
        }
    }

    fn remove(&mut self, handle: Handle) -> Option<Arc<EventBuffer>> {
        let buffer = self.buffers.remove(&handle)?;
        let bytes = lock(&buffer.ring).bytes;
        self.bytes -= bytes;
        self.sizes.remove(&(bytes, handle));
        Some(buffer)
    }

    /// Changes the ring of a watched scheduler and updates the sums.
    fn change(&mut self, handle: Handle, change: impl FnOnce(&mut EventRing)) {
        let Some(buffer) = self.buffers.get(&handle) else {
            return;
        };
        let mut ring = lock(&buffer.ring);
        let before = ring.bytes;
        change(&mut ring);
        self.bytes = self.bytes - before + ring.bytes;
        self.sizes.remove(&(before, handle));
        if ring.bytes > 0 {
            self.sizes.insert((ring.bytes, handle));
        }
    }
}

impl EventBuffer {
    fn new() -> Self {
        EventBuffer {
            ring: Mutex::default(),
            state: watch::channel(StreamState::default()).0,
        }
    }

    /// Notifies what a stream may have to say something of.
    pub(crate) fn subscribe(&self) -> watch::Receiver<StreamState> {
        self.state.subscribe()
    }

    /// See [`EventRing::read`].
    pub(crate) fn read(&self, after: DoneNo, max_bytes: usize) -> Vec<Arc<CompletionRecord>> {
        lock(&self.ring).read(after, max_bytes)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{super::event_ring::events_after, *};
    use crate::{
        coordinator::streams::event_ring::fixtures::{handle, large, numbers, record},
        core::Tally,
    };

    /// Records in the ring of a scheduler.
    fn buffered(buffer: &EventBuffer) -> usize {
        lock(&buffer.ring).len()
    }

    #[test]
    fn a_cursor_before_the_ring_reads_nothing_from_it() {
        let buffers = EventBuffers::new(100 << 10);
        let buffer = buffers.open(handle(1));
        for no in 0..1_000 {
            lock(&buffers.0).push(&Arc::new(record(1 + no * 2, &[1, 1])));
        }
        assert!(buffer.read(DoneNo(0), 10).is_empty());
        let events = |after| {
            buffer
                .read(after, 10 << 10)
                .iter()
                .flat_map(|record| numbers(events_after(record, after)))
                .count()
        };
        assert_eq!(events(DoneNo(1_997)), 3);
    }

    #[test]
    fn all_rings_together_stay_within_the_budget_and_the_largest_gives_way() {
        let buffers = EventBuffers::new(1 << 20);
        let (busy, calm) = (buffers.open(handle(1)), buffers.open(handle(2)));
        lock(&buffers.0).push(&large(2, 1, 10 << 10));
        for no in 1..=100 {
            lock(&buffers.0).push(&large(1, no, 100 << 10));
            assert!(lock(&buffers.0).bytes <= 1 << 20, "after {no} events");
        }
        assert_eq!((buffered(&busy), buffered(&calm)), (10, 1));
        lock(&buffers.0).push(&large(2, 2, 2 << 20));
        assert_eq!(
            (buffered(&busy), buffered(&calm)),
            (10, 0),
            "an event larger than the budget is not buffered"
        );
    }

    #[test]
    fn the_memory_of_a_ring_is_freed_with_its_last_reader() {
        let buffers = EventBuffers::new(1 << 20);
        let (one, other) = (buffers.open(handle(1)), buffers.open(handle(1)));
        lock(&buffers.0).push(&large(1, 1, 1 << 10));
        buffers.close(handle(1), one);
        assert!(lock(&buffers.0).bytes > 0);
        buffers.close(handle(1), other);
        assert!(lock(&buffers.0).bytes == 0 && lock(&buffers.0).sizes.is_empty());
        let moved = buffers.open(handle(1));
        lock(&buffers.0).push(&large(1, 1, 1 << 10));
        buffers.move_away();
        assert_eq!((lock(&buffers.0).bytes, buffered(&moved)), (0, 0));
    }

    #[test]
    fn streams_are_woken_by_all_but_a_submission() {
        let buffers = EventBuffers::new(1 << 20);
        let buffer = buffers.open(handle(1));
        let mut stream = buffer.subscribe();
        let mut wakes = |progress: &Progress| {
            buffers.publish(&Release {
                batch: None,
                actions: Vec::new(),
                progress: vec![(handle(1), progress.clone())],
                over: Vec::new(),
                tally: Tally::default(),
            });
            let seen = stream.has_changed().unwrap();
            assert_eq!(stream.borrow_and_update().progress.as_ref(), Some(progress));
            seen
        };
        let mut progress = Progress::default();
        assert!(wakes(&progress), "the first one");
        progress.pending = 2;
        assert!(!wakes(&progress), "two tasks submitted");
        (progress.pending, progress.done_no) = (1, DoneNo(1));
        assert!(wakes(&progress), "one of them ended");
        (progress.pending, progress.done_no) = (4, DoneNo(2));
        assert!(wakes(&progress), "one ended, and others were submitted");
        (progress.pending, progress.blocked) = (5, 5);
        assert!(wakes(&progress), "one submitted behind a halt");
        (progress.pending, progress.released) = (6, true);
        assert!(wakes(&progress), "one submitted, and released");
    }

    #[test]
    fn a_reader_takes_no_more_than_it_asks_for() {
        let buffers = EventBuffers::new(10 << 20);
        let buffer = buffers.open(handle(1));
        (1..=50).for_each(|no| lock(&buffers.0).push(&large(1, no, 100 << 10)));
        assert_eq!(
            buffer
                .read(DoneNo(7), 150 << 10)
                .iter()
                .map(|record| record.first_done_no.0)
                .collect::<Vec<_>>(),
            [8, 9]
        );
    }
}
