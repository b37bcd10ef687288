//! How an executor is set up. Values only.

use super::{pg_client::Login, sql::register::SessionNote};
use crate::{
    clock::Clock,
    core::{Namespace, SessionOptions, SessionReset},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

/// How long a session may be idle, unless an operator says otherwise.
pub const SESSION_IDLE: Duration = Duration::from_secs(300);

/// Slots of a target: each is a connection to its server.
pub const TARGET_SLOTS: RangeInclusive<u32> = 1..=10_000;

/// What an executor needs to know.
pub struct ExecutorConfig {
    /// Where SQL tasks run.
    pub targets: Vec<TargetConfig>,
    /// Name of the replica it is part of.
    pub replica: Arc<str>,
    /// Database time.
    pub clock: Clock,
    /// Who keeps the register of sessions; `None`: nobody does.
    pub sessions: Option<mpsc::Sender<SessionNote>>,
    /// How long after a cancel a backend is terminated: [`super::CANCEL_GRACE`].
    pub cancel_grace: Duration,
}

/// A database on which SQL tasks run. Its logins need one connection more than there are slots, and
/// no pooler between.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// The name by which tasks refer to it.
    pub name: Arc<str>,
    /// As whom tasks log in whose namespace has no login of its own.
    pub login: Login,
    /// As whom those of a namespace do. All logins are on the same server.
    pub logins: BTreeMap<Arc<str>, Login>,
    /// Who cancels and terminates sessions, and sees whether they have ended; `None`: the login of
    /// the tasks.
    pub watchdog: Option<Login>,
    /// Tasks that may run on it at a time.
    pub slots: u32,
    /// How long a session may be idle; one stays open longer.
    pub session_idle: Duration,
    /// After what sessions are cleaned at the latest, whatever a scheduler says.
    pub session_reset: SessionReset,
    /// Roles that tasks may name.
    pub roles: BTreeSet<String>,
    /// Namespaces whose tasks may name it; `None`: all.
    pub namespaces: Option<BTreeSet<Namespace>>,
    /// What sessions begin with where neither the task nor its scheduler says it.
    pub defaults: SessionOptions,
}

impl TargetConfig {
    /// A target with nothing but a login and slots.
    pub fn new(name: impl Into<Arc<str>>, login: Login, slots: u32) -> Self {
        TargetConfig {
            name: name.into(),
            login,
            logins: BTreeMap::new(),
            watchdog: None,
            slots,
            session_idle: SESSION_IDLE,
            session_reset: SessionReset::Scheduler,
            roles: BTreeSet::new(),
            namespaces: None,
            defaults: SessionOptions::default(),
        }
    }
}
