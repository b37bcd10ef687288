//! What an executor shows of itself: its slots, its targets, and what runs. It changes
//! nothing.

use super::{AttemptStatus, ExecutionRow, Executor, TargetStatus};
use crate::core::{Attempt, TaskId};
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

    /// An attempt of a task, if it runs here, and what its session waits for: its target is asked,
    /// for a limited time.
    pub async fn attempt(&self, task: TaskId, attempt: Attempt) -> Option<AttemptStatus> {
        let mut targets = self.0.targets.values();
        let found = targets.find_map(|target| Some((target, target.slot_of(task, attempt)?)));
        let (target, (row, session)) = found?;
        let wait = match session {
            Some(session) => Some(target.admin.wait_of(&session).await),
            None => None,
        };
        Some(AttemptStatus { row, wait })
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
