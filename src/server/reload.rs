//! Reads the configuration file again when an operator asks for it with SIGHUP.
//!
//! Invariants: a file that makes no sense changes nothing; one whose targets need a restart, or are
//! not taken by the database, changes who may do what and nothing else: of a target it takes rights
//! away and gives none. The log says why. Slots are in the register before anybody hears of them,
//! since a new owner takes what it finds there for all that may be running.

use super::{ConfigFile, Described, Target, config};
use crate::{
    core::{Namespace, Work},
    executor::Executor,
    identity::Authenticator,
    journal::Sessions,
    rpc,
    toml_file::written_key,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a changed file changes.
pub(super) struct Reload {
    pub(super) file: ConfigFile,
    /// The targets as they are.
    pub(super) targets: Vec<Target>,
    /// The most slots that each of them has had: what took one may still run.
    pub(super) noted: Vec<(Work, u32)>,
    pub(super) executor: Executor,
    pub(super) sessions: Sessions,
    pub(super) rpc_targets: rpc::Targets,
    pub(super) authenticator: Option<Authenticator>,
    /// Those of them that the file describes.
    pub(super) from_file: BTreeSet<Arc<str>>,
    pub(super) hangups: Signal,
}

/// The signals, if there is a file to read again; without one they are left as they are.
pub(super) fn hangups(file: Option<&ConfigFile>) -> io::Result<Option<Signal>> {
    file.map(|_| signal(SignalKind::hangup())).transpose()
}

impl Reload {
    /// Runs as long as the server does.
    pub(super) async fn at_each_hangup(mut self) {
        while self.hangups.recv().await.is_some() {
            let path = self.file.path.display().to_string();
            let had = self.rights();
            match self.reload().await {
                Ok(()) => tracing::info!(path, "the configuration has been read again"),
                Err(why) => {
                    for why in why.lines() {
                        tracing::error!("{why}");
                    }
                    match self.rights() == had {
                        true => {
                            tracing::error!(path, "nothing of the configuration has been changed");
                        }
                        false => tracing::error!(
                            path,
                            "nothing but who may do what has been changed of the configuration"
                        ),
                    }
                }
            }
        }
    }

    /// How often who may do what on the server has been changed, and what is allowed on targets.
    fn rights(&self) -> (Option<u64>, Vec<rpc::Allowed>) {
        let changes = self.authenticator.as_ref().map(Authenticator::changes);
        let allowed = config::allowed(&self.targets).map(|(_, allowed)| allowed);
        (changes, allowed.collect())
    }

    async fn reload(&mut self) -> Result<(), String> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || file.read()).await;
        let read = read.map_err(|error| error.to_string())?;
        let read = read.map_err(|faults| faults.to_string())?;
        let Described { targets, sources } = read;
        if sources.is_some() != self.authenticator.is_some() {
            let what =
                "whether callers are known ([identity], [[access]]) changes at a restart only";
            return Err(what.to_owned());
        }
        // Whoever lost a role, a token or a target has lost it, whatever is wrong with the targets.
        if let Some((authenticator, sources)) = self.authenticator.as_ref().zip(sources) {
            authenticator.replace(sources);
            tracing::info!("callers and their roles are as the configuration says");
        }
        if let Some(narrowed) = narrowed(&self.targets, &targets, &self.from_file) {
            self.executor.reconfigure(&narrowed);
            self.rpc_targets.replace(config::allowed(&narrowed));
            self.targets = narrowed;
            tracing::info!("what the configuration took from targets is not allowed any more");
        }
        let targets = merged(&self.targets, targets, &self.from_file)?;
        let most = self.noted.iter().zip(&targets);
        let most: Vec<_> = most
            .map(|((work, slots), new)| (work.clone(), new.slots.max(*slots)))
            .collect();
        let executor = &self.executor;
        let reconfigure = || executor.reconfigure(&targets);
        let noted = self.sessions.change_capacity(&most, reconfigure).await;
        noted.map_err(|error| format!("the coordination database did not take it: {error}"))?;
        self.rpc_targets.replace(config::allowed(&targets));
        (self.targets, self.noted) = (targets, most);
        Ok(())
    }
}

/// The targets as they are, without the namespaces and roles that the file does not name any more
/// for those that came `from_file`; `None`: it names all of them.
fn narrowed(
    present: &[Target],
    read: &[Target],
    from_file: &BTreeSet<Arc<str>>,
) -> Option<Vec<Target>> {
    let mut has_changed = false;
    let narrow = |old: &Target| {
        let mut target = old.clone();
        let mut described = read.iter().filter(|new| from_file.contains(&new.name));
        if let Some(new) = described.find(|new| new.name == old.name) {
            target.namespaces = in_both(old.namespaces.as_ref(), new.namespaces.as_ref());
            // Tasks that name no role begin with the default, which stays until another one counts.
            let default = old.defaults.role.as_ref();
            let stays = |role: &String| new.roles.contains(role) || Some(role) == default;
            target.roles.retain(stays);
        }
        has_changed |= (&target.namespaces, &target.roles) != (&old.namespaces, &old.roles);
        target
    };
    let narrowed: Vec<Target> = present.iter().map(narrow).collect();
    has_changed.then_some(narrowed)
}

/// The namespaces in both lists; `None`: all.
fn in_both(
    one: Option<&BTreeSet<Namespace>>,
    other: Option<&BTreeSet<Namespace>>,
) -> Option<BTreeSet<Namespace>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one & other),
        (one, other) => one.or(other).cloned(),
    }
}

/// The targets as they are from now on, in the order in which they were; or what needs a restart.
fn merged(
    present: &[Target],
    read: Vec<Target>,
    from_file: &BTreeSet<Arc<str>>,
) -> Result<Vec<Target>, String> {
    let mut read: BTreeMap<Arc<str>, Target> = read
        .into_iter()
        .map(|target| (Arc::clone(&target.name), target))
        .collect();
    let mut wrong = Vec::new();
    let mut targets = Vec::new();
    for old in present {
        let new = match read.remove(&old.name) {
            None if !from_file.contains(&old.name) => old.clone(),
            None => {
                wrong.push(format!("targets.{} is gone", written_key(&old.name)));
                continue;
            }
            Some(new) if !new.login.is_at(&old.login) => {
                wrong.push(format!(
                    "targets.{} is another database",
                    written_key(&old.name)
                ));
                continue;
            }
            Some(new) => new,
        };
        targets.push(new);
    }
    let new = read.keys().map(|name| written_key(name));
    wrong.extend(new.map(|key| format!("targets.{key} is new")));
    if wrong.is_empty() {
        return Ok(targets);
    }
    let wrong = wrong.into_iter();
    let lines = wrong.map(|wrong| format!("{wrong}: restart the server for that"));
    Err(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::SessionOptions;

    fn target(name: &str, url: &str) -> Target {
        Target::new(name, url.parse().expect("a login"), 2)
    }

    #[test]
    fn what_needs_a_restart_changes_nothing() {
        let present = [
            target("app", "postgres://u:old@h/d"),
            target("cli", "postgres://u@h/e"),
        ];
        let from_file = BTreeSet::from(["app".into()]);
        let merged = |read| merged(&present, read, &from_file);
        let new = target("app", "postgres://u:new@h/d");
        let targets = merged(vec![new.clone()]).expect("a new password");
        assert_eq!(targets[0].login, new.login);
        assert_eq!(targets[1].login, present[1].login);
        for (read, why) in [
            (vec![], "targets.app is gone"),
            (
                vec![target("app", "postgres://u@i/d")],
                "targets.app is another database",
            ),
            (
                vec![new, target("more", "postgres://u@h/d")],
                "targets.more is new",
            ),
        ] {
            let said = merged(read).expect_err(why);
            assert!(said.contains(why) && said.contains("restart"), "{said}");
        }
    }

    #[test]
    fn rights_are_taken_away_at_once_and_none_is_given() {
        let namespaces = |names: &[&str]| {
            let names = names.iter().map(|name| Namespace((*name).into()));
            Some(names.collect::<BTreeSet<_>>())
        };
        let roles = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string);
            names.collect::<BTreeSet<String>>()
        };
        let app = Target {
            namespaces: namespaces(&["a", "b"]),
            roles: roles(&["reader", "writer", "usual"]),
            defaults: SessionOptions {
                role: Some("usual".into()),
                ..Default::default()
            },
            ..target("app", "postgres://u@h/d")
        };
        let open = target("open", "postgres://u@h/e");
        let private = target("private", "postgres://u@h/p");
        let present = [app.clone(), open.clone(), private.clone()];
        let from_file = BTreeSet::from(["app".into(), "open".into()]);
        let narrowed = |read: &[Target]| super::narrowed(&present, read, &from_file);
        let read = [
            target("more", "postgres://u@h/d"),
            Target {
                slots: 9,
                namespaces: namespaces(&["b", "c"]),
                roles: roles(&["writer", "owner"]),
                ..target("app", "postgres://u@elsewhere/d")
            },
            Target {
                namespaces: namespaces(&["a"]),
                ..open.clone()
            },
            // Another one of the name of one that no file describes.
            Target {
                namespaces: namespaces(&["a"]),
                ..private
            },
        ];
        let left = narrowed(&read).expect("some are gone");
        assert_eq!(left.len(), 3);
        assert_eq!(left[0].namespaces, namespaces(&["b"]));
        assert_eq!(left[0].roles, roles(&["usual", "writer"]));
        assert_eq!((left[0].slots, &left[0].login), (2, &app.login));
        assert_eq!(left[1].namespaces, namespaces(&["a"]));
        assert_eq!(left[2].namespaces, None);
        let wider = Target {
            namespaces: None,
            ..app.clone()
        };
        assert!(narrowed(&[wider]).is_none());
    }
}
