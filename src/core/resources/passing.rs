//! How often lines of tasks are passed at one resource: others get it while they wait for something
//! else.
//!
//! Of each scheduler only the first line counts, as its tasks start by their number. It is passed
//! by every grant to somebody else, and by its own scheduler's later tasks. A grant costs the same
//! however many wait.

use super::Resources;
use crate::core::{ClaimNo, Handle, Seq};
use std::collections::{BTreeMap, BTreeSet};

/// How often a line may be passed, besides once by each other scheduler whose tasks wait.
const MAX_PASSED: u64 = 100;

/// Lines of a scheduler that are looked at when its first one was passed too often: that one may
/// not be able to start.
const PASSED_TOGETHER: usize = 16;

/// The lines that want a resource.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// What was granted since somebody watches.
    grants: u64,
    schedulers: BTreeMap<Handle, Waiting>,
    /// When the first line of a scheduler has been passed too often, by `grants`.
    due: BTreeSet<(u64, Handle)>,
    lines: usize,
    /// Lines that could have it now, with the rest of what they want.
    pub(super) ready: BTreeSet<ClaimNo>,
}

/// The lines of one scheduler.
#[derive(Debug)]
struct Waiting {
    lines: BTreeSet<(Seq, ClaimNo)>,
    due: u64,
}

impl Watch {
    pub(super) fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// How many lines want it.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// All lines, by the schedulers they belong to.
    pub(super) fn all(&self) -> impl Iterator<Item = ClaimNo> {
        let lines = self.schedulers.values().flat_map(|waiting| &waiting.lines);
        lines.map(|(_, no)| *no)
    }

    pub(super) fn join(&mut self, handle: Handle, front: Seq, no: ClaimNo) {
        let due = self.next_due();
        let waiting = self.schedulers.entry(handle).or_insert_with(|| {
            self.due.insert((due, handle));
            Waiting {
                lines: BTreeSet::new(),
                due,
            }
        });
        waiting.lines.insert((front, no));
        self.lines += 1;
    }

    pub(super) fn leave(&mut self, handle: Handle, line: (Seq, ClaimNo)) {
        let Some(waiting) = self.schedulers.get_mut(&handle) else {
            return;
        };
        waiting.lines.remove(&line);
        self.lines -= 1;
        if waiting.lines.is_empty() {
            self.due.remove(&(waiting.due, handle));
            self.schedulers.remove(&handle);
        }
    }

    pub(super) fn set_front(&mut self, handle: Handle, line: (Seq, ClaimNo), front: Seq) {
        if let Some(waiting) = self.schedulers.get_mut(&handle)
            && waiting.lines.remove(&line)
        {
            waiting.lines.insert((front, line.1));
        }
    }

    /// Somebody gets it: a task, or a caller. Returns who has been passed too often, with those
    /// that come next.
    pub(super) fn granted(&mut self, task: Option<(Handle, Seq)>) -> Vec<(Handle, Vec<ClaimNo>)> {
        self.grants += 1;
        let due = self.next_due();
        if let Some((handle, seq)) = task
            && let Some(waiting) = self.schedulers.get_mut(&handle)
            && waiting.lines.first().is_some_and(|(first, _)| seq < *first)
        {
            self.due.remove(&(waiting.due, handle));
            waiting.due = due;
            self.due.insert((due, handle));
        }
        let mut passed = Vec::new();
        while let Some((_, handle)) = self.due.first().filter(|(at, _)| *at <= self.grants) {
            let handle = *handle;
            self.due.pop_first();
            if let Some(waiting) = self.schedulers.get_mut(&handle) {
                waiting.due = due;
                self.due.insert((due, handle));
                let first = waiting.lines.iter().take(PASSED_TOGETHER);
                passed.push((handle, first.map(|(_, no)| *no).collect()));
            }
        }
        passed
    }

    fn next_due(&self) -> u64 {
        self.grants + MAX_PASSED + self.schedulers.len() as u64
    }
}

impl Resources {
    /// Lines that were passed too often since asked, those of one scheduler together.
    pub(crate) fn take_passed(&mut self) -> Vec<(Handle, Vec<ClaimNo>)> {
        std::mem::take(&mut self.tasks.passed)
    }
}
