//! `check-config`: says what is wrong with a configuration file, without a server.

use super::{error::CliError, output, unreadable};
use crate::{
    identity::Sources,
    server::{ConfigFile, DEFAULT_SESSION_IDLE, Described},
};
use clap::Args;
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// Arguments of `check-config`.
#[derive(Args, Debug)]
pub(super) struct CheckConfig {
    /// The file, with those it names beside it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    server: ServerOptions,
}

/// Options of `serve` on which it depends whether it takes a file.
#[derive(Args, Debug)]
pub(super) struct ServerOptions {
    /// As `serve` has it: the file is for a server behind a proxy that sets the namespace
    #[arg(
        long,
        env = "RALLYPOINT_TRUSTED_NAMESPACE_METADATA",
        hide_env_values = true
    )]
    trusted_namespace_metadata: bool,
    /// As `serve` has it: the file is for a server whose callers may present certificates
    #[arg(
        long,
        env = "RALLYPOINT_LISTEN_CLIENT_CA",
        hide_env_values = true,
        value_name = "FILE"
    )]
    listen_client_ca: Option<PathBuf>,
}

impl ServerOptions {
    /// The file as a server with these options takes it, with those targets beside it.
    pub(super) fn file(&self, path: &Path, others: BTreeSet<Arc<str>>) -> ConfigFile {
        ConfigFile {
            path: path.to_owned(),
            slots: 1,
            session_idle: DEFAULT_SESSION_IDLE,
            others,
            namespaces: self.trusted_namespace_metadata,
            certificates: self.listen_client_ca.is_some(),
        }
    }
}

impl CheckConfig {
    /// Reads it as a server would.
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let file = self.server.file(&self.file, BTreeSet::new());
        let Described { targets, sources } = read(&file)?;
        agree(&file, sources.as_ref())?;
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

/// Refuses options of a server with which what a file says of callers does not go.
pub(super) fn agree(file: &ConfigFile, sources: Option<&Sources>) -> Result<(), CliError> {
    if sources.is_none() && file.certificates {
        return Err(unknown_certificates());
    }
    if sources.is_some() && file.namespaces {
        let what = "--trusted-namespace-metadata does not go with [[access]] in the configuration";
        let next = "give the proxy an identity of its own, or take one of them out";
        return Err(CliError::usage(what).next(next));
    }
    Ok(())
}

/// Callers may present certificates, and no [[access]] says whose they are.
pub(super) fn unknown_certificates() -> CliError {
    CliError::usage("nobody knows the certificates of --listen-client-ca")
        .next("say in a --config file what their owners may do ([[access]])")
}

/// What a file says, or everything that is wrong with it.
pub(super) fn read(file: &ConfigFile) -> Result<Described, CliError> {
    file.read().map_err(|faults| {
        let what = format!("{} cannot be used", file.path.display());
        let error = faults.lines().fold(CliError::new(what), CliError::why);
        let error = unreadable::with_remedy(error, &file.path);
        match error.next_step() {
            None if faults.to_string().contains(" cannot be read") => {
                error.next("correct that path, or let the account of the server read it")
            }
            _ => error,
        }
    })
}
