//! Reads the configuration file again when an operator asks for it with SIGHUP.
//!
//! Invariants: a file that makes no sense changes nothing; one whose targets need a restart, or are
//! not taken by the database, changes who may do what and nothing else; the log says why. Slots are
//! in the register before anybody hears of them, since a new owner takes what it finds there for
//! all that may be running.

use super::{ConfigFile, Described, Target, config};
use crate::{core::Work, executor::Executor, identity::Authenticator, journal::Sessions, rpc};
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
            let had = self.authenticator.as_ref().map(Authenticator::changes);
            match self.reload().await {
                Ok(()) => tracing::info!(path, "the configuration has been read again"),
                Err(why) => {
                    for why in why.lines() {
                        tracing::error!("{why}");
                    }
                    match (had, self.authenticator.as_ref().map(Authenticator::changes)) {
                        (had, has) if had == has => {
                            tracing::error!(path, "nothing of the configuration has been changed");
                        }
                        _ => tracing::error!(
                            path,
                            "nothing but who may do what has been changed of the configuration"
                        ),
                    }
                }
            }
        }
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
        // Whoever lost a role or a token has lost it, whatever is wrong with the targets.
        if let Some((authenticator, sources)) = self.authenticator.as_ref().zip(sources) {
            authenticator.replace(sources);
            tracing::info!("callers and their roles are as the configuration says");
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
                wrong.push(format!("targets.{} is gone", old.name));
                continue;
            }
            Some(new) if !new.login.is_at(&old.login) => {
                wrong.push(format!("targets.{} is another database", old.name));
                continue;
            }
            Some(new) => new,
        };
        targets.push(new);
    }
    wrong.extend(read.keys().map(|name| format!("targets.{name} is new")));
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
}
