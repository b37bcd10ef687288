//! A task in API form, and the event that reports its outcome.

use super::{options, task_id, timestamp};
use crate::{
    coordinator::EVENT_RESULT_BYTES,
    core::{
        Attempt, Done, DoneNo, Handle, Outcome, Run, Seq, Submit, TaskError, TaskId, TaskResult,
        TaskState, Time, Work, model::diagnostics::Diagnostics,
    },
    journal::{Body, StoredTask},
};
use prost_types::NullValue;
use rallypoint_client::api::{self, sql_value::Kind as Value, task::Kind};
use std::{borrow::Cow, mem};

/// State of an unfinished task according to the core, and its attempts begun.
pub(super) type Unfinished = Option<(TaskState, Attempt)>;

/// The event of the `index`th task covered by `done`, whose first event has number `done_no`. With
/// `whole`, the result is included whatever its size.
pub(crate) fn event(done_no: DoneNo, done: &Done, index: u32, whole: bool) -> api::AsyncDone {
    let result = done.result.as_deref();
    let omitted =
        !whole && result.is_some_and(|result| result.rows_json.len() > EVENT_RESULT_BYTES);
    let mut known = diagnostics(&done.diagnostics);
    let (replica, notices) = (mem::take(&mut known.replica), mem::take(&mut known.notices));
    api::AsyncDone {
        done_no: done_no.0 + i64::from(index),
        seq: done.first.plus(index).0,
        effective_order: done.order.map(|order| order.0),
        outcome: outcome(done.outcome).into(),
        error: done.error.as_ref().map(|e| error(e, known)),
        attempt: done.attempt.0,
        started_us: done.started.map_or(0, |time| time.0),
        ended_us: done.ended.0,
        result: result.map(|result| task_result(result, !omitted)),
        rows_omitted: omitted,
        replica,
        slot: done.slot as i32,
        backend_pid: done.backend_pid,
        notices,
        retry_of: done.retry_of.map(|task| task.0),
    }
}

/// An error, with what else the target said of it.
pub(super) fn error(error: &TaskError, known: Diagnostics) -> api::TaskError {
    api::TaskError {
        code: error.code.clone(),
        message: error.message.clone(),
        detail: known.detail.unwrap_or_default(),
        hint: known.hint.unwrap_or_default(),
        context: known.context.unwrap_or_default(),
        constraint: known.constraint.unwrap_or_default(),
        position: known.position.map(|position| position as i32),
    }
}

/// What a version of this program cannot read it leaves out.
pub(super) fn diagnostics(json: &[u8]) -> Diagnostics {
    match json.is_empty() {
        true => Diagnostics::default(),
        false => serde_json::from_slice(json).unwrap_or_default(),
    }
}

/// A task from its stored row and, while unfinished, its state in the core.
pub(crate) fn task_view(
    handle: Handle,
    task: &StoredTask,
    unfinished: Unfinished,
) -> api::TaskView {
    let done = task.done.as_ref().map(|(done_no, done)| api::AsyncDone {
        rows_omitted: task.rows_omitted,
        ..event(*done_no, done, 0, true)
    });
    let (started, next) = times(unfinished.filter(|_| done.is_none()));
    api::TaskView {
        id: Some(task_id(TaskId {
            handle,
            seq: task.seq,
        })),
        task: Some(submitted(task)),
        effective_order: task.effective.map(|order| order.0),
        state: state(task, unfinished).into(),
        attempt: done.as_ref().map_or_else(
            || unfinished.map_or(0, |(_, attempt)| attempt.0),
            |done| done.attempt,
        ),
        submitted_at: Some(timestamp(task.submitted_at)),
        started_at: started.map(timestamp),
        next_attempt_at: next.map(timestamp),
        done,
        retry_of: task.retry_of.map(|of| of.seq.0),
        retried_as: task.retried_as.map(|retry| retry.0),
        submitted_by: None,
        statement_preview: String::new(),
    }
}

/// The task as it was submitted, with the options in effect; without its body unless that was read.
fn submitted(task: &StoredTask) -> api::Task {
    let body = task.body.as_ref();
    let kind = match &task.spec.work {
        Work::Noop => Kind::Noop(api::NoopTask {
            payload: body.map(|body| body.body.clone()).unwrap_or_default(),
        }),
        Work::Sql { target } => Kind::Sql(api::SqlTask {
            statement: body.map(statement).unwrap_or_default(),
            params: body.map(params).unwrap_or_default(),
            target: target.to_string(),
        }),
    };
    api::Task {
        kind: Some(kind),
        order: task.order.map(|order| order.0),
        options: Some(options::options(&task.spec.options)),
    }
}

/// Tasks that are not submitted yet: the steps of a job.
pub(super) fn steps(submit: &Submit) -> Vec<api::Task> {
    let runs = submit.runs.iter();
    let each = runs.flat_map(|run| std::iter::repeat_n(run, run.count as usize));
    let step = |(at, run): (usize, &Run)| {
        let params = Some(&submit.params).filter(|params| !params.is_empty());
        let params = params.map(|params| params.get(at));
        let body = Body {
            seq: Seq(at as i64 + 1),
            body: submit.bodies.get(at),
            params: params.filter(|params| !params.is_empty()),
        };
        let kind = match &run.spec.work {
            Work::Noop => Kind::Noop(api::NoopTask { payload: body.body }),
            Work::Sql { target } => Kind::Sql(api::SqlTask {
                statement: statement(&body),
                params: self::params(&body),
                target: target.to_string(),
            }),
        };
        let options = &run.spec.options;
        api::Task {
            kind: Some(kind),
            order: run.order.map(|order| order.0),
            options: (!options.is_default()).then(|| options::options(options)),
        }
    };
    each.enumerate().map(step).collect()
}

/// What was submitted is UTF-8, and stored as it is.
fn statement(body: &Body) -> String {
    String::from_utf8_lossy(&body.body).into_owned()
}

/// The state of a task.
pub(crate) fn state(task: &StoredTask, unfinished: Unfinished) -> api::TaskState {
    match (&task.done, unfinished) {
        (Some(_), _) => api::TaskState::Done,
        (None, Some((TaskState::Blocked { .. }, _))) => api::TaskState::Blocked,
        (None, Some((TaskState::Queued, _))) => api::TaskState::Queued,
        (None, Some((TaskState::Running { .. }, _))) => api::TaskState::Running,
        (None, Some((TaskState::Retrying { .. }, _))) => api::TaskState::Retrying,
        (None, None) => api::TaskState::Unspecified,
    }
}

fn times(unfinished: Unfinished) -> (Option<Time>, Option<Time>) {
    match unfinished {
        Some((TaskState::Running { since }, _)) => (Some(since), None),
        Some((TaskState::Retrying { next_at }, _)) => (None, Some(next_at)),
        Some((TaskState::Blocked { next_at }, _)) => (None, next_at),
        Some((TaskState::Queued, _)) | None => (None, None),
    }
}

fn outcome(outcome: Outcome) -> api::Outcome {
    match outcome {
        Outcome::Succeeded => api::Outcome::Succeeded,
        Outcome::Failed => api::Outcome::Failed,
        Outcome::Cancelled => api::Outcome::Cancelled,
        Outcome::TimedOut => api::Outcome::TimedOut,
        Outcome::Exhausted => api::Outcome::Exhausted,
    }
}

fn task_result(result: &TaskResult, with_rows: bool) -> api::TaskResult {
    let TaskResult {
        rows_affected,
        rows_json,
        truncated,
    } = result;
    let rows = if with_rows { &rows_json[..] } else { &[] };
    // The executor writes it, and takes nothing from a target that is not UTF-8. To find that
    // out costs less than a search for what to replace.
    let rows = str::from_utf8(rows).map_or_else(|_| String::from_utf8_lossy(rows), Cow::Borrowed);
    api::TaskResult {
        rows_affected: *rows_affected,
        rows_json: rows.into_owned(),
        truncated: *truncated,
    }
}

fn params(body: &Body) -> Vec<api::SqlValue> {
    let texts: Vec<Option<String>> = body
        .params
        .as_ref()
        .and_then(|params| serde_json::from_slice(params).ok())
        .unwrap_or_default();
    texts
        .into_iter()
        .map(|text| api::SqlValue {
            kind: Some(text.map_or(Value::Null(NullValue::NullValue.into()), Value::Text)),
        })
        .collect()
}
