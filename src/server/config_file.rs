//! `rallypoint.toml`: the targets of a server, their secrets and their options (here), and who may
//! do what (`access`).
//!
//! Invariants: a file is taken whole or not at all, and everything that is wrong with it is said at
//! once, with line, key and remedy. What is said of it never holds a value, since a value may be a
//! secret in the wrong place. Passwords stand in files of their own, or in URLs.

mod access;
mod contents;

use crate::{
    core::{Namespace, SessionOptions, SessionReset, model::limits},
    database_url::{form_instead, parsed},
    identity::Sources,
    server::{Login, TARGET_SLOTS, Target},
    toml_file::{Faults, Lines, read, written_key},
};
use contents::{Contents, Place};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A configuration file, and what counts where it says nothing.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// Slots of a target.
    pub slots: u32,
    /// How long a session of a target may be idle.
    pub session_idle: Duration,
    /// Targets that the command line describes.
    pub others: BTreeSet<Arc<str>>,
    /// Callers may say of which namespace they are, though the file does not say who may; else all
    /// are of the default one.
    pub namespaces: bool,
    /// Callers may present certificates.
    pub certificates: bool,
}

/// What a file says.
pub struct Described {
    /// The targets.
    pub targets: Vec<Target>,
    /// How callers are known and what they may do; `None`: it says nothing of callers.
    pub sources: Option<Sources>,
}

impl ConfigFile {
    /// What it says now.
    pub fn read(&self) -> Result<Described, Faults> {
        let text = read(&self.path).map_err(|error| Faults::of_unread(&self.path, error))?;
        let mut faults = Faults::of(&self.path);
        let Contents {
            targets,
            identity,
            access,
        } = contents::parse(&text, &mut faults);
        let has_namespaces = self.namespaces || !access.is_empty();
        let origin = access::Origin {
            folder: self.folder(),
            certificates: self.certificates,
        };
        let sources = access::sources(identity, access, &origin, &mut faults);
        let targets = self.targets(targets, has_namespaces, &mut faults);
        faults.into_result(Described { targets, sources })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Which of the targets of a server it describes.
    pub(super) fn names_among(&self, targets: &[Target]) -> BTreeSet<Arc<str>> {
        let names = targets.iter().map(|target| &target.name);
        names
            .filter(|name| !self.others.contains(*name))
            .cloned()
            .collect()
    }

    fn targets(
        &self,
        described: BTreeMap<String, (Lines, contents::Target)>,
        has_namespaces: bool,
        faults: &mut Faults,
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for (name, (lines, described)) in described {
            let mut at = Place::of(faults, &lines, format!("targets.{}", written_key(&name)));
            if name.is_empty() {
                at.fault("", "a target needs a name");
            }
            if self.others.contains(&*name) {
                let what = "`--target` (or RALLYPOINT_TARGETS) also describes it: keep one of them";
                at.fault("", what);
            }
            for namespace in described.logins.keys() {
                check_namespace(namespace, has_namespaces, &mut at);
            }
            if !described.has_login {
                let form = "give `url = \"postgres://user@host/database\"`, or a `url_file`";
                at.fault("url", format!("missing: {form}"));
            }
            targets.extend(self.target(&name, described, &mut at));
        }
        targets
    }

    fn target(
        &self,
        name: &str,
        described: contents::Target,
        at: &mut Place<'_>,
    ) -> Option<Target> {
        let contents::Target {
            has_login: _,
            url,
            url_file,
            password_file,
            slots,
            session_idle,
            session_reset,
            roles,
            namespaces,
            defaults,
            logins,
            watchdog,
        } = described;
        let login = self.login(url, url_file, password_file, at);
        if watchdog.is_none() && !logins.is_empty() {
            at.fault(
                "logins",
                "no login can end the sessions of another: add a `watchdog`, \
                 a member of pg_signal_backend and pg_read_all_stats",
            );
        }
        let logins: Vec<_> = logins
            .into_iter()
            .map(|(namespace, one)| {
                let account = self.account(&login_key(&namespace), one, at);
                (namespace.into(), account)
            })
            .collect();
        let watchdog = watchdog.map(|one| self.account("watchdog", one, at));
        let slots = slots.unwrap_or(self.slots);
        let idle = session_idle.map_or(self.session_idle, |idle| idle.0);
        check_numbers(slots, idle, at);
        let roles: BTreeSet<String> = roles.into_iter().collect();
        check_roles(&roles, at);
        let namespaces = namespaces.map(|named| namespaces_of(&named, at));
        let defaults = defaults.into();
        check_defaults(&defaults, &roles, at);
        let login = login?;
        let as_whom = |(user, password)| login.clone().as_user(user, password);
        Some(Target {
            session_idle: idle,
            session_reset: session_reset.map_or(SessionReset::Scheduler, Into::into),
            roles,
            namespaces,
            defaults,
            logins: logins
                .into_iter()
                .map(|(namespace, account)| (namespace, as_whom(account)))
                .collect(),
            watchdog: watchdog.map(as_whom),
            ..Target::new(name, login.clone(), slots)
        })
    }

    /// User and password of somebody else on the same server.
    fn account(
        &self,
        key: &str,
        account: contents::Account,
        at: &mut Place<'_>,
    ) -> (String, Option<String>) {
        let contents::Account {
            user,
            password_file,
        } = account;
        let is_name =
            |user: &String| limits::NAME_BYTES.contains(&user.len()) && !user.contains('\0');
        if !user.as_ref().is_none_or(is_name) {
            at.fault(&format!("{key}.user"), "a user is a name of 1 to 63 bytes");
        }
        let key = format!("{key}.password_file");
        let password = password_file.and_then(|file| self.secret(&key, &file, at));
        (user.unwrap_or_default(), password)
    }

    /// As whom tasks log in.
    fn login(
        &self,
        url: Option<String>,
        url_file: Option<PathBuf>,
        password_file: Option<PathBuf>,
        at: &mut Place<'_>,
    ) -> Option<Login> {
        let (key, url) = match (url, url_file) {
            (Some(url), None) => ("url", url),
            (None, Some(file)) => ("url_file", self.secret("url_file", &file, at)?),
            (Some(_), Some(_)) => {
                at.fault(
                    "url_file",
                    "the URL is also given by `url`: keep one of them",
                );
                return None;
            }
            (None, None) => return None,
        };
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            at.fault(
                key,
                "not a URL of Postgres: write postgres://user@host/database",
            );
            return None;
        }
        let login = match url.parse::<Login>() {
            Ok(login) => login,
            Err(error) => {
                let form = parsed(&url).err().map(form_instead);
                let form = form.map_or_else(String::new, |form| format!(": {form}"));
                at.fault(key, format!("{error:#}{form}"));
                return None;
            }
        };
        if let Some(what) = login.unreadable_file() {
            at.fault(key, what);
        }
        let Some(file) = password_file else {
            return Some(login);
        };
        if login.has_password() {
            let what = format!("the URL in `{key}` also holds a password: keep one of them");
            at.fault("password_file", what);
            return None;
        }
        Some(login.with_password(self.secret("password_file", &file, at)?))
    }

    /// What stands in a file of its own, without the end of its line.
    fn secret(&self, key: &str, file: &Path, at: &mut Place<'_>) -> Option<String> {
        let path = self.folder().join(file);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) => {
                at.unread(key, &path, &error);
                return None;
            }
        };
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() || secret.contains(['\0', '\n']) {
            at.fault(
                key,
                format!("{} must hold one line of text", path.display()),
            );
            return None;
        }
        Some(secret.to_owned())
    }
}

/// A login that no task could ever use would leave those it is meant for to the target's own.
fn check_namespace(name: &str, has_namespaces: bool, at: &mut Place<'_>) {
    let namespace = Namespace::named(name);
    let what = match &namespace {
        None => format!("no namespace is called that: it is {}", Namespace::FORM),
        Some(one) if !has_namespaces && *one != Namespace::default_namespace() => {
            "no task is ever of this namespace: say in [[access]] who is of it, or start the server \
             with --trusted-namespace-metadata, behind a proxy that sets it, or take the login out"
                .into()
        }
        Some(_) => return,
    };
    at.fault(&login_key(name), what);
}

/// The key of the login of a namespace.
fn login_key(namespace: &str) -> String {
    format!("logins.{}", written_key(namespace))
}

/// Those that may use a target.
fn namespaces_of(named: &[String], at: &mut Place<'_>) -> BTreeSet<Namespace> {
    if named.is_empty() {
        at.fault(
            "namespaces",
            "name some, or leave it out: then all may use it",
        );
    }
    let known: Option<_> = named.iter().map(|name| Namespace::named(name)).collect();
    known.unwrap_or_else(|| {
        at.fault("namespaces", format!("each is {}", Namespace::FORM));
        BTreeSet::new()
    })
}

fn check_numbers(slots: u32, idle: Duration, at: &mut Place<'_>) {
    if !TARGET_SLOTS.contains(&slots) {
        let (least, most) = (TARGET_SLOTS.start(), TARGET_SLOTS.end());
        at.fault("slots", format!("must be {least} to {most}"));
    }
    if idle < Duration::from_secs(1) || idle > Duration::from_secs(86_400) {
        at.fault("session_idle", "must be 1s to 1 day, like \"5m\"");
    }
}

fn check_roles(roles: &BTreeSet<String>, at: &mut Place<'_>) {
    for role in roles {
        if !limits::NAME_BYTES.contains(&role.len()) || role.contains('\0') || role == "none" {
            at.fault("roles", "a role is a name of 1 to 63 bytes, and not `none`");
        }
    }
}

fn check_defaults(defaults: &SessionOptions, roles: &BTreeSet<String>, at: &mut Place<'_>) {
    if defaults
        .role
        .as_ref()
        .is_some_and(|role| !roles.contains(role))
    {
        at.fault(
            "defaults.role",
            "not among the `roles` of the target: add it there",
        );
    }
    let limit = defaults.statement_timeout;
    if limit.is_some_and(|limit| !limits::STATEMENT_TIMEOUT.contains(&limit)) {
        at.fault(
            "defaults.statement_timeout",
            "must be 1ms to 24 days, like \"30s\"",
        );
    }
    if limit.is_some_and(|limit| limit.subsec_nanos() % 1_000_000 != 0) {
        let what = "Postgres counts whole milliseconds";
        at.fault("defaults.statement_timeout", what);
    }
    let schemas = &defaults.search_path;
    let are_names = schemas.iter().all(|name| SessionOptions::is_schema(name));
    if schemas.len() > limits::SCHEMAS || !are_names {
        let (most, form) = (limits::SCHEMAS, SessionOptions::SCHEMA_FORM);
        let what = format!("at most {most} schemas, each {form}");
        at.fault("defaults.search_path", what);
    }
}

#[cfg(test)]
mod tests;
