//! Bodies of tasks between their submission and their dispatch, within a budget for the whole
//! replica. What does not fit is read back from the journal by key, ahead of dispatch.
//!
//! Admission is shared fairly: whoever holds most gives way first, and of his bodies those that are
//! needed last. So a backlog of millions never pushes out a small newcomer, and tasks that cannot
//! run yet never hide ones that can. Pure: it says what is to be read, and is told what was; it
//! reads nothing itself.

pub(crate) mod page;
pub(crate) mod prefetch;
pub(crate) mod scheduler_pages;

use crate::{
    assignment::Body,
    core::{
        Assignment, Attempt, CompletionRecord, Handle, Records, RecoveredScheduler, Seq, SeqRange,
        Shard, SubmissionRecord,
    },
    journal::BodyChunk,
};
use page::{Page, Rank};
use rustc_hash::{FxHashMap, FxHashSet};
use scheduler_pages::SchedulerPages;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Tasks of a scheduler whose bodies should be here before their turn comes.
const AHEAD: u32 = 256;
/// Tasks whose bodies are asked for when fewer than `AHEAD` are here, and ranges of them.
const DEEP: u32 = 4_096;
const SPANS: usize = 256;
/// Schedulers next in line that are looked at.
const LINE: usize = 64;
/// Stretches read at once.
const READ: usize = 64;
/// Stretches that may wait to be read, besides those somebody waits for.
const WANTED: usize = 1_024;
/// Bytes everybody whose turn is near may hold, whatever others hold.
const FLOOR: usize = 128 << 10;

/// The bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    shelves: FxHashMap<Handle, SchedulerPages>,
    /// Shelves by their size.
    sizes: BTreeSet<(usize, Handle)>,
    bytes: usize,
    budget: usize,
    /// Schedulers some of whose bodies are not here, and the last durable task of which that is
    /// true.
    spilled: FxHashMap<Handle, Seq>,
    /// Dispatched, and waiting for the body.
    waiting: BTreeMap<(Handle, Seq), Assignment>,
    wanted: VecDeque<SeqRange>,
    /// Schedulers that have been dispatched since the last look ahead.
    moved: FxHashSet<Handle>,
}

/// What a read brought for those who waited.
#[derive(Debug, Default)]
pub struct Arrival {
    /// Assignments whose body is here now.
    pub ready: Vec<(Assignment, Option<Body>)>,
    /// Somebody waits in vain: the journal does not have the body.
    pub lost: Option<(Handle, Seq)>,
}

impl Bodies {
    /// At most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Bodies {
            shelves: FxHashMap::default(),
            sizes: BTreeSet::new(),
            bytes: 0,
            budget,
            spilled: FxHashMap::default(),
            waiting: BTreeMap::new(),
            wanted: VecDeque::new(),
            moved: FxHashSet::default(),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes note of a durable batch: holds the bodies that came, and lets go of those of tasks
    /// that ended without a start.
    pub fn durable(&mut self, records: &Records) {
        records
            .submissions
            .iter()
            .for_each(|record| self.hold(record));
        if !self.shelves.is_empty() {
            records
                .completions
                .iter()
                .for_each(|record| self.ended(record));
        }
    }

    fn hold(&mut self, record: &SubmissionRecord) {
        let Some(page) = Page::of_call(record.first_seq, record.submitted_at, &record.submit)
        else {
            return;
        };
        if self.make_room(record.handle, &page, 0) {
            self.put(record.handle, page);
        } else {
            self.spill(record.handle, page.last());
        }
    }

    fn ended(&mut self, record: &CompletionRecord) {
        if !self.shelves.contains_key(&record.handle) {
            return;
        }
        for done in record.done.iter().filter(|done| done.started.is_none()) {
            self.change(record.handle, |shelf| {
                shelf.spend(done.first, done.first.plus(done.count - 1))
            });
        }
    }

    /// The assignment with its body; `None`: the body is being read, and the assignment waits for
    /// it.
    pub fn take(&mut self, assignment: Assignment) -> Option<(Assignment, Option<Body>)> {
        let (handle, first) = (assignment.handle, assignment.first);
        let body = self.change(handle, |shelf| shelf.take(first)).flatten();
        if body.is_none() {
            // A retry, or spilled.
            self.spill(handle, first);
        }
        if self.spilled.contains_key(&handle) {
            self.moved.insert(handle);
        }
        if body.is_some() {
            return Some((assignment, body));
        }
        self.urge(handle, first);
        self.waiting.insert((handle, first), assignment);
        None
    }

    /// Drops an assignment that waits for its body; it has not begun and will not.
    pub fn stop(&mut self, handle: Handle, first: Seq, attempt: Attempt) -> Option<Assignment> {
        let stopped = self
            .waiting
            .get(&(handle, first))
            .is_some_and(|assignment| assignment.attempt == attempt);
        if stopped {
            self.waiting.remove(&(handle, first))
        } else {
            None
        }
    }

    /// Drops what waits for a body: another owner has come between, and hands it out or has done
    /// so.
    pub fn forsake(&mut self) {
        self.waiting.clear();
    }

    /// Drops what a scheduler will not ask for any more: all its tasks have ended.
    pub fn forget(&mut self, handle: Handle) {
        self.spilled.remove(&handle);
        self.change(handle, SchedulerPages::clear);
    }

    /// Drops all bodies: the core is rebuilt from these. Who waits for a body still runs, and still
    /// gets it.
    pub fn recovered(&mut self, schedulers: &[RecoveredScheduler]) {
        let handles: Vec<Handle> = self.shelves.keys().copied().collect();
        for handle in handles {
            self.change(handle, SchedulerPages::clear);
        }
        let last = |one: &RecoveredScheduler| {
            one.runs
                .last()
                .map(|run| (one.image.handle, run.first.plus(run.count - 1)))
        };
        self.spilled = schedulers.iter().filter_map(last).collect();
        self.moved = self.spilled.keys().copied().take(LINE).collect();
    }

    /// Asks for the bodies of tasks whose turn is near, as far as they are not here. Costs nothing
    /// while nothing is missing. Says whether there is something to read.
    pub fn look_ahead(&mut self, core: &Shard) -> bool {
        if !self.moved.is_empty() {
            let mut near: Vec<Handle> = self.moved.drain().collect();
            near.sort_unstable();
            near.extend(
                core.in_line(LINE)
                    .into_iter()
                    .filter(|handle| self.spilled.contains_key(handle)),
            );
            for handle in near {
                self.look_ahead_of(core, handle);
            }
        }
        !self.wanted.is_empty()
    }

    fn look_ahead_of(&mut self, core: &Shard, handle: Handle) {
        // What is later is here, or not durable yet.
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
        let next = durable(core.upcoming(handle, AHEAD, SPANS));
        let covered = self.shelves.get(&handle).map_or(next.is_empty(), |shelf| {
            next.iter().all(|s| shelf.covers(s))
        });
        if covered {
            return;
        }
        for range in durable(core.upcoming(handle, DEEP, SPANS)) {
            if self.wanted.len() >= WANTED {
                return;
            }
            let shelf = self.shelves.entry(handle).or_default();
            for part in shelf.missing(&range) {
                shelf.ask(&part);
                self.wanted.push_back(part);
            }
        }
    }

    /// What to read next; `None`: nothing.
    pub fn next_read(&mut self) -> Option<Vec<SeqRange>> {
        let most = self.wanted.len().min(READ);
        (most > 0).then(|| self.wanted.drain(..most).collect())
    }

    /// A read has failed: it is to be tried again.
    pub fn unread(&mut self, ranges: Vec<SeqRange>) {
        ranges
            .into_iter()
            .rev()
            .for_each(|range| self.wanted.push_front(range));
    }

    /// What a read of `ranges` brought: all of them, or the first part.
    pub fn arrived(&mut self, ranges: &[SeqRange], chunks: Vec<BodyChunk>) -> Arrival {
        let (mut arrival, came) = (Arrival::default(), !chunks.is_empty());
        let mut gone: FxHashMap<Handle, Vec<(Seq, Seq)>> = FxHashMap::default();
        for range in ranges {
            if let Some(shelf) = self.shelves.get_mut(&range.handle) {
                gone.entry(range.handle)
                    .or_default()
                    .extend(shelf.answered(range));
            }
        }
        for chunk in chunks {
            let handle = chunk.handle;
            let order = ranges
                .iter()
                .find(|s| s.handle == handle && s.first <= chunk.first && chunk.first <= s.last);
            let rank = Rank(
                order
                    .and_then(|range| range.order)
                    .map_or(-1, |order| order.0),
            );
            let mut page = Page::of_chunk(chunk, rank);
            self.serve(handle, &mut page, &mut arrival);
            gone.get(&handle)
                .into_iter()
                .flatten()
                .for_each(|(first, last)| page.spend(*first, *last));
            if self.make_room(handle, &page, FLOOR) {
                self.put(handle, page);
            }
        }
        for range in ranges {
            self.urge_again(range, came, &mut arrival);
            self.tidy(range.handle);
        }
        arrival
    }

    /// Gives the bodies of a page to those who wait for them.
    fn serve(&mut self, handle: Handle, page: &mut Page, arrival: &mut Arrival) {
        let range = (handle, page.first)..=(handle, page.last());
        let firsts: Vec<Seq> = self
            .waiting
            .range(range)
            .map(|((_, first), _)| *first)
            .collect();
        for first in firsts {
            let body = page.body(first);
            page.spend(first, first);
            arrival.ready.extend(
                self.waiting
                    .remove(&(handle, first))
                    .map(|assignment| (assignment, body)),
            );
        }
    }

    /// Who still waits in a range that was answered is asked for again, alone.
    fn urge_again(&mut self, range: &SeqRange, came: bool, arrival: &mut Arrival) {
        let keys = (range.handle, range.first)..=(range.handle, range.last);
        let firsts: Vec<Seq> = self
            .waiting
            .range(keys)
            .map(|((_, first), _)| *first)
            .collect();
        for first in firsts {
            if !came {
                arrival.lost = Some((range.handle, first));
            }
            self.urge(range.handle, first);
        }
    }

    fn urge(&mut self, handle: Handle, seq: Seq) {
        let range = SeqRange {
            handle,
            first: seq,
            last: seq,
            order: None,
        };
        let shelf = self.shelves.entry(handle).or_default();
        if !shelf.covers(&range) {
            shelf.ask(&range);
            self.wanted.push_front(range);
        }
    }

    /// Whether a page finds room, after others have given way: who holds most first, and of his
    /// pages those needed last. A scheduler below `floor`, or with nothing at all, may push out
    /// others who hold as little.
    fn make_room(&mut self, handle: Handle, page: &Page, floor: usize) -> bool {
        if page.is_spent() || page.bytes > self.budget {
            return false;
        }
        let mine = self.shelves.get(&handle).map_or(0, |shelf| shelf.bytes);
        let entitled = floor > 0 && (mine == 0 || mine + page.bytes <= floor);
        while self.bytes + page.bytes > self.budget {
            let Some(&(most, who)) = self.sizes.iter().next_back() else {
                return false;
            };
            let yields = if who == handle || mine + page.bytes >= most && !entitled {
                // One's own later bodies give way to one's sooner ones, nobody else's do.
                let own = self.shelves.get(&handle).and_then(SchedulerPages::furthest);
                own.is_some_and(|furthest| furthest > (page.rank, page.first))
                    .then_some(handle)
            } else {
                Some(who)
            };
            let Some(yields) = yields else { return false };
            if let Some(last) = self.change(yields, SchedulerPages::give_way).flatten() {
                self.spill(yields, last);
            }
        }
        true
    }

    /// The bodies of a scheduler are not all here, up to this task.
    fn spill(&mut self, handle: Handle, last: Seq) {
        let known = self.spilled.entry(handle).or_insert(last);
        *known = last.max(*known);
    }

    fn put(&mut self, handle: Handle, page: Page) {
        self.shelves.entry(handle).or_default();
        self.change(handle, |shelf| shelf.put(page));
    }

    /// Changes a shelf and keeps the sums; an empty one goes.
    fn change<T>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut SchedulerPages) -> T,
    ) -> Option<T> {
        let shelf = self.shelves.get_mut(&handle)?;
        let before = shelf.bytes;
        let outcome = change(shelf);
        let after = shelf.bytes;
        if before != after {
            self.bytes = self.bytes - before + after;
            self.sizes.remove(&(before, handle));
            if after > 0 {
                self.sizes.insert((after, handle));
            }
        }
        self.tidy(handle);
        Some(outcome)
    }

    fn tidy(&mut self, handle: Handle) {
        if self
            .shelves
            .get(&handle)
            .is_some_and(SchedulerPages::is_empty)
        {
            self.shelves.remove(&handle);
        }
    }
}
