//! What an executor shows of itself: its slots, its targets, and what runs. It changes nothing.

use super::{ExecutionRow, Executor, TargetStatus};
use crate::core::{Handle, Seq};
use std::sync::Arc;

impl Executor {
    /// One row per slot with a session of its own, idle ones included.
    pub fn executions(&self) -> Vec<ExecutionRow> {
        let mut targets: Vec<_> = self.0.targets.values().collect();
        targets.sort_by_key(|target| Arc::clone(target.name()));
        targets
            .into_iter()
            .flat_map(|target| target.executions())
            .collect()
    }

    /// The slot that runs a task.
    pub fn attempt(&self, handle: Handle, seq: Seq) -> Option<ExecutionRow> {
        let mut targets = self.0.targets.values();
        targets.find_map(|target| target.execution_of(handle, seq))
    }

    /// How its targets are.
    pub fn targets(&self) -> Vec<TargetStatus> {
        self.0
            .targets
            .values()
            .map(|target| target.status())
            .collect()
    }
}
