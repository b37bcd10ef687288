//! Following the tasks of `exec` to their end, and what becomes of their scheduler then.
//!
//! The first signal cancels what is left and keeps reading; the second one exits at once.

use super::printer::Printer;
use crate::cli::{error::CliError, output, progress::Console, signals::Signals};
use rallypoint_client::{
    Scheduler,
    api::{DescribeSchedulerResponse, ReleaseMode, end::Reason},
};
use std::pin::pin;

/// What becomes of the scheduler when its tasks have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Release,
    Keep,
}

/// Prints events until every task has ended, also after a halt or on a signal. `interrupted`: there
/// has been one.
pub(super) async fn follow(
    scheduler: &Scheduler,
    printer: &mut Printer,
    signals: &mut Signals,
    mut interrupted: bool,
    ending: Ending,
) -> Result<(), CliError> {
    let console = printer.console();
    let mut printing = pin!(print_all(scheduler, printer, ending));
    loop {
        tokio::select! {
            printed = &mut printing => return printed,
            exit = signals.next() => {
                if interrupted {
                    exit.now();
                }
                interrupted = true;
                cancel(scheduler, &console, signals).await?;
            }
        }
    }
}

/// Cancels what is left. A signal meanwhile exits at once: the server may not answer.
pub(super) async fn cancel(
    scheduler: &Scheduler,
    console: &Console,
    signals: &mut Signals,
) -> Result<(), CliError> {
    console.say("cancelling (a signal exits at once) …");
    tokio::select! {
        released = release(scheduler, ReleaseMode::Cancel, false) => released,
        exit = signals.next() => exit.now(),
    }
}

/// Leaves the tasks to themselves, and says by which handle they are found again.
pub(super) async fn detach(scheduler: &Scheduler, ending: Ending) -> Result<(), CliError> {
    if ending == Ending::Release {
        release(scheduler, ReleaseMode::Finish, false).await?;
    }
    let described = scheduler.describe().await;
    let described = described.map_err(|error| {
        CliError::call(format!("cannot look at {}", scheduler.handle()), &error)
    })?;
    let scheduler = Some(described);
    output::answer(&DescribeSchedulerResponse { scheduler }, |answer| {
        answer
            .scheduler
            .iter()
            .for_each(|it| output::line(&it.handle))
    });
    Ok(())
}

async fn print_all(
    scheduler: &Scheduler,
    printer: &mut Printer,
    ending: Ending,
) -> Result<(), CliError> {
    let end = printer.print_events(scheduler, 0, None).await?;
    let halted = end.reason() == Reason::Halted;
    let console = printer.console();
    if ending == Ending::Keep {
        if halted {
            printer.say_halted(scheduler.handle(), end.blocked);
        }
        console.say(format!(
            "the scheduler stays open until `rallypoint release {}`",
            scheduler.handle()
        ));
        return Ok(());
    }
    if halted {
        console.say(format!(
            "halted by a failure: {} blocked tasks are cancelled (--keep leaves them waiting)",
            end.blocked
        ));
    }
    release(scheduler, ReleaseMode::Finish, true).await?;
    let seen = printer.seen();
    printer.print_events(scheduler, seen, None).await.map(drop)
}

async fn release(scheduler: &Scheduler, mode: ReleaseMode, wait: bool) -> Result<(), CliError> {
    let scheduler = match wait {
        true => scheduler.clone().with_time_limit(None),
        false => scheduler.clone(),
    };
    let released = scheduler.release(mode, wait).await;
    released
        .map(drop)
        .map_err(|error| CliError::call(format!("cannot release {}", scheduler.handle()), &error))
}
