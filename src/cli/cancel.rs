//! `cancel HANDLE/SEQ`: cancels one task.

use super::{connect::Server, enum_text, error::CliError, output, task_name::TaskName};
use clap::Args;
use rallypoint_client::api::TaskState;
use std::process::ExitCode;

/// Arguments of `cancel`.
#[derive(Args, Debug)]
pub(super) struct Cancel {
    /// The task: handle of its scheduler, a slash, its number
    #[arg(value_name = "HANDLE/SEQ")]
    task: TaskName,
}

impl Cancel {
    /// Cancels the task and prints the result.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let TaskName { handle, seq } = self.task;
        let what = format!("cannot cancel task {handle}/{seq}");
        let answer = server.client().await?.scheduler(handle).cancel(seq).await;
        let answer = answer.map_err(|error| CliError::call(what, &error))?;
        output::line(match answer.state() {
            TaskState::Done => format!("ended: {}", enum_text::outcome(answer.outcome())),
            _ => "running, and being stopped".to_owned(),
        });
        Ok(ExitCode::SUCCESS)
    }
}
