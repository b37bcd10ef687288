//! What runs wait for, where their job alone says it.

use crate::cli::output;
use rallypoint_client::{
    Client,
    api::{GetJobRequest, JobRun, RunReason, RunState},
};

/// Says it in the details of those runs of a job that wait for nothing else, for people. A call
/// that fails is no fault of the command, which has its answer.
pub(super) async fn explain(client: &Client, runs: &mut [JobRun]) {
    let is_unexplained = |run: &&mut JobRun| {
        let has_reason = run.reason() != RunReason::Unspecified || !run.detail.is_empty();
        run.state() == RunState::Waiting && !has_reason
    };
    let mut unexplained = runs.iter_mut().filter(is_unexplained).peekable();
    let Some(first) = unexplained.peek().filter(|_| !output::is_json()) else {
        return;
    };
    let name = first.job.clone();
    let Ok(known) = client.get_job(GetJobRequest { name }).await else {
        return;
    };
    let job = known.job.unwrap_or_default();
    let what_for = match job.settings.and_then(|settings| settings.claims) {
        _ if job.paused.is_some() => "the job is paused",
        Some(_) => "to be claimed, in its turn, unless the agent is stopped",
        None => "its turn: runs before it are not over, or the agent is stopped",
    };
    unexplained.for_each(|run| run.detail = what_for.to_owned());
}
