//! Bodies of tasks between their submission and their dispatch, within a budget for the whole
//! replica. What does not fit is read back from the journal by key, ahead of dispatch.
//!
//! Invariant: an assignment is handed out with its body, or waits here until its body has been
//! read. Memory is shared fairly (see `page_store`), and tasks that cannot run yet never keep out
//! ones that can. Pure: it returns what is to be read and is given what was read; it reads nothing
//! itself.

mod body_reader;
pub(crate) mod page;
pub(crate) mod page_store;
pub(crate) mod prefetch;
pub(crate) mod scheduler_pages;

use crate::{
    core::{
        Assignment, Attempt, CompletionRecord, Handle, Records, RecoveredScheduler, Seq, SeqRange,
        SubmissionRecord,
    },
    executor_protocol::Body,
};
use page::Page;
use page_store::PageStore;
use rustc_hash::{FxHashMap, FxHashSet};
use scheduler_pages::SchedulerPages;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

/// Schedulers next in line whose bodies are read ahead.
const LOOKAHEAD_SCHEDULERS: usize = 64;

/// The bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    store: PageStore,
    /// Schedulers that have bodies in the journal alone, and the last task with such a body.
    spilled: FxHashMap<Handle, Seq>,
    /// Dispatched, and waiting for the body.
    waiting: BTreeMap<(Handle, Seq), Assignment>,
    /// Ranges to be read next.
    read_queue: VecDeque<SeqRange>,
    /// Schedulers of which a row may be unreadable: each range of theirs is read alone, so that it
    /// costs nobody else anything.
    read_alone: FxHashSet<Handle>,
    /// Schedulers of which the storage does not give a body: the first and the last time that it
    /// did not.
    withheld: FxHashMap<Handle, (Instant, Instant)>,
    /// Spilled schedulers that have been dispatched since the last look ahead.
    dispatched: FxHashSet<Handle>,
}

/// What a read brought for the assignments that waited.
#[derive(Debug, Default)]
pub struct Arrival {
    /// Assignments whose body has arrived.
    pub ready: Vec<(Assignment, Option<Body>)>,
    /// Assignments whose body the journal does not have.
    pub lost: Vec<Assignment>,
}

impl Bodies {
    /// Holds at most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Bodies {
            store: PageStore::new(budget),
            spilled: FxHashMap::default(),
            waiting: BTreeMap::new(),
            read_queue: VecDeque::new(),
            read_alone: FxHashSet::default(),
            withheld: FxHashMap::default(),
            dispatched: FxHashSet::default(),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }

    /// Takes a durable batch into account: holds the new bodies, and drops those of tasks that
    /// ended without a start.
    pub fn durable(&mut self, records: &Records) {
        for record in &records.submissions {
            self.hold(record);
        }
        if !self.store.is_empty() {
            for record in &records.completions {
                self.ended(record);
            }
        }
    }

    fn hold(&mut self, record: &SubmissionRecord) {
        let Some(page) = Page::of_call(record.first_seq, record.submitted_at, &record.submit)
        else {
            return;
        };
        let last = page.last();
        if !self.put(record.handle, page, 0) {
            self.spill(record.handle, last);
        }
    }

    fn ended(&mut self, record: &CompletionRecord) {
        for done in record.done.iter().filter(|done| done.started.is_none()) {
            self.store.change(record.handle, |pages| {
                pages.spend(done.first, done.first.plus(done.count - 1))
            });
        }
    }

    /// The assignment with its body; `None`: the body is being read, and the assignment waits for
    /// it.
    pub fn take(&mut self, assignment: Assignment) -> Option<(Assignment, Option<Body>)> {
        let (handle, first) = (assignment.handle, assignment.first);
        let taken = self.store.change(handle, |pages| pages.take(first));
        let body = taken.flatten();
        if body.is_none() {
            // A retry, or spilled.
            self.spill(handle, first);
        }
        if self.spilled.contains_key(&handle) {
            self.dispatched.insert(handle);
        }
        if body.is_some() {
            return Some((assignment, body));
        }
        self.read_soon(handle, first);
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

    /// Drops all assignments that wait for a body: another owner has dispatched them, or will.
    pub fn drop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Drops the bodies of a scheduler whose tasks have all ended.
    pub fn forget(&mut self, handle: Handle) {
        self.spilled.remove(&handle);
        self.read_alone.remove(&handle);
        self.withheld.remove(&handle);
        self.store.change(handle, SchedulerPages::clear);
    }

    /// Drops all bodies, since the core is rebuilt from these schedulers. Assignments that wait for
    /// a body still run, and still get it.
    pub fn recovered(&mut self, schedulers: &[RecoveredScheduler]) {
        for handle in self.store.handles() {
            self.store.change(handle, SchedulerPages::clear);
        }
        let last = |one: &RecoveredScheduler| {
            one.runs
                .last()
                .map(|run| (one.image.handle, run.first.plus(run.count - 1)))
        };
        self.read_alone.clear();
        self.withheld.clear();
        self.spilled = schedulers.iter().filter_map(last).collect();
        let next = self.spilled.keys().copied().take(LOOKAHEAD_SCHEDULERS);
        self.dispatched = next.collect();
    }

    /// Holds a page if there is space for it (see [`PageStore::make_space`]); returns whether there
    /// was.
    fn put(&mut self, handle: Handle, page: Page, guaranteed: usize) -> bool {
        let space = self.store.make_space(handle, &page, guaranteed);
        for (evicted, last) in space.evicted {
            self.spill(evicted, last);
        }
        if space.fits {
            self.store.put(handle, page);
        }
        space.fits
    }

    /// Notes that the bodies of a scheduler, up to this task, are not all in memory.
    fn spill(&mut self, handle: Handle, last: Seq) {
        let known = self.spilled.entry(handle).or_insert(last);
        *known = last.max(*known);
    }
}
