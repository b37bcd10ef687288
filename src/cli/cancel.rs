//! `cancel HANDLE SEQ`: cancels one task.

use super::{connect::Server, enum_text, error::CliError, output, task_name::TaskWords};
use clap::Args;
use rallypoint_client::api::TaskState;
use std::process::ExitCode;

/// Arguments of `cancel`.
#[derive(Args, Debug)]
pub(super) struct Cancel {
    #[command(flatten)]
    task: TaskWords,
}

impl Cancel {
    /// Cancels the task and prints the result.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let task = self.task.task()?;
        let what = format!("cannot cancel task {task}");
        let scheduler = server.client().await?.scheduler(task.handle);
        let answer = scheduler.cancel(task.seq).await;
        let answer = answer.map_err(|error| CliError::call(what, &error))?;
        output::answer(&answer, |answer| {
            output::line(match answer.state() {
                TaskState::Done => format!("ended: {}", enum_text::outcome(answer.outcome())),
                _ => "running, and being stopped".to_owned(),
            })
        });
        Ok(ExitCode::SUCCESS)
    }
}
