//! What one batch of commands yields: records, the actions that wait for them, and the
//! schedulers whose progress changed.

use super::{Action, CompletionRecord, Done, DoneNo, Handle, Records};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Collects what the commands of one batch yield.
#[derive(Debug, Default)]
pub struct Output {
    /// To persist.
    pub records: Records,
    /// To release once `records` are durable.
    pub actions: Vec<Action>,
    /// Schedulers whose [`super::Progress`] changed.
    pub touched: FxHashSet<Handle>,
    rows: FxHashMap<Handle, usize>,
}

impl Output {
    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.actions.is_empty() && self.touched.is_empty()
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
