//! What a target runs, and whether it is there.

use super::{Target, lock};
use crate::{
    core::{Attempt, TaskId},
    executor::{
        sql::{register::Session, target_slots::Activity},
        status::{ExecutionRow, TargetStatus},
    },
};
use std::sync::Arc;

impl Target {
    pub(crate) fn executions(&self) -> Vec<ExecutionRow> {
        let rows = self.slots.activity().into_iter();
        rows.map(|(slot, activity)| self.row(slot, activity))
            .collect()
    }

    fn row(&self, slot: u32, activity: Activity) -> ExecutionRow {
        ExecutionRow {
            work: self.work(),
            slot,
            backend_pid: activity.session.map_or(0, |session| session.pid),
            running: activity.running,
        }
    }

    /// The slot that runs an attempt, and its session.
    pub(crate) fn slot_of(
        &self,
        task: TaskId,
        attempt: Attempt,
    ) -> Option<(ExecutionRow, Option<Session>)> {
        let (slot, activity) = self.slots.running(task, attempt)?;
        Some((self.row(slot, activity.clone()), activity.session))
    }

    /// Why what runs in a slot has no session, if that is known: the login of the target is
    /// refused, and its namespace has no other.
    pub(crate) fn why_no_session(&self, row: &ExecutionRow) -> Option<String> {
        let (assignment, _) = row.running.as_ref()?;
        let settings = self.settings();
        match *settings.login_of(assignment) == settings.login {
            true => self.refused.why(),
            false => None,
        }
    }

    pub(crate) fn status(&self) -> TargetStatus {
        TargetStatus {
            name: Arc::clone(&self.name),
            slots: self.settings().slots,
            unavailable: lock(&self.unavailable).clone(),
            refused: self.refused.why(),
        }
    }
}
