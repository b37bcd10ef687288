//! What the journal says of the tasks that run: who submitted them, and how their statements begin.
//! Whoever runs them is not asked, so replicas of earlier versions need not know it.

use crate::{
    core::{Handle, Seq, TaskId},
    journal::{Reader, TaskSummary},
};
use rallypoint_client::api;
use std::{collections::HashMap, time::Duration};
use tokio::time::timeout;

/// How long the journal may take.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(1);

/// What was read so far. It never changes, so a stream reads it once.
#[derive(Default)]
pub(super) struct TaskNotes(HashMap<TaskId, TaskSummary>);

impl TaskNotes {
    /// Adds it to the slots that run something, and forgets all other tasks. False: the journal did
    /// not answer, and what was not known before is left out.
    pub(super) async fn add_to(&mut self, reader: &Reader, slots: &mut [api::Execution]) -> bool {
        let mut before = std::mem::take(&mut self.0);
        let mut unknown = Vec::new();
        for task in slots.iter().filter_map(task_of) {
            match before.remove(&task) {
                Some(summary) => _ = self.0.insert(task, summary),
                None if self.0.contains_key(&task) => {}
                None => unknown.push(task),
            }
        }
        let read = timeout(JOURNAL_TIMEOUT, reader.summaries(&unknown)).await;
        let answered = matches!(&read, Ok(Ok(_)));
        self.0.extend(read.into_iter().flatten().flatten());
        for slot in slots {
            if let Some(summary) = task_of(slot).and_then(|task| self.0.get(&task)) {
                slot.submitted_by.clone_from(&summary.submitted_by);
                slot.statement_preview
                    .clone_from(&summary.statement_preview);
            }
        }
        answered
    }
}

fn task_of(slot: &api::Execution) -> Option<TaskId> {
    Some(TaskId {
        handle: slot.handle.parse::<Handle>().ok()?,
        seq: Seq(slot.seq),
    })
}
