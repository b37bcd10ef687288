//! Does what was confirmed. Calls are repeated by the client under their request ids, so each is
//! done once.

use super::{
    call::Call,
    place::Place,
    subject::TaskName,
    units::{counted, number},
};
use prost_types::Timestamp;
use rallypoint_client::{
    Client, Result, Scheduler,
    api::{
        CancelRunRequest, CancelTasksRequest, DeclareDeadRequest, PauseJobRequest, PauseMode,
        PauseTargetRequest, ResumeJobRequest, ResumeTargetRequest, RunJobRequest,
        StartAgentRequest, StopAgentRequest, StopMode, TaskFilter, TaskState, declare_dead_request,
        pause_target_request, resume_target_request,
    },
};

/// What was done, in a sentence, and where that leads.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) text: String,
    pub(super) place: Option<Place>,
}

/// Makes the calls of an action.
pub(super) async fn act(client: &Client, call: Call) -> Result<Done> {
    let scheduler = |handle: &str| client.scheduler(handle);
    let text = match call {
        Call::RetryTask(task) => return retry_task(client, task).await,
        Call::CancelTask(task) => {
            let answer = scheduler(&task.handle).cancel(task.seq).await?;
            cancelled(task.seq, answer.state())
        }
        Call::PauseScheduler(handle) => {
            scheduler(&handle).pause().await?;
            "it is paused".to_owned()
        }
        Call::ResumeScheduler {
            handle,
            ignore_failures,
        } => {
            scheduler(&handle).resume(ignore_failures).await?;
            "it goes on".to_owned()
        }
        Call::RetryFailed(handle) => retry_failed(&scheduler(&handle)).await?,
        Call::CancelWaiting(handle) => cancel_waiting(&scheduler(&handle)).await?,
        Call::Release { handle, mode } => {
            let answer = scheduler(&handle).release(mode, false).await?;
            format!(
                "released; not ended yet: {}",
                counted(answer.pending, "task")
            )
        }
        Call::ForceRelease { claim, reason } => {
            client.force_release(claim, reason).await?;
            format!("claim {claim} has ended")
        }
        Call::RunJob(name) => run_job(client, name).await?,
        Call::PauseJob { name, reason } => {
            client.pause_job(PauseJobRequest { name, reason }).await?;
            "the job is paused".to_owned()
        }
        Call::ResumeJob(name) => {
            client.resume_job(ResumeJobRequest { name }).await?;
            "the job goes on".to_owned()
        }
        Call::CancelRun { name, due } => cancel_run(client, name, due).await?,
        Call::StartAgent => start_agent(client).await?,
        Call::StopAgent { reason, mode } => stop_agent(client, reason, mode).await?,
        Call::PauseTarget {
            target,
            reason,
            mode,
        } => pause_target(client, target, reason, mode).await?,
        Call::ResumeTarget { target, reason } => resume_target(client, target, reason).await?,
        Call::DeclareDead {
            target,
            replica,
            reason,
        } => declare_dead(client, target, replica, reason).await?,
    };
    Ok(Done { text, place: None })
}

async fn retry_task(client: &Client, task: TaskName) -> Result<Done> {
    let retry = client.scheduler(&task.handle).retry(task.seq).await?;
    Ok(Done {
        text: format!("task {} is retried as task {}", task.seq, retry.seq),
        place: Some(Place::Task(task.handle, retry.seq)),
    })
}

fn cancelled(seq: i64, state: TaskState) -> String {
    match state {
        TaskState::Done => format!("task {seq} has ended"),
        _ => format!("task {seq} is being stopped"),
    }
}

async fn retry_failed(scheduler: &Scheduler) -> Result<String> {
    let (mut token, mut retried, mut left_out) = (String::new(), 0, 0);
    loop {
        let page = scheduler.retry_failed(None, token).await?;
        retried += page.retried.len() as i64;
        left_out += page.no_target.len() as i64;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let more = match left_out {
        0 => String::new(),
        some => format!(", {} are left out: their target is gone", number(some)),
    };
    Ok(format!("retried: {}{more}", counted(retried, "task")))
}

async fn cancel_waiting(scheduler: &Scheduler) -> Result<String> {
    let states = [TaskState::Queued, TaskState::Blocked, TaskState::Retrying];
    let filter = TaskFilter {
        states: states.map(i32::from).into(),
        ..TaskFilter::default()
    };
    let mut request = CancelTasksRequest {
        filter: Some(filter),
        ..CancelTasksRequest::default()
    };
    let mut waited = 0;
    loop {
        let page = scheduler.cancel_tasks(request.clone()).await?;
        waited += page.waiting;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(format!("cancelled: {}", counted(waited, "waiting task")));
        }
    }
}

async fn run_job(client: &Client, name: String) -> Result<String> {
    let request = RunJobRequest {
        name,
        ..RunJobRequest::default()
    };
    client.run_job(request).await?;
    Ok("a run was asked for".to_owned())
}

async fn cancel_run(client: &Client, name: String, due: Timestamp) -> Result<String> {
    let due = Some(due);
    client.cancel_run(CancelRunRequest { name, due }).await?;
    Ok("the run is cancelled".to_owned())
}

async fn start_agent(client: &Client) -> Result<String> {
    client.start_agent(StartAgentRequest {}).await?;
    Ok("the agent is started".to_owned())
}

async fn stop_agent(client: &Client, reason: String, mode: StopMode) -> Result<String> {
    let mode = mode.into();
    client.stop_agent(StopAgentRequest { mode, reason }).await?;
    Ok("the agent is stopped".to_owned())
}

async fn pause_target(
    client: &Client,
    target: Option<String>,
    reason: String,
    mode: PauseMode,
) -> Result<String> {
    use pause_target_request::Scope;
    let request = PauseTargetRequest {
        scope: Some(target.map_or(Scope::All(()), Scope::Target)),
        mode: mode.into(),
        reason,
    };
    let paused = client.pause_target(request).await?.paused;
    let running = paused.map_or(0, |pause| pause.running);
    Ok(format!(
        "paused; still running there: {}",
        counted(running, "task")
    ))
}

async fn resume_target(client: &Client, target: Option<String>, reason: String) -> Result<String> {
    use resume_target_request::Scope;
    let request = ResumeTargetRequest {
        scope: Some(target.map_or(Scope::All(()), Scope::Target)),
        reason,
    };
    Ok(
        match client.resume_target(request).await?.still_paused.len() {
            0 => "resumed".to_owned(),
            some => format!("resumed; {some} other pauses are still in force"),
        },
    )
}

async fn declare_dead(
    client: &Client,
    target: String,
    replica: String,
    reason: String,
) -> Result<String> {
    let request = DeclareDeadRequest {
        target,
        scope: Some(declare_dead_request::Scope::Replica(replica)),
        reason,
    };
    let sessions = client.declare_dead(request).await?;
    Ok(format!("declared dead: {}", counted(sessions, "session")))
}
