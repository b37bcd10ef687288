//! Files that cannot be read: which one, why, and what to do about it.

use super::error::CliError;
use crate::toml_file::Faults;
use std::{
    fmt::Display,
    fs,
    io::{self, ErrorKind},
    path::Path,
};

/// The error of a command that cannot read a file.
pub(super) fn error(name: impl Display, error: &io::Error) -> CliError {
    CliError::new(format!("cannot read {name}"))
        .why(error)
        .next(remedy(error))
}

/// What to do about a file that cannot be read.
pub(super) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => {
            "check the name: without a leading / it is looked for in the current folder"
        }
        ErrorKind::PermissionDenied => "let the account that runs this command read it",
        ErrorKind::IsADirectory => "it is a folder: name a file in it",
        ErrorKind::InvalidData => "save it as UTF-8 (`iconv -t utf-8`)",
        _ => "name a regular file that the account of this command may read",
    }
}

/// The error about a file of TOML. `correct`: what to do about one that could be read.
pub(super) fn of_toml(cli_error: CliError, faults: &Faults, correct: String) -> CliError {
    let cli_error = faults.lines().fold(cli_error, CliError::why);
    cli_error.next(match faults.unread() {
        Some(error) => remedy(error).to_owned(),
        None => correct,
    })
}

/// Refuses a file that is not there before anything is called. It is not opened: a pipe can be read
/// once.
pub(super) fn check(option: &str, file: Option<&Path>) -> Result<(), CliError> {
    match file.map(fs::metadata) {
        Some(Err(cause)) => {
            let name = file.unwrap_or(Path::new("")).display();
            Err(error(format!("{name} ({option})"), &cause))
        }
        _ => Ok(()),
    }
}
