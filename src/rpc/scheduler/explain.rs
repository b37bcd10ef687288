//! ExplainTask: what the core says of a task, and what only others know: why a target is away,
//! where an attempt runs, and which session of a lost host keeps it from starting again. These are
//! asked when they matter, each for a limited time; who does not answer is named.

use super::Schedulers;
use crate::{
    core::{Attempt, Caller, Reply, TaskId, TaskRef, Time, Verb, Work},
    rpc::{
        convert::{
            self,
            explanation::{self, blocker},
            timestamp,
        },
        errors, validate,
    },
};
use rallypoint_client::api::{self, blocker::Kind};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tonic::Status;

/// Sessions of lost hosts that one answer names.
const FENCES_SHOWN: usize = 10;
/// How long the journal may take to say whose end is awaited.
const FENCES_TIMEOUT: Duration = Duration::from_secs(2);

impl Schedulers {
    pub(super) async fn explain(
        &self,
        caller: Caller,
        request: Arc<api::ExplainTaskRequest>,
    ) -> Result<api::ExplainTaskResponse, Status> {
        let id = validate::task_id(request.id.as_ref())?;
        self.check_visible(&caller, id.handle).await?;
        let order = self.reader.effective_order(id.handle, id.seq).await;
        let Some(order) = order.map_err(errors::journal)? else {
            return Err(self.why_missing(caller, id).await?);
        };
        let verb = Verb::Explain(TaskRef { seq: id.seq, order });
        let now = self.coordinator.clock().now();
        let mut answer = match self.ask(caller, id.handle, verb).await? {
            Reply::Explained(Some(explained)) => {
                let task = request.id.clone().unwrap_or_default();
                let mut answer = explanation::explanation(task, &explained, now);
                self.add_outages(&mut answer, now).await;
                self.find_attempt(&mut answer, id, &explained.work, now)
                    .await;
                answer
            }
            Reply::Explained(None) => self.explain_ended(id, now).await?,
            other => return Err(errors::mismatched_reply(&other)),
        };
        let summary = self.summary(id).await?;
        answer.submitted_by = summary.submitted_by;
        answer.statement_preview = summary.statement_preview;
        answer.text = explanation::summary(&answer, now);
        Ok(answer)
    }

    async fn explain_ended(
        &self,
        id: TaskId,
        now: Time,
    ) -> Result<api::ExplainTaskResponse, Status> {
        let outcomes = self.reader.outcomes(id.handle, &[id.seq]).await;
        let mut outcomes = outcomes.map_err(errors::journal)?;
        let (done_no, event) = outcomes
            .remove(&id.seq)
            .ok_or_else(errors::past_retention)?;
        let done = convert::event(done_no, &event, 0, false);
        Ok(api::ExplainTaskResponse {
            id: Some(convert::task_id(id)),
            state: api::TaskState::Done.into(),
            outcome: done.outcome,
            attempt: done.attempt,
            as_of: Some(timestamp(now)),
            done: Some(done),
            ..Default::default()
        })
    }

    /// What is in the way of a target that no replica can use, as each of them says it.
    async fn add_outages(&self, answer: &mut api::ExplainTaskResponse, now: Time) {
        let of_target = |blocker: &&mut api::Blocker| {
            matches!(
                blocker.kind,
                Some(Kind::TargetAway(_) | Kind::NoExecutor(_))
            )
        };
        let found = answer.blockers.iter_mut().find(of_target);
        if let Some(one) = found
            && let Some(kind) = one.kind.take()
        {
            let found = self.executions.of_all_replicas().await;
            *one = blocker(explanation::with_outages(kind, &found), now);
        }
    }

    /// Where an attempt runs. What nobody runs may wait for the end of a lost host.
    async fn find_attempt(
        &self,
        answer: &mut api::ExplainTaskResponse,
        id: TaskId,
        work: &Work,
        now: Time,
    ) {
        let Some(known) = answer.running.take() else {
            return;
        };
        let (found, unreachable) = self.executions.of_task(id, Attempt(answer.attempt)).await;
        let is_found = found.attempt.is_some();
        let sessions = found.blocked_by.into_iter().map(Kind::Session);
        answer
            .blockers
            .extend(sessions.map(|session| blocker(session, now)));
        let mut attempt = api::RunningAttempt {
            started_at: known.started_at,
            stopping: known.stopping,
            unreachable,
            ..found.attempt.unwrap_or_default()
        };
        attempt.text = explanation::running(&attempt, answer.attempt, now);
        answer.running = Some(attempt);
        let Work::Sql { target } = work else {
            return;
        };
        if is_found {
            return;
        }
        if let Ok(Ok(fences)) = timeout(FENCES_TIMEOUT, self.reader.pending_fences()).await {
            let on_target = fences.iter().filter(|fence| *fence.target == **target);
            let pending = on_target.map(explanation::pending_fence).take(FENCES_SHOWN);
            let blockers = pending.map(|fence| blocker(Kind::FencePending(fence), now));
            answer.blockers.extend(blockers);
        }
    }
}
