//! `check-config`: says what is wrong with a configuration file, without a server.

use super::{error::CliError, output, unreadable};
use crate::server::{ConfigFile, DEFAULT_SESSION_IDLE, Described};
use clap::Args;
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// Arguments of `check-config`.
#[derive(Args, Debug)]
pub(super) struct CheckConfig {
    /// The file, with those it names beside it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl CheckConfig {
    /// Reads it as a server would.
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let file = ConfigFile {
            path: self.file,
            slots: 1,
            session_idle: DEFAULT_SESSION_IDLE,
            others: BTreeSet::new(),
            // Whether a server takes them is for its command line to say.
            namespaces: true,
            certificates: true,
        };
        let Described { targets, .. } = read(&file)?;
        let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
        let path = file.path.display().to_string();
        let text = match names.is_empty() {
            true => format!("{path} is good: it names no targets"),
            false => format!("{path} is good: {}", names.join(", ")),
        };
        output::document(json!({ "file": path, "targets": names }), text);
        Ok(ExitCode::SUCCESS)
    }
}

/// What a file says, or everything that is wrong with it.
pub(super) fn read(file: &ConfigFile) -> Result<Described, CliError> {
    file.read().map_err(|faults| {
        let what = format!("{} cannot be used", file.path.display());
        let error = faults.lines().fold(CliError::new(what), CliError::why);
        unreadable::with_remedy(error, &file.path)
    })
}
