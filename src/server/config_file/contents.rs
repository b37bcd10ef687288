//! The form of the configuration file, and what is said of a file that has another one.

use crate::{
    core::{self, SessionOptions},
    identity::Role,
    toml_file::{Fault, Faults, Length, line},
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};
use toml::Spanned;

/// What a file says.
pub(super) struct Contents {
    /// By name, with the line in which each begins.
    pub(super) targets: BTreeMap<String, (usize, Target)>,
    pub(super) identity: Option<(usize, Identity)>,
    pub(super) access: Vec<(usize, Access)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    targets: BTreeMap<String, Spanned<Target>>,
    identity: Option<Spanned<Identity>>,
    #[serde(default)]
    access: Vec<Spanned<Access>>,
}

/// How callers are known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) token_file: Option<PathBuf>,
    pub(super) jwt: Option<Jwt>,
}

/// What JWTs must be like.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Jwt {
    pub(super) issuer: String,
    pub(super) audience: String,
    pub(super) algorithms: Vec<String>,
    pub(super) keys_file: Option<PathBuf>,
    pub(super) keys_url: Option<String>,
    pub(super) keys_ca_file: Option<PathBuf>,
    pub(super) leeway: Option<Length>,
    #[serde(default)]
    pub(super) required_claims: Vec<String>,
    pub(super) name_claim: Option<String>,
}

/// A role for some identities in some namespaces.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Access {
    pub(super) identities: Vec<String>,
    #[serde(default)]
    pub(super) claims: BTreeMap<String, String>,
    pub(super) namespaces: Vec<String>,
    pub(super) role: Role,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub(super) url: Option<String>,
    pub(super) url_file: Option<PathBuf>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) slots: Option<u32>,
    pub(super) session_idle: Option<Length>,
    pub(super) session_reset: Option<SessionReset>,
    #[serde(default)]
    pub(super) roles: Vec<String>,
    pub(super) namespaces: Option<Vec<String>>,
    #[serde(default)]
    pub(super) defaults: Defaults,
    /// By namespace.
    #[serde(default)]
    pub(super) logins: BTreeMap<String, Account>,
    pub(super) watchdog: Option<Account>,
}

/// A login on the server that the URL of the target names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) password_file: Option<PathBuf>,
}

/// Of sessions.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    read_only: Option<bool>,
    isolation: Option<Isolation>,
    search_path: Vec<String>,
    statement_timeout: Option<Length>,
    role: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionReset {
    Task,
    Scheduler,
}

#[derive(Deserialize)]
enum Isolation {
    #[serde(rename = "read committed")]
    ReadCommitted,
    #[serde(rename = "repeatable read")]
    RepeatableRead,
    #[serde(rename = "serializable")]
    Serializable,
}

/// Where in the file a fault is.
pub(super) struct Place<'a> {
    faults: &'a mut Faults,
    line: usize,
    table: String,
}

/// Reads the form. Nothing of a value is in the fault.
pub(super) fn parse(text: &str) -> Result<Contents, Fault> {
    let file: File = toml::from_str(text).map_err(|error| Fault::of_toml(text, &error))?;
    let targets = file.targets.into_iter();
    Ok(Contents {
        targets: targets
            .map(|(name, target)| (name, with_line(text, target)))
            .collect(),
        identity: file.identity.map(|identity| with_line(text, identity)),
        access: file
            .access
            .into_iter()
            .map(|one| with_line(text, one))
            .collect(),
    })
}

fn with_line<T>(text: &str, found: Spanned<T>) -> (usize, T) {
    (line(text, &found.span()), found.into_inner())
}

impl<'a> Place<'a> {
    pub(super) fn of(faults: &'a mut Faults, line: usize, table: String) -> Self {
        Place {
            faults,
            line,
            table,
        }
    }

    /// Something is wrong with `key` of this table.
    pub(super) fn fault(&mut self, key: &str, what: impl Into<String>) {
        let (table, what) = (&self.table, what.into());
        let what = match key {
            "" => format!("{table}: {what}"),
            key => format!("{table}.{key}: {what}"),
        };
        self.faults.add(Some(self.line), what);
    }
}

impl From<SessionReset> for core::SessionReset {
    fn from(reset: SessionReset) -> Self {
        match reset {
            SessionReset::Task => core::SessionReset::Task,
            SessionReset::Scheduler => core::SessionReset::Scheduler,
        }
    }
}

impl From<Defaults> for SessionOptions {
    fn from(defaults: Defaults) -> Self {
        let level = |isolation| match isolation {
            Isolation::ReadCommitted => core::Isolation::ReadCommitted,
            Isolation::RepeatableRead => core::Isolation::RepeatableRead,
            Isolation::Serializable => core::Isolation::Serializable,
        };
        SessionOptions {
            read_only: defaults.read_only,
            isolation: defaults.isolation.map(level),
            search_path: defaults.search_path,
            statement_timeout: defaults.statement_timeout.map(|limit| limit.0),
            role: defaults.role,
            due: None,
        }
    }
}
