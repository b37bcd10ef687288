//! RetryTask and RetryFailed: tasks that have ended are submitted once more, as copies. The journal
//! has them, and knows which have a retry already; the core knows the retries that came since it
//! was searched, and has it searched again.

use super::Schedulers;
use crate::{
    coordinator::CallError,
    core::{
        Caller, DoneNo, Handle, Outcome, Packed, Reject, Reply, Request, Retries, RetryOf, Run,
        Seq, Submit, TaskId, Verb, model::limits::CALL_BYTES,
    },
    journal::{Body, EndedTask, StoredTask},
    rpc::{
        errors::{self, reason::Reason},
        validate::{self, RetryFailed},
    },
};
use rallypoint_client::api;
use std::{collections::HashMap, sync::Arc};
use tonic::Status;

/// Tasks that one call retries at most.
const TASKS_PER_CALL: usize = 1_000;
/// How often the journal is searched for one call, while other callers are ahead.
const MAX_SEARCHES: usize = 8;

/// A task to retry.
struct Retriable {
    task: StoredTask,
    body: Body,
    of: RetryOf,
}

/// What the journal was found to hold for one call.
struct Found {
    tasks: Vec<Retriable>,
    /// Where to search on: after this event.
    next: Option<DoneNo>,
}

/// Copies that were submitted.
struct Copies {
    first_seq: Seq,
    done_no: DoneNo,
}

impl Schedulers {
    pub(super) async fn retry(
        &self,
        caller: Caller,
        request: Arc<api::RetryTaskRequest>,
    ) -> Result<api::RetryTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
        for _ in 0..MAX_SEARCHES {
            let searched = self.last_submitted(id.handle).await?;
            let task = self.retriable(&caller, id).await?;
            if let Some(retry) = task.retried_as {
                return Ok(api::RetryTaskResponse {
                    seq: retry.0,
                    already_retried: true,
                    done_no: None,
                });
            }
            let of = vec![(id.seq, retry_of(&task))];
            let tasks = self.with_bodies(id.handle, vec![task], of).await?;
            if tasks.is_empty() {
                return Err(errors::truncated("id.seq", id.seq.0 + 1));
            }
            let submit = submit(tasks, searched, None);
            if let Some(copy) = self.submit_copies(&caller, id.handle, submit).await? {
                return Ok(api::RetryTaskResponse {
                    seq: copy.first_seq.0,
                    already_retried: false,
                    done_no: Some(copy.done_no.0),
                });
            }
        }
        Err(errors::retried_meanwhile())
    }

    /// A task that has ended other than succeeded.
    async fn retriable(&self, caller: &Caller, id: TaskId) -> Result<StoredTask, Status> {
        let tasks = self.reader.tasks_of(id.handle, &[id.seq]).await;
        let mut tasks = tasks.map_err(errors::journal)?;
        if tasks.is_empty() {
            return Err(self.why_missing(caller.clone(), id).await?);
        }
        self.states(caller, id.handle, &mut tasks).await?;
        let task = tasks.remove(0);
        match task.done.as_ref().map(|(_, done)| done.outcome) {
            None => Err(errors::not_retriable(
                Reason::TaskUnfinished,
                id,
                "the task has not ended: wait for its AsyncDone, or cancel it first",
            )),
            Some(Outcome::Succeeded) => Err(errors::not_retriable(
                Reason::TaskSucceeded,
                id,
                "the task has succeeded: to run it again, submit it with ExecAsync",
            )),
            Some(_) => Ok(task),
        }
    }

    pub(super) async fn retry_failed(
        &self,
        caller: Caller,
        request: Arc<api::RetryFailedRequest>,
    ) -> Result<api::RetryFailedResponse, Status> {
        let query = RetryFailed::new(&request, &caller.namespace)?;
        let (handle, request) = (query.handle, query.request);
        let verb = Verb::Submitted(request);
        let last = match self.ask(caller.clone(), handle, verb).await? {
            // Retries that fail while one page follows the other are not among them.
            Reply::NotSubmitted { done_no } => query.last.unwrap_or(done_no),
            Reply::Submitted {
                first_seq,
                count,
                done_no,
            } => {
                let copies = Copies { first_seq, done_no };
                return self.retried_before(&query, copies, count).await;
            }
            other => return Err(errors::mismatched_reply(&other)),
        };
        for _ in 0..MAX_SEARCHES {
            let searched = self.last_submitted(handle).await?;
            let Found { mut tasks, next } = self.search(&query, last).await?;
            let next = next.map(|event| query.next_page(event, last));
            let next_page_token = next.unwrap_or_default();
            if tasks.is_empty() {
                return Ok(api::RetryFailedResponse {
                    next_page_token,
                    ..Default::default()
                });
            }
            tasks.sort_unstable_by_key(|one| one.task.seq);
            let retried = tasks.iter().map(|one| one.task.seq.0).collect();
            let submit = submit(tasks, searched, Some(request));
            if let Some(copies) = self.submit_copies(&caller, handle, submit).await? {
                return Ok(api::RetryFailedResponse {
                    retried,
                    first_seq: Some(copies.first_seq.0),
                    done_no: Some(copies.done_no.0),
                    next_page_token,
                });
            }
        }
        Err(errors::retried_meanwhile())
    }

    /// The answer to a repeated call: the same tasks, and where to search on after them.
    async fn retried_before(
        &self,
        query: &RetryFailed,
        copies: Copies,
        count: u32,
    ) -> Result<api::RetryFailedResponse, Status> {
        let newest_first = (0..count).rev().map(|at| copies.first_seq.plus(at));
        let seqs: Vec<Seq> = newest_first.collect();
        let tasks = self.reader.tasks_of(query.handle, &seqs).await;
        let tasks = tasks.map_err(errors::journal)?;
        let of = tasks.iter().rev().filter_map(|task| task.retry_of);
        let retried: Vec<Seq> = of.map(|of| of.seq).collect();
        let outcomes = self.reader.outcomes(query.handle, &retried).await;
        let outcomes = outcomes.map_err(errors::journal)?;
        let event = outcomes.values().map(|(event, _)| *event).max();
        let last = query.last.unwrap_or(copies.done_no);
        let next = event.map(|event| query.next_page(event, last));
        Ok(api::RetryFailedResponse {
            retried: retried.iter().map(|seq| seq.0).collect(),
            first_seq: Some(copies.first_seq.0),
            done_no: Some(copies.done_no.0),
            next_page_token: next.unwrap_or_default(),
        })
    }

    /// The next tasks that fit the filter and have no retry, up to the event `last`.
    async fn search(&self, query: &RetryFailed, last: DoneNo) -> Result<Found, Status> {
        let events = (query.after, last);
        let ended = self
            .reader
            .ended(query.handle, events, &query.ends, TASKS_PER_CALL);
        let (ended, mut next) = ended.await.map_err(errors::journal)?;
        let mut newest_first: Vec<Seq> = ended.iter().map(|one| one.seq).collect();
        newest_first.sort_unstable_by(|one, other| other.cmp(one));
        let stored = self.reader.tasks_of(query.handle, &newest_first).await;
        let stored = stored.map_err(errors::journal)?;
        let by_seq = stored.into_iter().map(|task| (task.seq, task));
        let mut by_seq: HashMap<Seq, StoredTask> = by_seq.collect();
        let mut tasks = Vec::new();
        let mut of = Vec::new();
        // By event, as they will be searched on.
        for EndedTask { seq, .. } in &ended {
            let task = by_seq.remove(seq).filter(|task| task.retried_as.is_none());
            if let Some(task) = task.filter(|task| query.has_labels(&task.spec.options.labels)) {
                of.push((*seq, retry_of(&task)));
                tasks.push(task);
            }
        }
        let wanted = tasks.len();
        let tasks = self.with_bodies(query.handle, tasks, of).await?;
        if tasks.len() < wanted
            && let Some(last) = tasks.last()
        {
            let events = ended.iter().filter(|one| one.seq == last.task.seq);
            next = events.map(|one| one.done_no).next();
        }
        Ok(Found { tasks, next })
    }

    /// As many of these tasks as a call may have bytes, in this order, with their bodies.
    async fn with_bodies(
        &self,
        handle: Handle,
        tasks: Vec<StoredTask>,
        of: Vec<(Seq, RetryOf)>,
    ) -> Result<Vec<Retriable>, Status> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let seqs: Vec<Seq> = of.iter().map(|(seq, _)| *seq).collect();
        let bodies = self.reader.bodies_of(handle, &seqs, CALL_BYTES).await;
        let bodies = bodies.map_err(errors::journal)?;
        let mut bodies: HashMap<Seq, Body> =
            bodies.into_iter().map(|body| (body.seq, body)).collect();
        let retriable = |(task, (seq, of))| {
            let body = bodies.remove(&seq)?;
            Some(Retriable { task, body, of })
        };
        Ok(tasks.into_iter().zip(of).filter_map(retriable).collect())
    }

    /// Submits copies; `None`: others have retries meanwhile, or may have.
    async fn submit_copies(
        &self,
        caller: &Caller,
        handle: Handle,
        submit: Submit,
    ) -> Result<Option<Copies>, Status> {
        let verb = Verb::Submit(Arc::new(submit));
        match self.coordinator.call(caller.clone(), handle, verb).await {
            Ok(Reply::Submitted {
                first_seq, done_no, ..
            }) => Ok(Some(Copies { first_seq, done_no })),
            Ok(other) => Err(errors::mismatched_reply(&other)),
            Err(CallError::Rejected(Reject::Retried { .. } | Reject::RetriesUnknown)) => Ok(None),
            Err(error) => Err(errors::call(error, handle)),
        }
    }

    async fn last_submitted(&self, handle: Handle) -> Result<Seq, Status> {
        let last = self.reader.last_submitted(handle).await;
        last.map_err(errors::journal)
    }
}

/// What the copy of a task stands for: its failure, or, if it is itself a copy that was cancelled,
/// what that stood for. A failure without an order halts nothing.
fn retry_of(task: &StoredTask) -> RetryOf {
    let done = task.done.as_ref();
    let failed = done.filter(|(_, done)| done.outcome.is_failure() && done.order.is_some());
    let before = task.retry_of.and_then(|of| of.failure);
    RetryOf {
        seq: task.seq,
        failure: failed.map(|(event, _)| *event).or(before),
    }
}

/// The copies of tasks, given by ascending number, as one call.
fn submit(tasks: Vec<Retriable>, searched: Seq, request: Option<Request>) -> Submit {
    let mut runs: Vec<Run> = Vec::new();
    for Retriable { task, .. } in &tasks {
        // A copy that ran after its order had passed has no effective one.
        let order = task.effective.or(task.order);
        match runs.last_mut() {
            Some(run) if run.order == order && run.spec == task.spec => run.count += 1,
            _ => runs.push(Run {
                count: 1,
                order,
                spec: task.spec.clone(),
            }),
        }
    }
    let params = |one: &Retriable| one.body.params.clone().unwrap_or_default();
    let all_params: Vec<_> = tasks.iter().map(params).collect();
    let params = match all_params.iter().all(|params| params.is_empty()) {
        true => Packed::default(),
        false => Packed::new(all_params.iter().map(|params| &params[..])),
    };
    Submit {
        request,
        runs,
        bodies: Packed::new(tasks.iter().map(|one| &one.body.body[..])),
        params,
        retries: Some(Retries {
            searched,
            of: tasks.iter().map(|one| one.of).collect(),
        }),
    }
}
