//! `pause-target` and `resume-target`: an operator keeps everything from starting on a target, or
//! on all of them.

use super::{
    connect::Server,
    error::CliError,
    output::{self, BOLD},
    plural,
    table::Table,
    time_text,
};
use clap::Args;
use rallypoint_client::api::{
    PauseMode, PauseTargetRequest, PausedTarget, ResumeTargetRequest, TargetPause, TaskId,
    pause_target_request::Scope as PauseScope, resume_target_request::Scope as ResumeScope,
};
use std::process::ExitCode;

/// A target, or all of them.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Scope {
    /// The target, as `status` names it
    target: Option<String>,
    /// All targets, and work without one
    #[arg(long)]
    all: bool,
}

/// Arguments of `pause-target`.
#[derive(Args, Debug)]
pub(super) struct Pause {
    #[command(flatten)]
    scope: Scope,
    /// Also cancel the statements that run; their tasks run again after the pause
    #[arg(long)]
    cancel_running: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `resume-target`.
#[derive(Args, Debug)]
pub(super) struct Resume {
    #[command(flatten)]
    scope: Scope,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Scope {
    /// As a sentence names it.
    fn name(&self) -> &str {
        self.target.as_deref().unwrap_or("everything")
    }
}

impl Pause {
    /// Pauses it, and prints what still runs.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let name = self.scope.name().to_owned();
        let mode = match self.cancel_running {
            true => PauseMode::CancelRunning,
            false => PauseMode::Drain,
        };
        let target = self.scope.target.map(PauseScope::Target);
        let request = PauseTargetRequest {
            scope: Some(target.unwrap_or(PauseScope::All(()))),
            mode: mode.into(),
            reason: self.reason,
        };
        let answer = server.client().await?.pause_target(request).await;
        let answer =
            answer.map_err(|error| CliError::call(format!("cannot pause {name}"), &error))?;
        output::answer(&answer, |answer| {
            let before = match answer.already_paused {
                true => " (had been paused before)",
                false => "",
            };
            output::line(format!("{name}: paused{before}"));
            let paused = answer.paused.clone().unwrap_or_default();
            still_running(&paused, &answer.running);
        });
        Ok(ExitCode::SUCCESS)
    }
}

impl Resume {
    /// Resumes it, and prints what else keeps it from starting tasks.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let name = self.scope.name().to_owned();
        let target = self.scope.target.map(ResumeScope::Target);
        let request = ResumeTargetRequest {
            scope: Some(target.unwrap_or(ResumeScope::All(()))),
            reason: self.reason,
        };
        let answer = server.client().await?.resume_target(request).await;
        let answer =
            answer.map_err(|error| CliError::call(format!("cannot resume {name}"), &error))?;
        output::answer(&answer, |answer| {
            let before = match answer.already_resumed {
                true => " (was not paused)",
                false => "",
            };
            output::line(format!("{name}: resumed{before}"));
            print(&answer.still_paused);
        });
        Ok(ExitCode::SUCCESS)
    }
}

fn still_running(paused: &PausedTarget, tasks: &[TaskId]) {
    output::line(plural::with_verb(
        paused.running,
        ["task still runs", "tasks still run"],
    ));
    for task in tasks {
        output::line(format!("  {} {}", task.handle, task.seq));
    }
    if paused.in_doubt > 0 {
        output::line(format!(
            "up to {} more may run: executors have not said yet",
            paused.in_doubt
        ));
    }
}

/// The pauses in force, as `status` shows them.
pub(super) fn print(paused: &[PausedTarget]) {
    if paused.is_empty() {
        return;
    }
    output::line("");
    output::styled("paused: nothing starts there", BOLD);
    let mut table = Table::new(&["target", ">since", ">running", "~by", "~reason"]);
    for one in paused {
        let pause = one.pause.clone().unwrap_or_default();
        let perhaps = match one.in_doubt {
            0 => String::new(),
            more => format!(" (+{more}?)"),
        };
        table.row([
            target(&pause).to_owned(),
            time_text::ago(time_text::micros(pause.since.as_ref())),
            format!("{}{perhaps}", one.running),
            pause.paused_by.clone(),
            pause.reason.clone(),
        ]);
    }
    table.print();
}

fn target(pause: &TargetPause) -> &str {
    match pause.target.as_str() {
        "" => "(all)",
        name => name,
    }
}
