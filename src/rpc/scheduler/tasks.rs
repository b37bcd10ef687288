//! Single tasks: cancel, show, list. Ended tasks are in the journal; the core knows the state of
//! the others. The journal is read first, because the order of a task tells the core where to
//! search. When the core no longer holds a task, its outcome is durable, so the journal has it by
//! then.

use super::{Schedulers, listing::MAX_PAGE_BYTES};
use crate::{
    core::{
        Attempt, Caller, Cancelling, Handle, Phase, Reply, Seq, TaskId, TaskRef, TaskState, Verb,
    },
    journal::{StoredTask, TaskPage},
    rpc::{
        convert, errors,
        validate::{self, ListTasks},
    },
};
use prost::Message;
use rallypoint_client::api;
use std::{collections::HashMap, sync::Arc};
use tonic::Status;

/// States of unfinished tasks.
type States = HashMap<Seq, (TaskState, Attempt)>;

/// Reads of the journal for one page of a filtered list.
const MAX_READS_PER_PAGE: usize = 8;
/// Tasks per such read.
const TASKS_PER_READ: usize = 1_000;

impl Schedulers {
    pub(super) async fn cancel(
        &self,
        caller: Caller,
        request: Arc<api::CancelTaskRequest>,
    ) -> Result<api::CancelTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
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
        match self
            .ask(
                caller,
                id.handle,
                Verb::Cancel(TaskRef { seq: id.seq, order }),
            )
            .await?
        {
            Reply::Cancelling(Cancelling::Stopping) => Ok(api::CancelTaskResponse {
                state: api::TaskState::Running.into(),
                outcome: 0,
            }),
            Reply::Cancelling(Cancelling::Cancelled) => Ok(done(api::Outcome::Cancelled.into())),
            Reply::Cancelling(Cancelling::Ended) => {
                let outcomes = self
                    .reader
                    .outcomes(id.handle, &[id.seq])
                    .await
                    .map_err(errors::journal)?;
                let (done_no, event) = outcomes.get(&id.seq).ok_or_else(errors::task_not_found)?;
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
        let state = states.get(&id.seq).copied();
        let task = Some(convert::task_view(id.handle, &task, state, true));
        Ok(api::GetTaskResponse { task })
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
        Ok(errors::truncated(
            "id.seq",
            oldest.map_or(view.image.checkpoint.highest_seq.0 + 1, |seq| seq.0),
        ))
    }

    pub(super) async fn tasks(
        &self,
        caller: Caller,
        request: Arc<api::ListTasksRequest>,
    ) -> Result<api::ListTasksResponse, Status> {
        let query = ListTasks::new(&request, &caller.namespace)?;
        let mut list = api::ListTasksResponse::default();
        let mut before = query.before;
        let mut bytes = 0;
        for _ in 0..MAX_READS_PER_PAGE {
            let (page, states) = self
                .page(&caller, before, &query, query.size - list.tasks.len())
                .await?;
            before = page.next;
            for task in &page.tasks {
                let state_and_attempt = states.get(&task.seq).copied();
                if query
                    .state
                    .is_some_and(|state| state != convert::state(task, state_and_attempt))
                {
                    continue;
                }
                let view = without_rows(convert::task_view(
                    query.handle,
                    task,
                    state_and_attempt,
                    true,
                ));
                bytes += view.encoded_len();
                list.tasks.push(view);
                if list.tasks.len() == query.size || bytes > MAX_PAGE_BYTES {
                    before = Some(task.seq).filter(|seq| seq.0 > 1);
                    break;
                }
            }
            if before.is_none() || list.tasks.len() == query.size || bytes > MAX_PAGE_BYTES {
                break;
            }
        }
        list.next_page_token = before
            .map(|seq| query.token.after(seq.0 as u128))
            .unwrap_or_default();
        Ok(list)
    }

    /// About `limit` tasks of the journal, with the states of the unfinished ones. Tasks of one
    /// phase are selected by the core, which knows the unfinished ones and therefore the others.
    /// Only the ended tasks of one order are searched among all tasks of the order.
    async fn page(
        &self,
        caller: &Caller,
        before: Option<Seq>,
        query: &ListTasks,
        limit: usize,
    ) -> Result<(TaskPage, States), Status> {
        let mut page = match query.state.and_then(phase) {
            Some(phase) if phase != Phase::Done || query.order.is_none() => {
                self.select(caller, before, query, phase, limit).await?
            }
            filtered_here => {
                let limit = if filtered_here.is_some() {
                    TASKS_PER_READ
                } else {
                    limit
                };
                self.reader
                    .tasks(query.handle, before, query.order, limit)
                    .await
                    .map_err(errors::journal)?
            }
        };
        let states = self.states(caller, query.handle, &mut page.tasks).await?;
        Ok((page, states))
    }

    /// The newest tasks of a phase.
    async fn select(
        &self,
        caller: &Caller,
        before: Option<Seq>,
        query: &ListTasks,
        phase: Phase,
        limit: usize,
    ) -> Result<TaskPage, Status> {
        let verb = Verb::Select {
            before: before.unwrap_or(Seq(i64::MAX)),
            phase,
            order: query.order,
            limit,
        };
        let (seqs, next) = match self.ask(caller.clone(), query.handle, verb).await? {
            Reply::Selected { seqs, next } => (seqs, next),
            other => return Err(errors::mismatched_reply(&other)),
        };
        let tasks = self
            .reader
            .tasks_of(query.handle, &seqs)
            .await
            .map_err(errors::journal)?;
        // Missing rows are past their retention, and so is everything older.
        let next = next.filter(|_| tasks.len() == seqs.len());
        Ok(TaskPage { tasks, next })
    }

    /// The states of the unfinished among `tasks`; those that ended since they were read get their
    /// outcome. The core is asked even when there are none: it checks that the caller may see the
    /// scheduler.
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
            let seqs: Vec<Seq> = ended.iter().map(|(task, _)| task.seq).collect();
            let mut outcomes = self
                .reader
                .outcomes(handle, &seqs)
                .await
                .map_err(errors::journal)?;
            ended
                .into_iter()
                .for_each(|(task, _)| task.done = outcomes.remove(&task.seq));
        }
        Ok(unfinished
            .into_iter()
            .filter_map(|(task, state_and_attempt)| Some((task.seq, state_and_attempt?)))
            .collect())
    }
}

fn phase(state: api::TaskState) -> Option<Phase> {
    match state {
        api::TaskState::Blocked => Some(Phase::Blocked),
        api::TaskState::Queued => Some(Phase::Queued),
        api::TaskState::Running => Some(Phase::Running),
        api::TaskState::Retrying => Some(Phase::Retrying),
        api::TaskState::Done => Some(Phase::Done),
        api::TaskState::Unspecified => None,
    }
}

/// Lists leave out the rows of results; GetTask has them.
fn without_rows(mut view: api::TaskView) -> api::TaskView {
    if let Some(done) = &mut view.done
        && let Some(result) = &mut done.result
        && !result.rows_json.is_empty()
    {
        result.rows_json = Default::default();
        done.result_omitted = true;
    }
    view
}
