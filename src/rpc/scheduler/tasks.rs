//! Single tasks: cancel, show, list. What has ended is in the journal; where the others stand the core knows. The journal
//! is read first: the order of a task tells the core where to look for it. When the core no longer holds it, its outcome is
//! durable, so the journal has it by then.

use super::{Schedulers, listing::PAGE_BYTES};
use crate::rpc::{convert, errors, validate::ListTasks};
use crate::{
    core::{Attempt, Caller, Handle, Phase, Reply, Seq, TaskId, TaskRef, TaskState, Verb},
    journal::{StoredTask, TaskPage},
};
use prost::Message;
use rallypoint_client::api;
use std::collections::HashMap;
use tonic::Status;

/// Where unfinished tasks stand.
type Standings = HashMap<Seq, (TaskState, Attempt)>;

/// Reads of the journal for one page of a filtered list.
const READS: usize = 8;
/// Tasks in one of them.
const READ_TASKS: usize = 1_000;

impl Schedulers {
    pub(super) async fn cancel(
        &self,
        caller: Caller,
        id: TaskId,
    ) -> Result<api::CancelTaskResponse, Status> {
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
            return Err(self.gone(caller, id).await?);
        };
        match self
            .ask(
                caller,
                id.handle,
                Verb::Cancel(TaskRef { seq: id.seq, order }),
            )
            .await?
        {
            Reply::Cancelling { running: true, .. } => Ok(api::CancelTaskResponse {
                state: api::TaskState::Running.into(),
                outcome: 0,
            }),
            Reply::Cancelling {
                cancelled: true, ..
            } => Ok(done(api::Outcome::Cancelled.into())),
            Reply::Cancelling { .. } => {
                let outcomes = self
                    .reader
                    .outcomes(id.handle, &[id.seq])
                    .await
                    .map_err(errors::journal)?;
                let (done_no, event) = outcomes.get(&id.seq).ok_or_else(errors::task_not_found)?;
                Ok(done(convert::event(*done_no, event, 0, false).outcome))
            }
            other => Err(errors::bug(&other)),
        }
    }

    pub(super) async fn task(&self, caller: Caller, id: TaskId) -> Result<api::TaskView, Status> {
        let Some(mut task) = self
            .reader
            .task(id.handle, id.seq)
            .await
            .map_err(errors::journal)?
        else {
            return Err(self.gone(caller, id).await?);
        };
        let standings = self
            .standings(&caller, id.handle, std::slice::from_mut(&mut task))
            .await?;
        Ok(convert::task_view(
            id.handle,
            &task,
            standings.get(&id.seq).copied(),
            true,
        ))
    }

    /// Why there is no such task: it never was, or it is older than the retention.
    async fn gone(&self, caller: Caller, id: TaskId) -> Result<Status, Status> {
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
        request: &api::ListTasksRequest,
    ) -> Result<api::ListTasksResponse, Status> {
        let ask = ListTasks::new(request, &caller.namespace)?;
        let mut list = api::ListTasksResponse::default();
        let mut before = ask.before;
        let mut bytes = 0;
        for _ in 0..READS {
            let (page, standings) = self
                .page(&caller, before, &ask, ask.size - list.tasks.len())
                .await?;
            before = page.next;
            for task in &page.tasks {
                let standing = standings.get(&task.seq).copied();
                if ask
                    .state
                    .is_some_and(|state| state != convert::state(task, standing))
                {
                    continue;
                }
                let view = listed(convert::task_view(ask.handle, task, standing, true));
                bytes += view.encoded_len();
                list.tasks.push(view);
                if list.tasks.len() == ask.size || bytes > PAGE_BYTES {
                    before = Some(task.seq).filter(|seq| seq.0 > 1);
                    break;
                }
            }
            if before.is_none() || list.tasks.len() == ask.size || bytes > PAGE_BYTES {
                break;
            }
        }
        list.next_page_token = before
            .map(|seq| ask.token.after(seq.0 as u128))
            .unwrap_or_default();
        Ok(list)
    }

    /// Tasks of the journal, about `limit` of them, and where the unfinished ones stand. Tasks of a phase are picked by the core, which knows the unfinished ones, and so the others; only those of
    /// an order that are done are looked for among all of the order.
    async fn page(
        &self,
        caller: &Caller,
        before: Option<Seq>,
        ask: &ListTasks,
        limit: usize,
    ) -> Result<(TaskPage, Standings), Status> {
        let mut page = match ask.state.and_then(phase) {
            Some(phase) if phase != Phase::Done || ask.order.is_none() => {
                self.picked(caller, before, ask, phase, limit).await?
            }
            looked_through => {
                let limit = if looked_through.is_some() {
                    READ_TASKS
                } else {
                    limit
                };
                self.reader
                    .tasks(ask.handle, before, ask.order, limit)
                    .await
                    .map_err(errors::journal)?
            }
        };
        let standings = self.standings(caller, ask.handle, &mut page.tasks).await?;
        Ok((page, standings))
    }

    /// The newest tasks of a phase.
    async fn picked(
        &self,
        caller: &Caller,
        before: Option<Seq>,
        ask: &ListTasks,
        phase: Phase,
        limit: usize,
    ) -> Result<TaskPage, Status> {
        let verb = Verb::Select {
            before: before.unwrap_or(Seq(i64::MAX)),
            phase,
            order: ask.order,
            limit,
        };
        let (seqs, next) = match self.ask(caller.clone(), ask.handle, verb).await? {
            Reply::Selected { seqs, next } => (seqs, next),
            other => return Err(errors::bug(&other)),
        };
        let tasks = self
            .reader
            .tasks_of(ask.handle, &seqs)
            .await
            .map_err(errors::journal)?;
        // Where rows are missing the retention ends: nothing older is there.
        let next = next.filter(|_| tasks.len() == seqs.len());
        Ok(TaskPage { tasks, next })
    }

    /// Where those of `tasks` stand that have no outcome; those that have ended since they were read get theirs. The core is
    /// asked in any case: it knows who may ask.
    async fn standings(
        &self,
        caller: &Caller,
        handle: Handle,
        tasks: &mut [StoredTask],
    ) -> Result<Standings, Status> {
        let open: Vec<&mut StoredTask> = tasks
            .iter_mut()
            .filter(|task| task.done.is_none())
            .collect();
        let places: Vec<TaskRef> = open
            .iter()
            .map(|task| TaskRef {
                seq: task.seq,
                order: task.effective,
            })
            .collect();
        let found = match self
            .ask(caller.clone(), handle, Verb::Locate(places))
            .await?
        {
            Reply::Located(found) => found,
            other => return Err(errors::bug(&other)),
        };
        let (here, ended): (Vec<_>, Vec<_>) = open
            .into_iter()
            .zip(found)
            .partition(|(_, standing)| standing.is_some());
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
        Ok(here
            .into_iter()
            .filter_map(|(task, standing)| Some((task.seq, standing?)))
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

/// Lists leave the rows of results to GetTask.
fn listed(mut view: api::TaskView) -> api::TaskView {
    if let Some(done) = &mut view.done
        && let Some(result) = &mut done.result
        && !result.rows_json.is_empty()
    {
        result.rows_json = Default::default();
        done.result_omitted = true;
    }
    view
}
