//! Failed calls, as the model takes them.

use super::model::Fault;
use crate::cli::error::CliError;
use rallypoint_client::Error;
use tonic::Code;

/// `what` could not be done.
pub(super) fn of(what: &str, error: &Error) -> Fault {
    Fault {
        text: CliError::call(what, error).in_words(),
        is_away: is_away(error),
    }
}

/// The server cannot be reached, does not answer in time, or cannot serve now.
pub(super) fn is_away(error: &Error) -> bool {
    let is_late = matches!(error.code, Code::Unavailable | Code::DeadlineExceeded);
    error.transport || error.is_unknown() || is_late
}
