//! RetryTask, and what it shares with RetryFailed: tasks that have ended are submitted once more,
//! as copies. The journal has them, and knows which have a retry already; the core knows the
//! retries that came since it was searched, and has it searched again.

use super::Schedulers;
use crate::{
    coordinator::CallError,
    core::{
        Caller, DoneNo, Handle, Outcome, Packed, Reject, Reply, Request, Retries, RetryOf, Run,
        Seq, Spec, Submit, TaskId, Verb, Work, model::limits::CALL_BYTES,
    },
    journal::{Body, StoredTask},
    rpc::{
        errors::{
            self,
            reason::Reason,
            violations::{Path, Violations},
        },
        validate::{self, Replacement, Roles, Targets},
    },
    traces::CalledMethod,
};
use rallypoint_client::api;
use std::{collections::HashMap, sync::Arc};
use tonic::Status;

/// How often the journal is searched for one call, while other callers are ahead.
pub(super) const MAX_SEARCHES: usize = 8;
/// Retries of retries that are followed to name the last one.
const MAX_RETRIES_FOLLOWED: usize = 100;

/// A task to retry.
pub(super) struct Retriable {
    pub task: StoredTask,
    body: Body,
    of: RetryOf,
}

impl Retriable {
    /// Has the copy run something else.
    fn replace(&mut self, instead: &Replacement) {
        self.task.spec = Arc::new(Spec {
            work: instead.work(&self.task.spec.work),
            options: self.task.spec.options.clone(),
            trace: self.task.spec.trace.clone(),
        });
        self.body.body = instead.statement.clone();
        if !instead.keeps_params {
            self.body.params = instead.params.clone();
        }
    }

    fn runs_the_same_as(&self, other: &Retriable) -> bool {
        let bodies = [self, other].map(|one| (&one.body.body, &one.body.params));
        self.task.spec.work == other.task.spec.work && bodies[0] == bodies[1]
    }
}

/// Copies that were submitted.
pub(super) struct Copies {
    pub first_seq: Seq,
    pub count: u32,
    pub done_no: DoneNo,
}

/// What becomes of a call that submits copies.
pub(super) enum Submitted {
    Accepted(Copies),
    /// By an earlier call under the same request id: they may be copies of other tasks.
    Before(Copies),
    /// Others have retries meanwhile, or may have: search again.
    Overtaken,
    /// No limit will ever admit so many at once.
    TooMany(Status),
}

impl Schedulers {
    pub(super) async fn retry(
        &self,
        caller: Caller,
        request: Arc<api::RetryTaskRequest>,
    ) -> Result<api::RetryTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
        let targets = self.targets.of(&caller.namespace);
        let instead = Replacement::new(&request, &targets)?;
        self.check_visible(&caller, id.handle).await?;
        for _ in 0..MAX_SEARCHES {
            let searched = self.last_submitted(id.handle).await?;
            let task = self.retriable(&caller, id).await?;
            if let Some(retry) = task.retried_as {
                if let Some(instead) = &instead {
                    self.check_retry(id, task, retry, instead).await?;
                }
                return Ok(api::RetryTaskResponse {
                    seq: retry.0,
                    already_retried: true,
                    done_no: None,
                });
            }
            let of = vec![(id.seq, retry_of(&task))];
            let mut tasks = self.with_bodies(id.handle, vec![task], of).await?;
            let Some(one) = tasks.first_mut() else {
                return Err(errors::past_retention());
            };
            if let Some(instead) = &instead {
                one.replace(instead);
                check_role(&one.task.spec, &targets)?;
            }
            check_target(&one.task, &targets)?;
            let submit = (CalledMethod::RetryTask, submit(&tasks, searched, None));
            match self.submit_copies(&caller, id.handle, submit).await? {
                Submitted::Accepted(copy) | Submitted::Before(copy) => {
                    return Ok(api::RetryTaskResponse {
                        seq: copy.first_seq.0,
                        already_retried: false,
                        done_no: Some(copy.done_no.0),
                    });
                }
                Submitted::Overtaken => {}
                Submitted::TooMany(error) => return Err(error),
            }
        }
        Err(errors::retried_meanwhile())
    }

    /// Refuses a statement for a task whose retry runs another one: it would be dropped.
    async fn check_retry(
        &self,
        id: TaskId,
        task: StoredTask,
        retry: Seq,
        instead: &Replacement,
    ) -> Result<(), Status> {
        let copy = self.reader.tasks_of(id.handle, &[retry]).await;
        let mut tasks = copy.map_err(errors::journal)?;
        tasks.push(task);
        let of = tasks.iter().map(|task| (task.seq, retry_of(task)));
        let of = of.collect();
        let mut both = self.with_bodies(id.handle, tasks, of).await?;
        let [copy, wanted] = &mut both[..] else {
            return Err(errors::past_retention());
        };
        wanted.replace(instead);
        match wanted.runs_the_same_as(copy) {
            true => Ok(()),
            false => {
                let last = self.last_retry(id.handle, retry).await?;
                Err(errors::already_retried(id, retry, last))
            }
        }
    }

    /// The last of the retries that begin with this one, each of the one before.
    async fn last_retry(&self, handle: Handle, first: Seq) -> Result<Seq, Status> {
        let mut last = first;
        for _ in 0..MAX_RETRIES_FOLLOWED {
            let task = self.reader.tasks_of(handle, &[last]).await;
            let task = task.map_err(errors::journal)?;
            match task.first().and_then(|task| task.retried_as) {
                Some(next) => last = next,
                None => break,
            }
        }
        Ok(last)
    }

    /// A task that has ended other than succeeded.
    async fn retriable(&self, caller: &Caller, id: TaskId) -> Result<StoredTask, Status> {
        let tasks = self.reader.tasks_of(id.handle, &[id.seq]).await;
        let mut tasks = tasks.map_err(errors::journal)?;
        if tasks.is_empty() {
            return Err(self.why_missing(caller.clone(), id).await?);
        }
        let states = self.states(caller, id.handle, &mut tasks).await?;
        let task = tasks.remove(0);
        match task.done.as_ref().map(|(_, done)| done.outcome) {
            None if !states.contains_key(&id.seq) => Err(errors::past_retention()),
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

    /// As many of these tasks as a call may have bytes, in this order, with their bodies.
    pub(super) async fn with_bodies(
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

    pub(super) async fn submit_copies(
        &self,
        caller: &Caller,
        handle: Handle,
        (method, mut submit): (CalledMethod, Submit),
    ) -> Result<Submitted, Status> {
        let traced = self.trace_retries(method, &mut submit);
        let verb = Verb::Submit(Arc::new(submit));
        match self.coordinator.call(caller.clone(), handle, verb).await {
            Ok(Reply::Submitted {
                first_seq,
                count,
                done_no,
                repeated,
            }) => {
                let copies = Copies {
                    first_seq,
                    count,
                    done_no,
                };
                if repeated {
                    return Ok(Submitted::Before(copies));
                }
                self.retries_traced(traced, caller, handle, (first_seq, count));
                Ok(Submitted::Accepted(copies))
            }
            Ok(other) => Err(errors::mismatched_reply(&other)),
            Err(CallError::Rejected(Reject::Retried { .. } | Reject::RetriesUnknown)) => {
                Ok(Submitted::Overtaken)
            }
            Err(error) => {
                let is_never = matches!(
                    &error,
                    CallError::Rejected(Reject::LimitReached { wait: None, .. })
                );
                let error = errors::call(error, handle);
                match is_never {
                    true => Ok(Submitted::TooMany(error)),
                    false => Err(error),
                }
            }
        }
    }

    pub(super) async fn last_submitted(&self, handle: Handle) -> Result<Seq, Status> {
        let last = self.reader.last_submitted(handle).await;
        last.map_err(errors::journal)
    }
}

/// What a copy runs instead may be on a target where its role is not allowed.
fn check_role(spec: &Spec, targets: &Targets) -> Result<(), Violations> {
    let mut v = Violations::default();
    let roles = Roles::of(targets, &spec.work);
    if let Some(role) = &spec.options.session.role
        && !roles.allow(role)
    {
        let refusal = roles.refusal(role);
        let message = format!("name another target, since the task keeps its role: {refusal}");
        let path = Path::Root.field("sql");
        v.add(path.field("target"), Reason::RoleNotAllowed, message);
    }
    v.into_result(())
}

/// Whether the target of the task is still configured, and the caller's to use.
pub(super) fn has_target(one: &Retriable, targets: &Targets) -> bool {
    match &one.task.spec.work {
        Work::Sql { target } => targets.has(target),
        Work::Noop => true,
    }
}

/// Refuses a task whose target is no more: its copy would wait for it for ever.
fn check_target(task: &StoredTask, targets: &Targets) -> Result<(), Violations> {
    let mut v = Violations::default();
    if let Work::Sql { target } = &task.spec.work
        && let Err(message) = targets.check(target)
    {
        let message = format!(
            "task {} is one of {target}: {message}; `sql.target` names another one",
            task.seq.0
        );
        v.add(Path::Root.field("id"), Reason::TargetUnknown, message);
    }
    v.into_result(())
}

/// What the copy of a task stands for: its failure, or, if it is itself a copy that was cancelled,
/// what that stood for. A failure without an order halts nothing.
pub(super) fn retry_of(task: &StoredTask) -> RetryOf {
    let done = task.done.as_ref();
    let failed = done.filter(|(_, done)| done.outcome.is_failure() && done.order.is_some());
    let before = task.retry_of.and_then(|of| of.failure);
    RetryOf {
        seq: task.seq,
        failure: failed.map(|(event, _)| *event).or(before),
    }
}

/// The copies of tasks as one call, by the numbers of the tasks.
pub(super) fn submit(tasks: &[Retriable], searched: Seq, request: Option<Request>) -> Submit {
    let mut tasks: Vec<&Retriable> = tasks.iter().collect();
    tasks.sort_unstable_by_key(|one| one.task.seq);
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
    let params = |one: &&Retriable| one.body.params.clone().unwrap_or_default();
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
