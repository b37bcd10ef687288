//! Single tasks: cancel, show, list. What has ended is in the journal; where the others stand the core knows. The core is
//! asked before the journal is read: when it no longer holds a task, its outcome is durable, so the journal has it.

use super::{
    super::{
        convert::{self, Where},
        validate::ListTasks,
    },
    Schedulers, errors,
    listing::PAGE_BYTES,
};
use crate::{
    api,
    core::{Attempt, Caller, Handle, Reply, Seq, Standing, TaskId, Verb},
    journal::{StoredTask, TaskPage},
};
use prost::Message;
use std::collections::HashMap;
use tonic::Status;

/// Where unfinished tasks stand.
type Standings = HashMap<Seq, (Standing, Attempt)>;

/// Reads of the journal for one page of a filtered list.
const READS: usize = 8;
/// Tasks in one of them.
const READ_TASKS: usize = 1_000;

impl Schedulers {
    pub(super) async fn cancel(&self, caller: Caller, id: TaskId) -> Result<api::CancelTaskResponse, Status> {
        let done = |outcome| api::CancelTaskResponse { state: api::TaskState::Done.into(), outcome };
        match self.ask(caller, id.handle, Verb::Cancel(id.seq)).await? {
            Reply::Cancelling { running: true, .. } => {
                Ok(api::CancelTaskResponse { state: api::TaskState::Running.into(), outcome: 0 })
            }
            Reply::Cancelling { cancelled: true, .. } => Ok(done(api::Outcome::Cancelled.into())),
            Reply::Cancelling { .. } => {
                let outcomes = self.reader.outcomes(id.handle, &[id.seq]).await.map_err(errors::journal)?;
                let (done_no, event) = outcomes.get(&id.seq).ok_or_else(errors::task_not_found)?;
                Ok(done(convert::event(*done_no, event, 0, false).outcome))
            }
            other => Err(errors::bug(&other)),
        }
    }

    pub(super) async fn task(&self, caller: Caller, id: TaskId) -> Result<api::TaskView, Status> {
        let standing = self.locate(&caller, id.handle, vec![id.seq]).await?.remove(&id.seq);
        let task = self.reader.task(id.handle, id.seq).await.map_err(errors::journal)?;
        let task = task.ok_or_else(errors::task_not_found)?;
        Ok(convert::task_view(id.handle, &task, standing, true))
    }

    pub(super) async fn tasks(&self, caller: Caller, request: &api::ListTasksRequest) -> Result<api::ListTasksResponse, Status> {
        let ask = ListTasks::new(request, &caller.namespace)?;
        self.locate(&caller, ask.handle, Vec::new()).await?;
        let mut list = api::ListTasksResponse::default();
        let mut before = ask.before;
        let mut bytes = 0;
        for _ in 0..READS {
            let limit = if ask.state.is_some() { READ_TASKS } else { ask.size - list.tasks.len() };
            let (page, standings) = self.page(&caller, ask.handle, before, &ask, limit).await?;
            before = page.next;
            for task in &page.tasks {
                let standing = standings.get(&task.seq).copied();
                if ask.state.is_some_and(|state| state != convert::state(task, standing)) {
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
        list.next_page_token = before.map(|seq| ask.token.after(seq.0 as u128)).unwrap_or_default();
        Ok(list)
    }

    /// Tasks of the journal, and where the unfinished ones stand. One that ended in between is shown as ended.
    async fn page(
        &self,
        caller: &Caller,
        handle: Handle,
        before: Option<Seq>,
        ask: &ListTasks,
        limit: usize,
    ) -> Result<(TaskPage, Standings), Status> {
        let mut page = self.reader.tasks(handle, before, ask.order, limit).await.map_err(errors::journal)?;
        let open: Vec<Seq> = page.tasks.iter().filter(|task| task.done.is_none()).map(|task| task.seq).collect();
        if open.is_empty() {
            return Ok((page, HashMap::new()));
        }
        let standings = self.locate(caller, handle, open.clone()).await?;
        let ended: Vec<Seq> = open.into_iter().filter(|seq| !standings.contains_key(seq)).collect();
        if !ended.is_empty() {
            let mut outcomes = self.reader.outcomes(handle, &ended).await.map_err(errors::journal)?;
            let unknown = |task: &&mut StoredTask| task.done.is_none();
            page.tasks.iter_mut().filter(unknown).for_each(|task| task.done = outcomes.remove(&task.seq));
        }
        Ok((page, standings))
    }

    /// Where the unfinished ones of `seqs` stand.
    async fn locate(&self, caller: &Caller, handle: Handle, seqs: Vec<Seq>) -> Result<Standings, Status> {
        match self.ask(caller.clone(), handle, Verb::Locate(seqs.clone())).await? {
            Reply::Located(found) => {
                let known = |(seq, standing): (Seq, Where)| standing.map(|standing| (seq, standing));
                Ok(seqs.into_iter().zip(found).filter_map(known).collect())
            }
            other => Err(errors::bug(&other)),
        }
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
