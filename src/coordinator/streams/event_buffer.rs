//! Recent durable events of the schedulers that somebody watches. There is no queue per stream: a
//! stream is a cursor into a ring, and what has left the ring is read from the journal.
//!
//! All rings together have one budget of bytes; the fullest gives way first, so that a busy
//! scheduler does not push out what others have just been told. The loop's thread never waits while
//! somebody reads: a reader takes references under the ring's lock, and takes them apart outside of
//! it.

use crate::coordinator::machine::Release;
use crate::core::{CompletionRecord, Done, DoneNo, Handle, Progress};
use rustc_hash::FxHashMap;
use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Bytes of memory that all rings hold together.
const BUDGET: usize = 32 << 20;

/// The buffers of all watched schedulers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventBuffers(Arc<Mutex<Rings>>);

#[derive(Debug)]
struct Rings {
    buffers: FxHashMap<Handle, Arc<EventBuffer>>,
    /// Rings that hold something, by their size.
    sizes: BTreeSet<(usize, Handle)>,
    bytes: usize,
    budget: usize,
}

/// What streams of one scheduler share.
#[derive(Debug)]
pub(crate) struct EventBuffer {
    ring: Mutex<Ring>,
    told: watch::Sender<StreamState>,
}

/// What a buffer tells besides its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    /// How far the scheduler durably is; `None`: nothing was released since the buffer was opened.
    pub progress: Option<Progress>,
    /// It is told elsewhere from now on: the shard is another replica's.
    pub moved: bool,
}

#[derive(Debug, Default)]
struct Ring {
    kept: VecDeque<BufferedRow>,
    bytes: usize,
}

#[derive(Debug)]
struct BufferedRow {
    record: Arc<CompletionRecord>,
    last: DoneNo,
    bytes: usize,
}

impl Default for EventBuffers {
    fn default() -> Self {
        EventBuffers::new(BUDGET)
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

    /// A stream has ended: without a reader the buffer goes.
    pub(crate) fn close(&self, handle: Handle, buffer: Arc<EventBuffer>) {
        let mut rings = lock(&self.0);
        drop(buffer);
        let unread = rings
            .buffers
            .get(&handle)
            .is_some_and(|buffer| Arc::strong_count(buffer) == 1);
        let gone = if unread { rings.remove(handle) } else { None };
        drop(rings);
        // Its memory is given back while nobody waits for the lock.
        drop(gone);
    }

    /// The shard is another replica's: every stream goes on there.
    pub(crate) fn move_away(&self) {
        let mut rings = lock(&self.0);
        for (_, buffer) in rings.buffers.drain() {
            *lock(&buffer.ring) = Ring::default();
            buffer.told.send_modify(|told| told.moved = true);
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
                buffer
                    .told
                    .send_modify(|told| told.progress = Some(progress.clone()));
            }
        }
    }
}

impl Rings {
    fn push(&mut self, record: &Arc<CompletionRecord>) {
        self.change(record.handle, |ring| ring.push(record.clone()));
        while self.bytes > self.budget
            && let Some((_, fullest)) = self.sizes.last().copied()
        {
            self.change(fullest, Ring::shorten);
        }
    }

    fn remove(&mut self, handle: Handle) -> Option<Arc<EventBuffer>> {
        let buffer = self.buffers.remove(&handle)?;
        let bytes = lock(&buffer.ring).bytes;
        self.bytes -= bytes;
        self.sizes.remove(&(bytes, handle));
        Some(buffer)
    }

    /// Changes a ring that somebody reads, and counts its bytes anew.
    fn change(&mut self, handle: Handle, change: impl FnOnce(&mut Ring)) {
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
            told: watch::channel(StreamState::default()).0,
        }
    }

    /// Tells each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<StreamState> {
        self.told.subscribe()
    }

    /// The records that hold the events after `after`, of about `most_bytes`; none: the ring does
    /// not reach back so far.
    pub(crate) fn read(&self, after: DoneNo, most_bytes: usize) -> Vec<Arc<CompletionRecord>> {
        let ring = lock(&self.ring);
        let at = ring.kept.partition_point(|kept| kept.last <= after);
        let mut bytes = 0;
        let within = |kept: &&BufferedRow| {
            let before = bytes;
            bytes += kept.bytes;
            before < most_bytes
        };
        match ring.kept.get(at) {
            Some(first) if first.record.first_done_no.0 <= after.0 + 1 => ring
                .kept
                .range(at..)
                .take_while(within)
                .map(|kept| kept.record.clone())
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Ring {
    fn push(&mut self, record: Arc<CompletionRecord>) {
        // Outcomes that became durable unseen, before a change of owner, leave a gap: what lies
        // before it is of no use.
        if self
            .kept
            .back()
            .is_some_and(|newest| newest.last.0 + 1 != record.first_done_no.0)
        {
            *self = Ring::default();
        }
        let (last, bytes) = (record.last_done_no(), size(&record));
        self.bytes += bytes;
        self.kept.push_back(BufferedRow {
            record,
            last,
            bytes,
        });
    }

    /// Lets go of the oldest record.
    fn shorten(&mut self) {
        self.bytes -= self.kept.pop_front().map_or(0, |oldest| oldest.bytes);
    }
}

/// Bytes of memory.
fn size(record: &CompletionRecord) -> usize {
    let payload = |done: &Done| {
        let error = done
            .error
            .as_ref()
            .map_or(0, |error| error.code.len() + error.message.len());
        error
            + done
                .result
                .as_ref()
                .map_or(0, |result| result.rows_json.len())
    };
    let fixed = mem::size_of::<BufferedRow>()
        + mem::size_of::<CompletionRecord>()
        + record.done.capacity() * mem::size_of::<Done>();
    fixed + record.done.iter().map(payload).sum::<usize>()
}

/// The events of a record after `after`, each with the number of its first task's event.
pub(crate) fn events_after(
    record: &CompletionRecord,
    after: DoneNo,
) -> impl Iterator<Item = (DoneNo, Done)> {
    let mut next = record.first_done_no.0;
    record.done.iter().filter_map(move |done| {
        let first = next;
        next += i64::from(done.count);
        let skipped = (after.0 + 1 - first).clamp(0, i64::from(done.count)) as u32;
        let count = done.count - skipped;
        let rest = || Done {
            first: done.first.plus(skipped),
            count,
            ..done.clone()
        };
        (count > 0).then(|| (DoneNo(first + i64::from(skipped)), rest()))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Outcome, Seq, ShardId, TaskResult, Time};

    fn handle(number: u64) -> Handle {
        Handle::new(ShardId(0), number, [0; 10])
    }

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
        let done = counts
            .iter()
            .map(|count| (done(first, *count), first += i64::from(*count)).0)
            .collect();
        CompletionRecord {
            handle: handle(1),
            first_done_no: DoneNo(first_done_no),
            done,
        }
    }

    /// One event with a result of so many bytes.
    fn large(of: u64, done_no: i64, bytes: usize) -> Arc<CompletionRecord> {
        let mut record = record(done_no, &[1]);
        record.handle = handle(of);
        record.done[0].result = Some(Arc::new(TaskResult {
            rows_json: vec![b'1'; bytes].into(),
            ..TaskResult::default()
        }));
        Arc::new(record)
    }

    fn numbers(events: impl Iterator<Item = (DoneNo, Done)>) -> Vec<(i64, i64, u32)> {
        events
            .map(|(no, done)| (no.0, done.first.0, done.count))
            .collect()
    }

    /// How many records the ring of a scheduler holds.
    fn kept(buffer: &EventBuffer) -> usize {
        lock(&buffer.ring).kept.len()
    }

    #[test]
    fn a_cursor_inside_a_span_gets_the_rest_of_it() {
        let record = record(5, &[3, 4]);
        assert_eq!(
            numbers(events_after(&record, DoneNo(0))),
            [(5, 100, 3), (8, 103, 4)]
        );
        assert_eq!(
            numbers(events_after(&record, DoneNo(6))),
            [(7, 102, 1), (8, 103, 4)]
        );
        assert_eq!(numbers(events_after(&record, DoneNo(9))), [(10, 105, 2)]);
        assert_eq!(numbers(events_after(&record, DoneNo(11))), []);
    }

    #[test]
    fn a_gap_in_the_ring_is_never_skipped() {
        let buffer = EventBuffer::new();
        for first in [1, 2, 5] {
            lock(&buffer.ring).push(Arc::new(record(first, &[1])));
        }
        assert!(buffer.read(DoneNo(1), 1 << 20).is_empty());
        assert_eq!(buffer.read(DoneNo(4), 1 << 20).len(), 1);
    }

    #[test]
    fn the_ring_says_when_it_does_not_reach_back() {
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
    fn all_rings_together_stay_within_the_budget_and_the_fullest_gives_way() {
        let buffers = EventBuffers::new(1 << 20);
        let (busy, calm) = (buffers.open(handle(1)), buffers.open(handle(2)));
        lock(&buffers.0).push(&large(2, 1, 10 << 10));
        for no in 1..=100 {
            lock(&buffers.0).push(&large(1, no, 100 << 10));
            assert!(lock(&buffers.0).bytes <= 1 << 20, "after {no} events");
        }
        assert_eq!((kept(&busy), kept(&calm)), (10, 1));
        lock(&buffers.0).push(&large(2, 2, 2 << 20));
        assert_eq!(
            (kept(&busy), kept(&calm)),
            (10, 0),
            "what is over the budget alone is kept by nobody"
        );
    }

    #[test]
    fn what_a_ring_held_is_given_back_with_its_last_reader() {
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
        assert_eq!((lock(&buffers.0).bytes, kept(&moved)), (0, 0));
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
