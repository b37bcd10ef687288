//! ExecAsync: the hot path. Tasks are converted in one pass; consecutive tasks that differ only in
//! their bodies become one run with one spec. They are found by comparing what the caller sent,
//! before anything is converted.

use super::{DEFAULT_TARGET, Roles, Targets, hash::PayloadHash, options, scalar};
use crate::{
    core::{Handle, Packed, Request, Run, Spec, Submit, TaskOptions, Work, model::limits},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use bytes::Bytes;
use rallypoint_client::api::{self, sql_value::Kind as Value, task::Kind};
use std::sync::Arc;

/// What one message can bind, see `executor/sql/statement.rs`.
const MAX_PARAMS: usize = i16::MAX as usize;

/// The scheduler, and the tasks submitted to it.
pub(crate) fn exec_async(
    request: &api::ExecAsyncRequest,
    targets: &Targets,
) -> Result<(Handle, Arc<Submit>), Violations> {
    let mut v = Violations::default();
    let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
    let id = scalar::request_id(&mut v, Path::Root.field("request_id"), &request.request_id);
    let path = Path::Root.field("tasks");
    match request.tasks.len() {
        0 => v.add(path, Reason::TasksEmpty, "at least one task"),
        1..=limits::TASKS_PER_CALL => {}
        _ => {
            v.add(
                path,
                Reason::TooManyTasks,
                format!(
                    "at most {} tasks a call; make several calls",
                    limits::TASKS_PER_CALL
                ),
            );
            return Err(v);
        }
    }
    let steps = steps(&mut v, path, &request.tasks, targets);
    if steps.bodies.bytes.len() + steps.params.bytes.len() > limits::CALL_BYTES {
        v.add(
            path,
            Reason::CallTooLarge,
            "at most 4 MiB of statements, parameters and payloads a call; make several calls",
        );
    }
    let mut submit = v.into_result(steps)?;
    submit.request = id.map(|id| Request {
        id,
        hash: hash(request, &submit),
    });
    Ok((handle, Arc::new(submit)))
}

/// Tasks that are not submitted yet: the steps of a job.
pub(super) fn steps(
    v: &mut Violations,
    path: Path<'_>,
    tasks: &[api::Task],
    targets: &Targets,
) -> Submit {
    Submit {
        request: None,
        runs: runs(v, path, tasks, targets),
        bodies: bodies(v, path, tasks),
        params: params(v, path, tasks),
        retries: None,
    }
}

fn runs(v: &mut Violations, path: Path<'_>, tasks: &[api::Task], targets: &Targets) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut previous: Option<&api::Task> = None;
    for (index, task) in tasks.iter().enumerate() {
        match (previous, runs.last_mut()) {
            (Some(previous), Some(run)) if same_spec(previous, task) => run.count += 1,
            _ => runs.push(run(v, path.index(index), task, targets)),
        }
        previous = Some(task);
    }
    runs
}

/// Two tasks differ in nothing but body and parameters.
fn same_spec(a: &api::Task, b: &api::Task) -> bool {
    let kind = match (&a.kind, &b.kind) {
        (Some(Kind::Noop(_)), Some(Kind::Noop(_))) => true,
        (Some(Kind::Sql(a)), Some(Kind::Sql(b))) => a.target == b.target,
        _ => false,
    };
    kind && a.order == b.order && a.options == b.options
}

fn run(v: &mut Violations, path: Path<'_>, task: &api::Task, targets: &Targets) -> Run {
    let work = work(v, path, task, targets);
    let roles = Roles::of(targets, &work);
    let order = task
        .order
        .map(|order| scalar::order(v, path.field("order"), order));
    let options = match &task.options {
        Some(options) => options::task_options(v, path.field("options"), options, roles),
        None => TaskOptions::default(),
    };
    let is_noop = matches!(task.kind, Some(Kind::Noop(_)));
    if is_noop && !options.resources.is_empty() {
        let options = path.field("options");
        let message = "a no-op takes no time and holds nothing: leave `resources` out";
        v.add(
            options.field("resources"),
            Reason::ResourcesNotPossible,
            message,
        );
    }
    Run {
        count: 1,
        order,
        spec: Arc::new(Spec {
            work,
            options,
            trace: None,
        }),
    }
}

/// What the copy of a task runs in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// `None`: that of the task, or the usual one if it has none.
    target: Option<Arc<str>>,
    pub statement: Bytes,
    /// The parameters are those of the task.
    pub keeps_params: bool,
    /// JSON array of text or null; `None`: no parameters.
    pub params: Option<Bytes>,
}

impl Replacement {
    /// Validates what a request says of it; `None`: the copy runs the same.
    pub(crate) fn new(
        request: &api::RetryTaskRequest,
        targets: &Targets,
    ) -> Result<Option<Self>, Violations> {
        let mut v = Violations::default();
        let path = Path::Root.field("no_params");
        let Some(sql) = &request.sql else {
            if request.no_params {
                let message = "it is about another statement: set `sql`";
                v.add(path, Reason::BodyEmpty, message);
            }
            return v.into_result(None);
        };
        if request.no_params && !sql.params.is_empty() {
            let message = "there are parameters: set this, or `sql.params`";
            v.add(path, Reason::TooManyParams, message);
        }
        let task = [api::Task {
            kind: Some(Kind::Sql(sql.clone())),
            ..api::Task::default()
        }];
        let named = Some(&task[0]).filter(|_| !sql.target.is_empty());
        let target = named.and_then(|task| match work(&mut v, Path::Root, task, targets) {
            Work::Sql { target } => Some(target),
            Work::Noop => None,
        });
        check_body(&mut v, Path::Root, &task[0], body(&task[0]));
        check_params(&mut v, Path::Root, &sql.params);
        let params = params_json(&sql.params);
        v.into_result(Some(Replacement {
            target,
            statement: Bytes::copy_from_slice(sql.statement.as_bytes()),
            keeps_params: params.is_none() && !request.no_params,
            params: params.map(Bytes::from),
        }))
    }

    /// What the copy of a task that was this is.
    pub(crate) fn work(&self, before: &Work) -> Work {
        match (&self.target, before) {
            (Some(target), _) | (None, Work::Sql { target }) => Work::Sql {
                target: target.clone(),
            },
            (None, Work::Noop) => Work::Sql {
                target: DEFAULT_TARGET.into(),
            },
        }
    }
}

fn work(v: &mut Violations, path: Path<'_>, task: &api::Task, targets: &Targets) -> Work {
    match &task.kind {
        Some(Kind::Noop(_)) => return Work::Noop,
        Some(Kind::Sql(sql)) => match targets.find(&sql.target) {
            Some(target) => return Work::Sql { target },
            None => v.add_with(
                path.field("sql").field("target"),
                Reason::TargetUnknown,
                || targets.unknown(&sql.target),
            ),
        },
        None => v.add(
            path.field("kind"),
            Reason::KindMissing,
            "set what to run: `sql` or `noop`",
        ),
    }
    Work::Noop
}

fn bodies(v: &mut Violations, path: Path<'_>, tasks: &[api::Task]) -> Packed {
    let size = tasks.iter().map(|task| body(task).len()).sum();
    let mut bytes = Vec::with_capacity(size);
    let mut ends = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.iter().enumerate() {
        let body = body(task);
        check_body(v, path.index(index), task, body);
        bytes.extend_from_slice(body);
        ends.push(bytes.len() as u32);
    }
    Packed {
        bytes: bytes.into(),
        ends,
    }
}

fn body(task: &api::Task) -> &[u8] {
    match &task.kind {
        Some(Kind::Sql(sql)) => sql.statement.as_bytes(),
        Some(Kind::Noop(noop)) => &noop.payload,
        None => &[],
    }
}

fn check_body(v: &mut Violations, path: Path<'_>, task: &api::Task, body: &[u8]) {
    let is_sql = matches!(task.kind, Some(Kind::Sql(_)));
    let kind = path.field(if is_sql { "sql" } else { "noop" });
    let field = kind.field(if is_sql { "statement" } else { "payload" });
    let found = match () {
        () if body.len() > limits::BODY_BYTES => {
            let message = || format!("{} bytes: at most 1 MiB", body.len());
            return v.add_with(field, Reason::BodyTooLarge, message);
        }
        () if is_sql && body.trim_ascii().is_empty() => {
            (Reason::BodyEmpty, "the statement is empty")
        }
        () if is_sql && body.contains(&0) => (
            Reason::BodyNul,
            "must not hold a NUL character: Postgres cannot take it",
        ),
        () => return,
    };
    v.add(field, found.0, found.1);
}

fn params_of(task: &api::Task) -> &[api::SqlValue] {
    match &task.kind {
        Some(Kind::Sql(sql)) => &sql.params,
        _ => &[],
    }
}

/// JSON arrays of text or null, one per task; empty when no task has parameters.
fn params(v: &mut Violations, path: Path<'_>, tasks: &[api::Task]) -> Packed {
    if tasks.iter().all(|task| params_of(task).is_empty()) {
        return Packed::default();
    }
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(tasks.len());
    for (index, task) in tasks.iter().enumerate() {
        let values = params_of(task);
        check_params(v, path.index(index), values);
        bytes.extend(params_json(values).unwrap_or_default());
        ends.push(bytes.len() as u32);
    }
    Packed {
        bytes: bytes.into(),
        ends,
    }
}

/// A JSON array of text or null; `None`: there are none.
fn params_json(values: &[api::SqlValue]) -> Option<Vec<u8>> {
    let texts: Vec<Option<&str>> = values.iter().map(text).collect();
    (!texts.is_empty()).then(|| serde_json::json!(texts).to_string().into_bytes())
}

fn check_params(v: &mut Violations, task: Path<'_>, values: &[api::SqlValue]) {
    let sql = task.field("sql");
    let path = sql.field("params");
    if values.len() > MAX_PARAMS {
        return v.add(
            path,
            Reason::TooManyParams,
            format!("at most {MAX_PARAMS} parameters"),
        );
    }
    let size: usize = values.iter().filter_map(text).map(str::len).sum();
    if size > limits::BODY_BYTES {
        v.add_with(path, Reason::BodyTooLarge, || {
            format!("{size} bytes: at most 1 MiB in all")
        });
    }
    for (index, value) in values.iter().enumerate() {
        let (reason, message) = match &value.kind {
            None => (Reason::ValueMissing, "set `text` or `null`"),
            Some(Value::Text(text)) if text.contains('\0') => (
                Reason::BodyNul,
                "must not hold a NUL character: Postgres cannot take it",
            ),
            Some(Value::Text(_) | Value::Null(_)) => continue,
        };
        v.add(path.index(index), reason, message);
    }
}

/// The value in text form; `None`: SQL NULL.
fn text(value: &api::SqlValue) -> Option<&str> {
    match &value.kind {
        Some(Value::Text(text)) => Some(text),
        Some(Value::Null(_)) | None => None,
    }
}

fn hash(request: &api::ExecAsyncRequest, submit: &Submit) -> i64 {
    let mut hash = PayloadHash::new("ExecAsync");
    hash.bytes(request.handle.as_bytes());
    let mut first = 0;
    for run in &submit.runs {
        let task = &request.tasks[first];
        hash.number(i64::from(run.count));
        hash.number(run.order.map_or(-1, |order| order.0));
        hash.bytes(run.spec.work.to_string().as_bytes());
        hash.options(task.options.as_ref());
        first += run.count as usize;
    }
    for packed in [&submit.bodies, &submit.params] {
        hash.bytes(&packed.bytes);
        packed
            .ends
            .iter()
            .for_each(|end| hash.number(i64::from(*end)));
    }
    hash.finish()
}
