//! `release HANDLE`: releases a scheduler.

use super::{confirm::Confirm, connect::Server, error::CliError, output, plural};
use clap::Args;
use rallypoint_client::{Scheduler, api::ReleaseMode};
use std::process::ExitCode;

/// Arguments of `release`.
#[derive(Args, Debug)]
pub(super) struct Release {
    /// The scheduler: its handle or its name
    handle: String,
    /// Cancel unfinished tasks instead of letting them finish
    #[arg(long)]
    cancel: bool,
    /// Return only once every task has ended
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    confirm: Confirm,
}

impl Release {
    /// Releases it and prints the number of unfinished tasks.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let mode = match self.cancel {
            true => ReleaseMode::Cancel,
            false => ReleaseMode::Finish,
        };
        let what = format!("cannot release {}", self.handle);
        let scheduler = server.scheduler(&self.handle).await?;
        let blocked = match self.cancel {
            true => 0,
            false => blocked_by_failures(&scheduler).await,
        };
        if self.cancel
            && self.confirm.is_needed()
            && let Some(question) = unfinished(&scheduler).await?
        {
            self.confirm.ask(&question).await?;
        }
        let scheduler = match self.wait {
            true => scheduler.with_time_limit(None),
            false => scheduler,
        };
        let answer = scheduler.release(mode, self.wait).await;
        let answer = answer.map_err(|error| CliError::call(what, &error))?;
        output::answer(&answer, |answer| {
            let before = match answer.already_released {
                true => " (had been released before)",
                false => "",
            };
            let being = if self.cancel {
                " (being cancelled)"
            } else {
                ""
            };
            let being = if answer.pending > 0 { being } else { "" };
            output::line(format!(
                "released{before}, unfinished tasks: {}{being}",
                answer.pending
            ));
            if blocked > 0 && !answer.already_released {
                let cancelled = plural::with_verb(
                    blocked,
                    [
                        "of them, which waited for a retry, is cancelled",
                        "of them, which waited for retries, are cancelled",
                    ],
                );
                output::line(format!("it was halted by failures: {cancelled}"));
            }
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// How many tasks a halt blocks, which a release cancels. It is said besides: a call that fails
/// says nothing here.
async fn blocked_by_failures(scheduler: &Scheduler) -> i64 {
    let described = scheduler.describe().await.ok();
    let halted = described.filter(|it| it.halt.is_some());
    halted.map_or(0, |it| it.blocked)
}

/// What a cancellation is about to end, as a question; `None`: there is nothing.
async fn unfinished(scheduler: &Scheduler) -> Result<Option<String>, CliError> {
    let described = scheduler.describe().await;
    let it = described.map_err(|error| {
        CliError::call(format!("cannot look at {}", scheduler.handle()), &error)
    })?;
    let waiting = it.blocked + it.queued + it.retrying;
    let question = format!(
        "This cancels {} and stops {} of {}. Go on?",
        plural::count(waiting, "waiting task"),
        plural::count(it.running, "running task"),
        scheduler.handle()
    );
    Ok((waiting + it.running > 0).then_some(question))
}
