//! The tasks of a job: its steps, what asks a target in place of steps, and what follows a failure.

use super::super::{Targets, settings, submit};
use crate::{
    core::{
        OnFailure, Settings, Submit,
        model::limits::{JOB_TASK_BYTES, JOB_TASKS},
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api::{self, task::Kind};

/// Asks a target what became of a run: the first one lets nobody finish it any more who has had a
/// claim so far, the second one fails unless it is finished. Their parameters are those of the run.
const QUESTION: [&str; 2] = [
    "select rallypoint.close_run($1, $2, $3, $4)",
    "select rallypoint.require_finished($1, $2, $3)",
];

/// The tasks of a run, and those that follow a failure.
pub(super) fn tasks(
    v: &mut Violations,
    path: Path<'_>,
    given: &api::JobSettings,
    targets: &Targets,
) -> (Submit, Submit) {
    let field = path.field("steps");
    let wrong_count = format!("a job has 1 to {JOB_TASKS} steps, those of `on_failure` included");
    if given.steps.len() + given.on_failure.len() > JOB_TASKS {
        v.add(field, Reason::JobInvalid, wrong_count);
        let none = submit::steps(v, field, &[], targets);
        return (none.clone(), none);
    }
    let steps = match &given.claims {
        Some(claims) => {
            if !given.steps.is_empty() {
                let what = "programs outside the service do the runs (`claims`): leave it out";
                v.add(field, Reason::JobInvalid, what);
            }
            let claimed = path.field("claims");
            let target = claimed.field("target");
            let is_known = claims.target.is_empty() || targets.find(&claims.target).is_some();
            let asked = match is_known {
                true => question(&claims.target),
                false => {
                    v.add(
                        target,
                        Reason::TargetUnknown,
                        targets.unknown(&claims.target),
                    );
                    Vec::new()
                }
            };
            submit::steps(v, target, &asked, targets)
        }
        None => {
            if given.steps.is_empty() {
                v.add(field, Reason::JobInvalid, wrong_count);
            }
            submit::steps(v, field, &given.steps, targets)
        }
    };
    let on_failure = submit::steps(v, path.field("on_failure"), &given.on_failure, targets);
    let bytes = |tasks: &Submit| tasks.bodies.bytes.len() + tasks.params.bytes.len();
    if bytes(&steps) + bytes(&on_failure) > JOB_TASK_BYTES {
        let what = "the tasks of a job are 1 MiB together at most: call functions";
        v.add(field, Reason::JobInvalid, what);
    }
    (steps, on_failure)
}

/// Settings of the schedulers that runs open.
pub(super) fn scheduler(
    v: &mut Violations,
    path: Path<'_>,
    given: &api::JobSettings,
    targets: &Targets,
) -> Settings {
    let none = api::SchedulerSettings::default();
    let scheduler = given.scheduler.as_ref().unwrap_or(&none);
    let mut settings = settings::settings(v, path.field("scheduler"), scheduler, targets);
    if given.claims.is_some() {
        // The second half of the question has no meaning without the first.
        settings.on_failure = OnFailure::CancelRest;
    }
    settings
}

fn question(target: &str) -> Vec<api::Task> {
    let task = |(order, statement): (i64, &str)| api::Task {
        order: Some(order),
        kind: Some(Kind::Sql(api::SqlTask {
            target: target.to_owned(),
            statement: statement.to_owned(),
            ..api::SqlTask::default()
        })),
        ..api::Task::default()
    };
    let asked = (!target.is_empty()).then_some((1..).zip(QUESTION));
    asked.into_iter().flatten().map(task).collect()
}
