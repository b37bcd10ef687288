//! Following the tasks of `exec` to their end, and what becomes of their scheduler then.
//!
//! The first signal cancels what is left and keeps reading; the second one exits at once.

use super::{
    own_tasks::OwnTasks,
    printer::Printer,
    run::{Ending, Run},
};
use crate::cli::{error::CliError, output, plural, signals::Signals};
use rallypoint_client::api::{DescribeSchedulerResponse, ReleaseMode, end::Reason};
use std::pin::pin;

/// Prints events until every task has ended, also after a halt or on a signal. `interrupted`: there
/// has been one.
pub(super) async fn follow(
    run: &Run,
    printer: &mut Printer,
    signals: &mut Signals,
    mut interrupted: bool,
) -> Result<(), CliError> {
    let console = printer.console();
    let mut printing = pin!(print_all(run, printer));
    loop {
        tokio::select! {
            printed = &mut printing => return printed.map_err(|error| run.left(error)),
            exit = signals.next() => {
                if interrupted {
                    exit.now();
                }
                interrupted = true;
                run.cancel(&console, signals).await?;
            }
        }
    }
}

/// Leaves the tasks to themselves, and says by which handle they are found again.
pub(super) async fn detach(run: &Run) -> Result<(), CliError> {
    if run.ending.get() == Ending::Release {
        let released = run.release(ReleaseMode::Finish, false).await;
        released.map_err(|error| run.left(error))?;
    }
    let described = run.scheduler.describe().await;
    let what = || format!("cannot look at {}", run.scheduler.handle());
    let described = described.map_err(|error| run.left(CliError::call(what(), &error)))?;
    let scheduler = Some(described);
    output::answer(
        &DescribeSchedulerResponse {
            scheduler,
            ..Default::default()
        },
        |answer| {
            answer
                .scheduler
                .iter()
                .for_each(|it| output::line(&it.handle))
        },
    );
    Ok(())
}

async fn print_all(run: &Run, printer: &mut Printer) -> Result<(), CliError> {
    let (scheduler, word) = (&run.scheduler, &run.word);
    let after = run.own.as_ref().map_or(0, OwnTasks::after);
    let end = printer.print_events(scheduler, after, None).await?;
    let halted = end.reason() == Reason::Halted;
    let console = printer.console();
    if run.ending.get() == Ending::Keep {
        if halted {
            printer.say_halted(scheduler, word, end.blocked).await;
        } else if printer.has_failures() {
            console.say(format!(
                "`rallypoint retry {word} --failed` repeats what failed"
            ));
        }
        console.say(format!(
            "the scheduler stays open until `rallypoint release {word}`"
        ));
        return Ok(());
    }
    if halted {
        let cancelled = [
            "blocked task is cancelled (--on-failure halt --keep leaves it waiting)",
            "blocked tasks are cancelled (--on-failure halt --keep leaves them waiting)",
        ];
        let cancelled = plural::with_verb(end.blocked, cancelled);
        console.say(format!("halted by a failure: {cancelled}"));
    }
    run.release(ReleaseMode::Finish, true).await?;
    let seen = printer.seen();
    printer.print_events(scheduler, seen, None).await.map(drop)
}
