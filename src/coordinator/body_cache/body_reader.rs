//! Reading bodies back: which ranges are to be read ahead of dispatch, and what a read has brought.
//!
//! Costs nothing while no body is missing. A range is never asked for twice at the same time.

use super::{
    Arrival, Bodies, LOOKAHEAD_SCHEDULERS,
    page::{Page, Rank},
};
use crate::{
    core::{Assignment, Handle, Seq, SeqRange, Shard},
    journal::BodyChunk,
};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Tasks of a scheduler whose bodies should be in memory before their turn comes.
const LOOKAHEAD_TASKS: u32 = 256;
/// Tasks whose bodies are requested when some of the next [`LOOKAHEAD_TASKS`] are missing.
const READAHEAD_TASKS: u32 = 4_096;
/// Ranges of one scheduler in one look ahead, at most.
const MAX_LOOKAHEAD_RANGES: usize = 256;
/// Ranges in one read, at most.
const MAX_RANGES_PER_READ: usize = 64;
/// Ranges that may wait to be read, besides those that an assignment waits for.
const MAX_QUEUED_RANGES: usize = 1_024;
/// What the storage does not give for so long is taken for damaged; two errors that are further
/// apart are about different things.
const DAMAGED_AFTER: Duration = Duration::from_secs(15);
/// Bytes that a scheduler whose turn is near may hold, whatever others hold.
const GUARANTEED_BYTES: usize = 128 << 10;

impl Bodies {
    /// Requests the missing bodies of tasks whose turn is near. Returns whether there is something
    /// to read.
    pub fn look_ahead(&mut self, core: &Shard) -> bool {
        if !self.dispatched.is_empty() {
            let mut near: Vec<Handle> = self.dispatched.drain().collect();
            near.sort_unstable();
            near.extend(
                core.in_line(LOOKAHEAD_SCHEDULERS)
                    .into_iter()
                    .filter(|handle| self.spilled.contains_key(handle)),
            );
            for handle in near {
                self.look_ahead_of(core, handle);
            }
        }
        !self.read_queue.is_empty()
    }

    fn look_ahead_of(&mut self, core: &Shard, handle: Handle) {
        // What cannot be read is not read again before somebody needs it.
        if self.read_alone.contains(&handle) {
            return;
        }
        // Later tasks are in memory, or not durable yet.
        let Some(last) = self.spilled.get(&handle).copied() else {
            return;
        };
        let durable = |mut ranges: Vec<SeqRange>| {
            ranges.retain_mut(|range| {
                range.last = range.last.min(last);
                range.first <= last
            });
            ranges
        };
        let next = durable(core.upcoming(handle, LOOKAHEAD_TASKS, MAX_LOOKAHEAD_RANGES));
        let covered = match self.store.get(handle) {
            Some(pages) => next.iter().all(|range| pages.covers(range)),
            None => next.is_empty(),
        };
        if covered {
            return;
        }
        for range in durable(core.upcoming(handle, READAHEAD_TASKS, MAX_LOOKAHEAD_RANGES)) {
            if self.read_queue.len() >= MAX_QUEUED_RANGES {
                return;
            }
            let pages = self.store.entry(handle);
            for part in pages.missing(&range) {
                pages.request(&part);
                self.read_queue.push_back(part);
            }
        }
    }

    /// What to read next; `None`: nothing.
    pub fn next_read(&mut self) -> Option<Vec<SeqRange>> {
        let is_alone = |range: &SeqRange| self.read_alone.contains(&range.handle);
        let together = self.read_queue.iter().take(MAX_RANGES_PER_READ);
        let together = together.take_while(|range| !is_alone(range)).count();
        let count = together.max(1).min(self.read_queue.len());
        (count > 0).then(|| self.read_queue.drain(..count).collect())
    }

    /// A read has failed and is to be tried again.
    pub fn read_failed(&mut self, ranges: Vec<SeqRange>) {
        for range in ranges.into_iter().rev() {
            self.read_queue.push_front(range);
        }
    }

    /// A read has failed, and the database is there: each of the ranges is read alone, after what
    /// else there is to read.
    pub fn read_apart(&mut self, ranges: Vec<SeqRange>) {
        self.read_alone
            .extend(ranges.iter().map(|range| range.handle));
        self.read_queue.extend(ranges);
    }

    /// A range cannot be read: of its tasks those are read again, one by one, whose body somebody
    /// waits for.
    pub fn read_singly(&mut self, range: &SeqRange) {
        self.read_alone.insert(range.handle);
        if let Some(pages) = self.store.get_mut(range.handle) {
            pages.answered(range);
        }
        for first in self.waiting_within(range.handle, range.first, range.last) {
            self.read_soon(range.handle, first);
        }
        self.store.drop_if_empty(range.handle);
    }

    /// Whether somebody waits for the body of a task.
    pub fn is_awaited(&self, handle: Handle, first: Seq) -> bool {
        self.waiting.contains_key(&(handle, first))
    }

    /// Notes that the storage does not give a body of this scheduler that somebody waits for.
    /// Returns whether it is damaged: that has been so for [`DAMAGED_AFTER`], since it gave what it
    /// had not, or nothing was asked for a while.
    pub fn note_withheld(&mut self, handle: Handle) -> bool {
        let now = Instant::now();
        let (first, last) = self.withheld.entry(handle).or_insert((now, now));
        if now.duration_since(*last) > DAMAGED_AFTER {
            *first = now;
        }
        *last = now;
        now.duration_since(*first) >= DAMAGED_AFTER
    }

    /// It gives what it did not.
    pub fn is_given_again(&mut self, handle: Handle) {
        self.withheld.remove(&handle);
    }

    /// The body of a task is not read again. Returns the assignment that waits for it.
    pub fn give_up(&mut self, task: &SeqRange) -> Option<Assignment> {
        self.read_alone.insert(task.handle);
        if let Some(pages) = self.store.get_mut(task.handle) {
            pages.answered(task);
        }
        self.store.drop_if_empty(task.handle);
        self.waiting.remove(&(task.handle, task.first))
    }

    /// What a read of `ranges` brought: all of them, or the first part.
    pub fn arrived(&mut self, ranges: &[SeqRange], chunks: Vec<BodyChunk>) -> Arrival {
        let (mut arrival, found) = (Arrival::default(), !chunks.is_empty());
        let mut spent: FxHashMap<Handle, Vec<(Seq, Seq)>> = FxHashMap::default();
        for range in ranges {
            if let Some(pages) = self.store.get_mut(range.handle) {
                let of_range = pages.answered(range);
                spent.entry(range.handle).or_default().extend(of_range);
            }
        }
        for chunk in chunks {
            let (handle, rank) = (chunk.handle, rank(ranges, &chunk));
            let mut page = Page::of_chunk(chunk, rank);
            self.serve(handle, &mut page, &mut arrival);
            for (first, last) in spent.get(&handle).into_iter().flatten() {
                page.spend(*first, *last);
            }
            self.put(handle, page, GUARANTEED_BYTES);
        }
        for range in ranges {
            self.read_alone.remove(&range.handle);
        }
        for range in ranges {
            let is_awaited = || {
                !self
                    .waiting_within(range.handle, range.first, range.last)
                    .is_empty()
            };
            if !found && ranges.len() > 1 && is_awaited() {
                // The first rows may have left no room for the others.
                self.read_alone.insert(range.handle);
            }
            let is_lost = !found && ranges.len() == 1;
            self.read_rest(range, is_lost, &mut arrival);
            self.store.drop_if_empty(range.handle);
        }
        arrival
    }

    /// Gives the bodies of a page to the assignments that wait for them.
    fn serve(&mut self, handle: Handle, page: &mut Page, arrival: &mut Arrival) {
        for first in self.waiting_within(handle, page.first, page.last()) {
            let body = page.body(first);
            page.spend(first, first);
            let assignment = self.waiting.remove(&(handle, first));
            let ready = assignment.map(|assignment| (assignment, body));
            arrival.ready.extend(ready);
        }
    }

    /// Requests again, one by one, the bodies in an answered range that assignments still wait for.
    /// `is_lost`: nothing was found, and nothing else was looked for.
    fn read_rest(&mut self, range: &SeqRange, is_lost: bool, arrival: &mut Arrival) {
        if is_lost && range.first == range.last {
            let lost = self.waiting.remove(&(range.handle, range.first));
            arrival.lost.extend(lost);
            return;
        }
        for first in self.waiting_within(range.handle, range.first, range.last) {
            self.read_soon(range.handle, first);
        }
    }

    fn waiting_within(&self, handle: Handle, first: Seq, last: Seq) -> Vec<Seq> {
        let keys = (handle, first)..=(handle, last);
        let waiting = self.waiting.range(keys);
        waiting.map(|((_, first), _)| *first).collect()
    }

    /// Requests the body of a task before all others.
    pub(super) fn read_soon(&mut self, handle: Handle, seq: Seq) {
        let range = SeqRange {
            handle,
            first: seq,
            last: seq,
            order: None,
        };
        let pages = self.store.entry(handle);
        if !pages.covers(&range) {
            pages.request(&range);
            self.read_queue.push_front(range);
        }
    }
}

/// How soon a chunk is needed: the order of the range it was read for.
fn rank(ranges: &[SeqRange], chunk: &BodyChunk) -> Rank {
    let range = ranges.iter().find(|range| {
        range.handle == chunk.handle && range.first <= chunk.first && chunk.first <= range.last
    });
    let order = range.and_then(|range| range.order);
    Rank(order.map_or(-1, |order| order.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Namespace, SessionReset, ShardId, Spec, TaskOptions, Work};
    use std::sync::Arc;

    fn range(number: u8) -> SeqRange {
        SeqRange {
            handle: Handle::new(ShardId(0), 1, [number; 10]),
            first: Seq(1),
            last: Seq(9),
            order: None,
        }
    }

    #[test]
    fn ranges_that_cannot_be_read_together_are_read_apart_after_the_others() {
        let mut bodies = Bodies::new(1 << 20);
        let next = |bodies: &mut Bodies| {
            let ranges = bodies.next_read().unwrap_or_default();
            ranges.iter().map(|one| one.handle).collect::<Vec<_>>()
        };
        let [one, two, three, four] = [1, 2, 3, 4].map(|number| range(number).handle);
        bodies.read_apart(vec![range(1), range(2)]);
        bodies.read_failed(vec![range(3), range(4)]);
        assert_eq!(next(&mut bodies), [three, four]);
        assert_eq!(next(&mut bodies), [one]);
        assert_eq!(next(&mut bodies), [two]);
        assert_eq!(next(&mut bodies), []);
        // What could be read is read with others again.
        bodies.read_singly(&range(1));
        bodies.arrived(&[range(2)], Vec::new());
        bodies.read_failed(vec![range(2), range(3), range(1)]);
        assert_eq!(next(&mut bodies), [two, three]);
        assert_eq!(next(&mut bodies), [one]);
    }

    #[test]
    fn a_body_that_did_not_come_is_read_alone_whatever_else_was_read() {
        let mut bodies = Bodies::new(1 << 20);
        let awaited = SeqRange {
            last: Seq(1),
            ..range(1)
        };
        assert!(bodies.take(assignment(awaited.handle)).is_none());
        let read_ahead = SeqRange {
            first: Seq(2),
            ..range(1)
        };
        assert_eq!(bodies.next_read(), Some(vec![awaited]));
        let arrival = bodies.arrived(&[awaited, read_ahead], Vec::new());
        assert!(arrival.ready.is_empty() && arrival.lost.is_empty());
        bodies.read_queue.push_back(range(2));
        assert_eq!(bodies.next_read(), Some(vec![awaited]));
        let lost = bodies.arrived(&[awaited], Vec::new()).lost;
        assert_eq!(lost.len(), 1);
    }

    fn assignment(handle: Handle) -> Assignment {
        let spec = Spec {
            work: Work::Noop,
            options: TaskOptions::default(),
            trace: None,
        };
        Assignment {
            leaves_free: None,
            handle,
            first: Seq(1),
            count: 1,
            attempt: Attempt(1),
            order: None,
            spec: Arc::new(spec),
            namespace: Namespace("default".into()),
            caller: "".into(),
            time_limit: None,
            deadline: None,
            resource_token: None,
            session_reset: SessionReset::Task,
        }
    }
}
