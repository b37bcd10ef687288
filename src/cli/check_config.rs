//! `check-config`: says what is wrong with a configuration file, without a server.

use super::{error::CliError, output, serve::parse_targets, shell, unreadable, variables};
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
    /// A target that the server has beside the file, as serve has it; may be repeated
    #[arg(
        long = "target",
        env = "RALLYPOINT_TARGETS",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "NAME=URL"
    )]
    targets: Vec<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// Whether callers say themselves of which namespace they are.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct CallersNamespaces {
    /// Take the namespace from the metadata `rallypoint-namespace`: only behind a proxy that sets
    /// it
    #[arg(
        long,
        env = "RALLYPOINT_TRUSTED_NAMESPACE_METADATA",
        hide_env_values = true,
        value_parser = variables::flag
    )]
    pub(super) trusted_namespace_metadata: bool,
}

/// Options of `serve` on which it depends whether it takes a file.
#[derive(Args, Debug)]
pub(super) struct ServerOptions {
    #[command(flatten)]
    namespaces: CallersNamespaces,
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
            namespaces: self.namespaces.trusted_namespace_metadata,
            certificates: self.listen_client_ca.is_some(),
        }
    }
}

impl CheckConfig {
    /// Reads it as a server would.
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let beside = parse_targets(&self.targets, 1, DEFAULT_SESSION_IDLE)?;
        let others = beside.iter().map(|target| target.name.clone()).collect();
        let file = self.server.file(&self.file, others);
        let Described { targets, sources } = read(&file)?;
        agree(file.certificates, file.namespaces, sources.as_ref())?;
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

/// Refuses options of a server with which what its file says of callers, if it has one, does not
/// go. `certificates`, `namespaces`: callers may present and say some.
pub(super) fn agree(
    certificates: bool,
    namespaces: bool,
    sources: Option<&Sources>,
) -> Result<(), CliError> {
    if sources.is_none() && certificates {
        let what = "nobody knows the certificates of --listen-client-ca";
        let next = "say in a --config file what their owners may do ([[access]])";
        return Err(CliError::usage(what).next(next));
    }
    if sources.is_some() && namespaces {
        let what = "--trusted-namespace-metadata does not go with [[access]] in the configuration";
        let next = "give the proxy an identity of its own, or take one of them out";
        return Err(CliError::usage(what).next(next));
    }
    Ok(())
}

/// What a file says, or everything that is wrong with it.
pub(super) fn read(file: &ConfigFile) -> Result<Described, CliError> {
    file.read().map_err(|faults| {
        let path = file.path.display().to_string();
        let error = CliError::new(format!("{path} cannot be used"));
        let correct = match faults.are_of_other_files() {
            true => {
                "correct the path or the file, or let the account of the server read it".to_owned()
            }
            false => {
                let path = shell::word(&path);
                format!("correct it: `rallypoint check-config {path}` says whether it is good then")
            }
        };
        unreadable::of_toml(error, &faults, correct)
    })
}
