//! Single tasks: cancel, show. Ended tasks are in the journal; the core knows the state of
//! the others. The journal is read first, because the order of a task tells the core where to
//! search. When the core no longer holds a task, its outcome is durable, so the journal has it by
//! then.

use super::Schedulers;
use crate::{
    core::{Attempt, Caller, Cancel, Handle, Reply, Seq, TaskId, TaskRef, TaskState, Verb},
    journal::{StoredTask, TaskSummary},
    rpc::{convert, errors, validate},
};
use rallypoint_client::api;
use std::{collections::HashMap, sync::Arc};
use tonic::Status;

/// States of unfinished tasks.
pub(super) type States = HashMap<Seq, (TaskState, Attempt)>;

impl Schedulers {
    pub(super) async fn cancel(
        &self,
        caller: Caller,
        request: Arc<api::CancelTaskRequest>,
    ) -> Result<api::CancelTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
        self.check_visible(&caller, id.handle).await?;
        let done = |outcome| api::CancelTaskResponse {
            state: api::TaskState::Done.into(),
            outcome,
        };
        let Some(order) = self
            .reader
            .effective_order(id.handle, id.seq)
            .await
            .map_err(errors::journal)?
        else {
            return Err(self.why_missing(caller, id).await?);
        };
        let place = TaskRef { seq: id.seq, order };
        let verb = Verb::Cancel(Arc::new(Cancel::one(place)));
        match self.ask(caller, id.handle, verb).await? {
            Reply::Cancelled { running: 1.., .. } => Ok(api::CancelTaskResponse {
                state: api::TaskState::Running.into(),
                outcome: 0,
            }),
            Reply::Cancelled { waiting: 1.., .. } => Ok(done(api::Outcome::Cancelled.into())),
            Reply::Cancelled { .. } => {
                let outcomes = self
                    .reader
                    .outcomes(id.handle, &[id.seq])
                    .await
                    .map_err(errors::journal)?;
                let (done_no, event) = outcomes.get(&id.seq).ok_or_else(errors::past_retention)?;
                Ok(done(convert::event(*done_no, event, 0, false).outcome))
            }
            other => Err(errors::mismatched_reply(&other)),
        }
    }

    pub(super) async fn task(
        &self,
        caller: Caller,
        request: Arc<api::GetTaskRequest>,
    ) -> Result<api::GetTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
        self.check_visible(&caller, id.handle).await?;
        let Some(mut task) = self
            .reader
            .task(id.handle, id.seq)
            .await
            .map_err(errors::journal)?
        else {
            return Err(self.why_missing(caller, id).await?);
        };
        let states = self
            .states(&caller, id.handle, std::slice::from_mut(&mut task))
            .await?;
        if task.rows_omitted {
            // It has ended since it was read.
            let whole = self.reader.outcomes(id.handle, &[id.seq]).await;
            task.done = whole.map_err(errors::journal)?.remove(&id.seq);
            task.rows_omitted = false;
        }
        let state = states.get(&id.seq).copied();
        if state.is_none() && task.done.is_none() {
            // Outcomes may go before the tasks.
            return Err(errors::past_retention());
        }
        let mut view = convert::task_view(id.handle, &task, state);
        view.submitted_by = self.summary(id).await?.submitted_by;
        Ok(api::GetTaskResponse { task: Some(view) })
    }

    /// Who submitted a task, and how its statement begins.
    pub(super) async fn summary(&self, id: TaskId) -> Result<TaskSummary, Status> {
        let mut summaries = self.summaries(id.handle, &[id.seq]).await?;
        Ok(summaries.remove(&id.seq).unwrap_or_default())
    }

    /// The same of several tasks of a scheduler.
    pub(super) async fn summaries(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<HashMap<Seq, TaskSummary>, Status> {
        let ids = seqs.iter().map(|seq| TaskId { handle, seq: *seq });
        let ids: Vec<TaskId> = ids.collect();
        let found = self.reader.summaries(&ids).await;
        let found = found.map_err(errors::journal)?.into_iter();
        Ok(found.map(|(id, summary)| (id.seq, summary)).collect())
    }

    /// Why the journal has no row: the task never existed, or it is past its retention.
    pub(super) async fn why_missing(&self, caller: Caller, id: TaskId) -> Result<Status, Status> {
        let Reply::Scheduler(view) = self.ask(caller, id.handle, Verb::Describe).await? else {
            return Ok(errors::task_not_found());
        };
        if id.seq > view.image.checkpoint.highest_seq {
            return Ok(errors::task_not_found());
        }
        let oldest = self
            .reader
            .oldest_task(id.handle)
            .await
            .map_err(errors::journal)?;
        let next = view.image.checkpoint.highest_seq.plus(1);
        Ok(errors::task_truncated(oldest.unwrap_or(next)))
    }

    /// Whether the caller may see the scheduler. Asked before anything of it is read: else the time
    /// or the kind of an answer would tell what others have.
    pub(super) async fn check_visible(
        &self,
        caller: &Caller,
        handle: Handle,
    ) -> Result<(), Status> {
        self.states(caller, handle, &mut []).await.map(drop)
    }

    /// The states of the unfinished among `tasks`; those that ended since they were read get their
    /// outcome, without the rows of its result. The core is asked even when there are none: it
    /// checks that the caller may see the scheduler.
    pub(super) async fn states(
        &self,
        caller: &Caller,
        handle: Handle,
        tasks: &mut [StoredTask],
    ) -> Result<States, Status> {
        let open: Vec<&mut StoredTask> = tasks
            .iter_mut()
            .filter(|task| task.done.is_none())
            .collect();
        let refs: Vec<TaskRef> = open
            .iter()
            .map(|task| TaskRef {
                seq: task.seq,
                order: task.effective,
            })
            .collect();
        let found = match self.ask(caller.clone(), handle, Verb::Locate(refs)).await? {
            Reply::Located(found) => found,
            other => return Err(errors::mismatched_reply(&other)),
        };
        let (unfinished, ended): (Vec<_>, Vec<_>) = open
            .into_iter()
            .zip(found)
            .partition(|(_, state_and_attempt)| state_and_attempt.is_some());
        if !ended.is_empty() {
            let ended = ended.into_iter().map(|(task, _)| task);
            let noted = self.reader.note_outcomes(handle, ended).await;
            noted.map_err(errors::journal)?;
        }
        Ok(unfinished
            .into_iter()
            .filter_map(|(task, state_and_attempt)| Some((task.seq, state_and_attempt?)))
            .collect())
    }
}
