//! The form of the configuration file, and what is said of a file that has another one.

use crate::{
    core::{self, SessionOptions},
    identity::Role,
    toml_file::{Faults, Length, Lines, Table},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// A table of `access` as a file has it.
const ACCESS: &str = "{ identities = [\"token:a\"], namespaces = [\"a\"], role = \"reader\" }";

/// What a file says. A value that is missing or has another form is `None`, and a fault already.
#[derive(Default)]
pub(super) struct Contents {
    /// By name, with the line in which each begins.
    pub(super) targets: BTreeMap<String, (Lines, Target)>,
    pub(super) identity: Option<(Lines, Identity)>,
    pub(super) access: Vec<(Lines, Access)>,
}

/// How callers are known.
pub(super) struct Identity {
    /// Nothing is wrong with its form.
    pub(super) is_sound: bool,
    pub(super) token_file: Option<PathBuf>,
    pub(super) jwt: Option<Jwt>,
}

/// What JWTs must be like.
pub(super) struct Jwt {
    pub(super) issuer: Option<String>,
    pub(super) audience: Option<String>,
    pub(super) algorithms: Option<Vec<String>>,
    /// The keys are named, in whatever form.
    pub(super) has_keys: bool,
    pub(super) keys_file: Option<PathBuf>,
    pub(super) keys_url: Option<String>,
    pub(super) keys_ca_file: Option<PathBuf>,
    pub(super) leeway: Option<Length>,
    pub(super) required_claims: Vec<String>,
    pub(super) name_claim: Option<String>,
}

/// A role for some identities in some namespaces.
pub(super) struct Access {
    pub(super) identities: Option<Vec<String>>,
    pub(super) claims: BTreeMap<String, String>,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) role: Option<Role>,
}

pub(super) struct Target {
    /// A URL is named, in whatever form.
    pub(super) has_login: bool,
    pub(super) url: Option<String>,
    pub(super) url_file: Option<PathBuf>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) slots: Option<u32>,
    pub(super) session_idle: Option<Length>,
    pub(super) session_reset: Option<SessionReset>,
    pub(super) roles: Vec<String>,
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) defaults: Defaults,
    /// By namespace.
    pub(super) logins: BTreeMap<String, Account>,
    pub(super) watchdog: Option<Account>,
}

/// A login on the server that the URL of the target names.
pub(super) struct Account {
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
}

/// Of sessions.
#[derive(Default)]
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
    #[serde(rename = "read committed", alias = "read-committed")]
    ReadCommitted,
    #[serde(rename = "repeatable read", alias = "repeatable-read")]
    RepeatableRead,
    #[serde(rename = "serializable")]
    Serializable,
}

/// Where in the file a fault is.
pub(super) struct Place<'a> {
    faults: &'a mut Faults,
    lines: &'a Lines,
    table: String,
}

/// Reads the form, and adds everything that is wrong with it. Nothing of a value is in a fault.
pub(super) fn parse(text: &str, faults: &mut Faults) -> Contents {
    let mut file = Table::of_file(text, faults);
    let mut contents = Contents::default();
    if let Some(mut targets) = file.table("targets") {
        for name in targets.keys() {
            if let Some(target) = targets.table_any(&name) {
                let described = (target.lines(), Target::read(target));
                contents.targets.insert(name, described);
            }
        }
    }
    let identity = file.table("identity");
    contents.identity = identity.map(|table| (table.lines(), Identity::read(table)));
    contents.access = file.tables("access", ACCESS, |table| {
        Some((table.lines(), Access::read(table)))
    });
    file.finish();
    contents
}

impl Identity {
    fn read(mut table: Table<'_, '_>) -> Identity {
        let before = table.count_faults();
        let token_file = table.take("token_file");
        let jwt = table.table("jwt").map(Jwt::read);
        let is_sound = table.count_faults() == before;
        table.finish();
        Identity {
            is_sound,
            token_file,
            jwt,
        }
    }
}

impl Jwt {
    fn read(mut table: Table<'_, '_>) -> Jwt {
        let jwt = Jwt {
            issuer: table.require("issuer", "\"https://issuer.example\""),
            audience: table.require("audience", "\"rallypoint\""),
            algorithms: table.require("algorithms", "[\"ES256\"]"),
            has_keys: table.has("keys_file") || table.has("keys_url"),
            keys_file: table.take("keys_file"),
            keys_url: table.take("keys_url"),
            keys_ca_file: table.take("keys_ca_file"),
            leeway: table.take("leeway"),
            required_claims: table.take("required_claims").unwrap_or_default(),
            name_claim: table.take("name_claim"),
        };
        table.finish();
        jwt
    }
}

impl Access {
    fn read(mut table: Table<'_, '_>) -> Access {
        let access = Access {
            identities: table.require("identities", "[\"token:nightly\"]"),
            claims: table.take("claims").unwrap_or_default(),
            namespaces: table.require("namespaces", "[\"*\"]"),
            role: table.require("role", "\"submitter\""),
        };
        table.finish();
        access
    }
}

impl Target {
    fn read(mut table: Table<'_, '_>) -> Target {
        let defaults = table.table("defaults").map(Defaults::read);
        let mut logins = BTreeMap::new();
        if let Some(mut accounts) = table.table("logins") {
            for namespace in accounts.keys() {
                let account = accounts.table_any(&namespace).map(Account::read);
                logins.extend(account.map(|account| (namespace, account)));
            }
        }
        let watchdog = table.table("watchdog").map(Account::read);
        let target = Target {
            has_login: table.has("url") || table.has("url_file"),
            url: table.take("url"),
            url_file: table.take("url_file"),
            password_file: table.take("password_file"),
            slots: table.take("slots"),
            session_idle: table.take("session_idle"),
            session_reset: table.take("session_reset"),
            roles: table.take("roles").unwrap_or_default(),
            namespaces: table.take("namespaces"),
            defaults: defaults.unwrap_or_default(),
            logins,
            watchdog,
        };
        table.finish();
        target
    }
}

impl Account {
    fn read(mut table: Table<'_, '_>) -> Account {
        let account = Account {
            user: table.require("user", "\"app\""),
            password_file: table.take("password_file"),
        };
        table.finish();
        account
    }
}

impl Defaults {
    fn read(mut table: Table<'_, '_>) -> Defaults {
        let defaults = Defaults {
            read_only: table.take("read_only"),
            isolation: table.take("isolation"),
            search_path: table.take("search_path").unwrap_or_default(),
            statement_timeout: table.take("statement_timeout"),
            role: table.take("role"),
        };
        table.finish();
        defaults
    }
}

impl<'a> Place<'a> {
    pub(super) fn of(faults: &'a mut Faults, lines: &'a Lines, table: String) -> Self {
        Place {
            faults,
            lines,
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
        self.faults.add(Some(self.lines.of(key)), what);
    }

    /// The file that `key` of this table names cannot be read.
    pub(super) fn unread(&mut self, key: &str, file: &Path, error: &io::Error) {
        self.fault(key, format!("{} cannot be read: {error}", file.display()));
        self.faults.names_an_unread_file();
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
