//! The error of a run that could not submit its tasks, and what becomes of its scheduler.

use super::{halt, run::Run};
use crate::cli::{error::CliError, progress::Console, signals::Signals};
use rallypoint_client::Error;

/// The error of a run without a scheduler.
pub(super) fn not_opened(error: &Error) -> CliError {
    let failed = CliError::call("cannot open a scheduler", error);
    match error.is_unknown() {
        true => failed.why("if it was opened all the same, it is empty, and ends by itself"),
        false => failed,
    }
}

/// The error of a run that could not submit its tasks, whose rest is cancelled.
pub(super) async fn not_submitted(
    error: CliError,
    run: &Run,
    console: &Console,
    signals: &mut Signals,
) -> CliError {
    let mut error = error.naming("HANDLE", &run.word);
    if error.is("ORDER_CLOSED") {
        error = with_halt(error, run).await;
    }
    let cancelled = match error.has_effect() {
        true => run.cancel(console, signals).await,
        false => run.withdraw(signals).await,
    };
    let (handle, word) = (run.scheduler.handle(), &run.word);
    match cancelled {
        Ok(()) if !error.has_effect() => error,
        Err(_) if !error.has_effect() => error
            .why("its scheduler has no task, and could not be released")
            .leaves(handle, format!("`rallypoint release {word}` releases it")),
        // It is cancelled by its numbers, which only an answer tells.
        Ok(()) if error.is_unknown() && run.own.is_some() => error
            .why("the last call may have submitted tasks all the same, which go on")
            .leaves(handle, run.cancel_by_hand()),
        Ok(()) => error
            .why("what has been submitted is being cancelled")
            .leaves(
                handle,
                format!("`rallypoint wait {word}` tells how it ends"),
            ),
        Err(_) => error
            .why("what has been submitted could not be cancelled")
            .leaves(handle, run.cancel_by_hand()),
    }
}

/// The error with the failures that halt the scheduler, if some do: then waiting is of no use.
async fn with_halt(error: CliError, run: &Run) -> CliError {
    let Some(failures) = halt::failures(&run.scheduler, |_| false).await else {
        return error;
    };
    let word = &run.word;
    let error = failures.into_iter().fold(error, CliError::why);
    error.next(format!(
        "`rallypoint retry {word} --failed` repeats what failed, `rallypoint resume {word} \
         --ignore-failures` goes on without it, `rallypoint release {word}` frees the name for \
         another run"
    ))
}
