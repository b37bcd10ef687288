//! Bodies of tasks between their submission and their dispatch. What does not fit the budget is read back from the
//! journal by key when its turn comes.

use crate::{
    core::{Handle, Packed, Seq, SubmissionRecord, Submit, Work},
    executor::Body,
};
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, sync::Arc};

/// The bodies in memory.
#[derive(Debug)]
pub(super) struct Bodies {
    held: FxHashMap<Handle, BTreeMap<Seq, Held>>,
    bytes: usize,
    budget: usize,
}

#[derive(Debug)]
struct Held {
    submit: Arc<Submit>,
    /// Tasks that have not been dispatched yet.
    left: u32,
}

impl Bodies {
    /// At most `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Bodies { held: FxHashMap::default(), bytes: 0, budget }
    }

    /// Holds the bodies of a durable submission, if there is room and somebody will ask for them.
    pub fn hold(&mut self, record: &SubmissionRecord) {
        let asked = |run: &&crate::core::Run| run.spec.work != Work::Noop;
        let left = record.submit.runs.iter().filter(asked).map(|run| run.count).sum();
        let bytes = size(&record.submit);
        if left == 0 || self.bytes + bytes > self.budget {
            return;
        }
        self.bytes += bytes;
        self.held.entry(record.handle).or_default().insert(record.first_seq, Held { submit: record.submit.clone(), left });
    }

    /// The body of a task that is dispatched now; `None`: read it from the journal.
    pub fn take(&mut self, handle: Handle, seq: Seq) -> Option<Body> {
        let submissions = self.held.get_mut(&handle)?;
        let (first, held) = submissions.range_mut(..=seq).next_back()?;
        let (first, index) = (*first, (seq.0 - first.0) as usize);
        if index >= held.submit.bodies.len() {
            return None;
        }
        let body = Body { payload: held.submit.bodies.get(index), params: params(&held.submit.params, index) };
        held.left -= 1;
        if held.left == 0
            && let Some(held) = submissions.remove(&first)
        {
            self.bytes -= size(&held.submit);
        }
        Some(body)
    }

    /// Drops what a scheduler will not ask for any more.
    pub fn forget(&mut self, handle: Handle) {
        for held in self.held.remove(&handle).into_iter().flat_map(BTreeMap::into_values) {
            self.bytes -= size(&held.submit);
        }
    }

    /// Drops everything: the core was rebuilt.
    pub fn clear(&mut self) {
        self.held.clear();
        self.bytes = 0;
    }
}

fn size(submit: &Submit) -> usize {
    submit.bodies.bytes.len() + submit.params.bytes.len()
}

fn params(packed: &Packed, index: usize) -> Option<Bytes> {
    (!packed.is_empty()).then(|| packed.get(index)).filter(|params| !params.is_empty())
}
