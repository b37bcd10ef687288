//! What an executor shows of itself: its slots, its targets, and what runs. It changes
//! nothing.

use super::{AttemptStatus, BlockingSession, ExecutionRow, Executor, TargetStatus};
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
    /// for a limited time. Of one without a session: why, if that is known.
    pub async fn attempt(&self, task: TaskId, attempt: Attempt) -> Option<AttemptStatus> {
        let mut targets = self.0.targets.values();
        let found = targets.find_map(|target| Some((target, target.slot_of(task, attempt)?)));
        let (target, (row, session)) = found?;
        let mut wait = match session {
            Some(session) => Some(target.admin.wait_of(&session).await),
            None => target.why_no_session(&row).map(Err),
        };
        if let Some(Ok(wait)) = &mut wait {
            name_tasks(&mut wait.blocked_by, &row, &target.executions());
        }
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

/// Names the tasks that run on sessions in the way of `waiting`, if they are of its namespace: of
/// another one's tasks nothing is told.
fn name_tasks(sessions: &mut [BlockingSession], waiting: &ExecutionRow, rows: &[ExecutionRow]) {
    let namespace = |row: &ExecutionRow| {
        let (assignment, _) = row.running.as_ref()?;
        Some(assignment.namespace.clone())
    };
    let mine = namespace(waiting);
    for session in sessions.iter_mut().filter(|session| session.pid != 0) {
        let is_it = |row: &&ExecutionRow| row.backend_pid == session.pid && namespace(row) == mine;
        let running = rows.iter().find(is_it).and_then(|row| row.running.as_ref());
        session.task = running.map(|(assignment, _)| TaskId {
            handle: assignment.handle,
            seq: assignment.first,
        });
    }
}
