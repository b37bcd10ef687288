//! What one batch of commands yields: records, the actions that wait for them, and the
//! schedulers whose progress changed.

use super::{
    Action, CompletionRecord, Done, DoneNo, Handle, Records, Reply, ResourceReply, Tally, Ticket,
    Unwritten,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Collects what the commands of one batch yield.
#[derive(Debug, Default)]
pub struct Output {
    /// To persist.
    pub records: Records,
    /// To release at once: starts that depend on nothing that is still to be durable. Those that
    /// are still here when `records` are durable come before `actions`, which may stop them.
    pub(crate) early: Vec<Action>,
    /// To release once `records` are durable.
    pub(crate) actions: Vec<Action>,
    /// What the start of tasks may depend on.
    pub(crate) unwritten: Unwritten,
    /// Schedulers whose [`super::Progress`] changed.
    pub touched: FxHashSet<Handle>,
    /// The same in numbers.
    pub tally: Tally,
    rows: FxHashMap<Handle, usize>,
}

impl Output {
    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        let nothing = self.early.is_empty() && self.actions.is_empty();
        self.records.is_empty() && nothing && self.touched.is_empty()
    }

    /// Whether anybody waits for it: a caller for an answer, a scheduler with its next task, or a
    /// free slot. If nobody does, it brings ends at most.
    pub(crate) fn is_awaited(&self) -> bool {
        let has_more = !self.actions.is_empty() || !self.records.brings_only_ends();
        has_more || self.unwritten.is_awaited()
    }

    /// Takes everything out that is to be done when `records` are durable, if not before.
    pub fn take_actions(&mut self) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.early);
        actions.append(&mut self.actions);
        actions
    }

    /// Answers a question about resources.
    pub(crate) fn answer(&mut self, ticket: Ticket, reply: ResourceReply) {
        let reply = Reply::Resource(Box::new(reply));
        self.actions.push(Action::Reply(ticket, reply));
    }

    /// Appends outcomes to the last ones of their scheduler; returns how many rows that adds.
    pub(crate) fn push_done(&mut self, handle: Handle, done_no: DoneNo, done: Done) -> u32 {
        let rows = &mut self.records.completions;
        if let Some(row) = self.rows.get(&handle).map(|at| &mut rows[*at])
            && let Some(row) = Arc::get_mut(row)
        {
            row.done.push(done);
            return 0;
        }
        self.rows.insert(handle, rows.len());
        rows.push(Arc::new(CompletionRecord {
            handle,
            first_done_no: done_no,
            done: vec![done],
        }));
        1
    }
}
