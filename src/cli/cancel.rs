//! `cancel HANDLE/SEQ`: cancels one task.

use super::{Failure, connect::Server, output, words};
use crate::api::{CancelTaskRequest, TaskId, TaskState};
use clap::Args;
use std::process::ExitCode;

/// Arguments of `cancel`.
#[derive(Args, Debug)]
pub struct Cancel {
    /// The task: its scheduler's handle, a slash, its number there
    #[arg(value_parser = parse, value_name = "HANDLE/SEQ")]
    task: TaskId,
}

impl Cancel {
    /// Asks for it and says what became of it.
    pub async fn run(self, server: &Server) -> Result<ExitCode, Failure> {
        let mut client = server.schedulers().await?;
        let what = format!("cannot cancel task {}/{}", self.task.handle, self.task.seq);
        let request = CancelTaskRequest { id: Some(self.task) };
        let answer = client.cancel_task(request).await.map_err(|status| Failure::rpc(what, &status))?.into_inner();
        output::line(match answer.state() {
            TaskState::Done => format!("ended: {}", words::outcome(answer.outcome())),
            _ => "it runs, and is being stopped".to_owned(),
        });
        Ok(ExitCode::SUCCESS)
    }
}

fn parse(text: &str) -> Result<TaskId, String> {
    let (handle, seq) = text.rsplit_once('/').ok_or("write it as HANDLE/SEQ")?;
    let seq = seq.parse().map_err(|_| format!("`{seq}` is no task number"))?;
    Ok(TaskId { handle: handle.to_owned(), seq })
}
