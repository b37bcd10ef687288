//! `get HANDLE [SEQ]`: a scheduler or a task in full.

use super::{
    connect::Server, error::CliError, listing, number::whole, output, task_name::TaskName,
};
use clap::Args;
use rallypoint_client::{
    Scheduler,
    api::{DescribeSchedulerResponse, GetTaskResponse},
};
use std::process::ExitCode;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub(super) struct Get {
    /// The scheduler: its handle or its name; HANDLE/SEQ is a task of it
    handle: String,
    /// The number of a task
    #[arg(value_parser = whole::<i64>(1..))]
    seq: Option<i64>,
}

impl Get {
    /// Asks the server and prints all it says.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let (handle, seq) = match (self.seq, self.handle.parse::<TaskName>()) {
            (None, Ok(task)) => (task.handle, Some(task.seq)),
            (seq, _) => (self.handle, seq),
        };
        let scheduler = server.scheduler(&handle).await?;
        match seq {
            Some(seq) => task(&scheduler, seq).await?,
            None => describe(&scheduler).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn task(scheduler: &Scheduler, seq: i64) -> Result<(), CliError> {
    let what = || format!("cannot get task {}/{seq}", scheduler.handle());
    let task = scheduler.task(seq).await;
    let handle = scheduler.handle();
    let failed = |error| CliError::call(what(), &error).naming("HANDLE", handle);
    let task = Some(task.map_err(failed)?);
    output::answer(&GetTaskResponse { task }, |answer| {
        answer.task.iter().for_each(listing::print)
    });
    Ok(())
}

async fn describe(scheduler: &Scheduler) -> Result<(), CliError> {
    let what = || format!("cannot get scheduler {}", scheduler.handle());
    let described = scheduler.describe().await;
    let scheduler = Some(described.map_err(|error| CliError::call(what(), &error))?);
    output::answer(
        &DescribeSchedulerResponse {
            scheduler,
            ..Default::default()
        },
        |answer| answer.scheduler.iter().for_each(listing::print),
    );
    Ok(())
}
