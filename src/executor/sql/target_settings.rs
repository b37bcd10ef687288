//! What an operator says of a target, as it counts now: slots, logins, and how tasks are run. Pure.
//!
//! Invariant: as whom a task logs in follows from its namespace alone.

use super::{error::Failure, statement::Conditions, target_session};
use crate::{
    core::{Assignment, NO_ROLE, Namespace, SessionOptions, SessionReset, TaskId, TaskSpan},
    executor::{config::TargetConfig, pg_client::Login},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub(crate) struct Settings {
    name: Arc<str>,
    pub(crate) slots: u32,
    /// How long a session may be idle.
    pub(crate) session_idle: Duration,
    /// Of namespaces that have none of their own.
    pub(crate) login: Arc<Login>,
    /// By namespace.
    logins: BTreeMap<Arc<str>, Arc<Login>>,
    /// Of who cancels, terminates and looks after sessions.
    pub(crate) watchdog: Login,
    session_reset: SessionReset,
    /// Roles that tasks may name.
    roles: BTreeSet<String>,
    /// Namespaces whose tasks run here; `None`: all.
    namespaces: Option<BTreeSet<Namespace>>,
    /// Options of tasks that bring none.
    defaults: SessionOptions,
}

impl Settings {
    pub(crate) fn new(config: TargetConfig) -> Self {
        let prepared = |login: Login| target_session::task_login(login);
        let login = prepared(config.login);
        let logins = config.logins.into_iter();
        Settings {
            name: config.name,
            slots: config.slots,
            session_idle: config.session_idle,
            watchdog: config.watchdog.map_or_else(|| login.clone(), prepared),
            logins: logins
                .map(|(namespace, login)| (namespace, Arc::new(prepared(login))))
                .collect(),
            login: Arc::new(login),
            session_reset: config.session_reset,
            roles: config.roles,
            namespaces: config.namespaces,
            defaults: config.defaults,
        }
    }

    /// As whom a task logs in.
    pub(crate) fn login_of(&self, assignment: &Assignment) -> &Arc<Login> {
        let own = self.logins.get(&*assignment.namespace.0);
        own.unwrap_or(&self.login)
    }

    /// Of namespaces that have one of their own.
    pub(crate) fn own_logins(&self) -> impl Iterator<Item = &Arc<Login>> {
        self.logins.values()
    }

    /// Whether tasks still log in like this.
    pub(crate) fn has(&self, login: &Login) -> bool {
        let mut all = self.logins.values().chain([&self.login]);
        all.any(|one| **one == *login)
    }

    /// After what the session of a task is cleaned: what cleans more often counts.
    pub(crate) fn reset(&self, assignment: &Assignment) -> SessionReset {
        match self.session_reset {
            SessionReset::Task => SessionReset::Task,
            SessionReset::Scheduler => assignment.session_reset,
        }
    }

    /// Also what was submitted while the target was open to its namespace is not run.
    fn check_open_to(&self, namespace: &Namespace) -> Result<(), Failure> {
        let of = self.namespaces.as_ref();
        if of.is_none_or(|of| of.contains(namespace)) {
            return Ok(());
        }
        let message = format!(
            "the target {} is closed to the namespace {namespace}: have its `namespaces` in the \
             configuration name it, or submit the task to another target",
            self.name,
            namespace = namespace.0
        );
        Err(Failure::refused("TARGET_CLOSED", message))
    }

    /// How a task is run here: as it says, and where it says nothing, as the target does.
    pub(crate) fn conditions(&self, assignment: &Assignment) -> Result<Conditions, Failure> {
        self.check_open_to(&assignment.namespace)?;
        let options = &assignment.spec.options;
        let session = options.session.or(&self.defaults);
        let role = session.role.as_ref();
        let is_allowed = |role: &str| role == NO_ROLE || self.roles.contains(role);
        if let Some(role) = role.filter(|role| !is_allowed(role)) {
            let message = format!(
                "the role {role} is not among the `roles` that the configuration of this replica \
                 allows on the target {}",
                self.name
            );
            return Err(Failure::refused("ROLE_NOT_ALLOWED", message));
        }
        let task = TaskId {
            handle: assignment.handle,
            seq: assignment.first,
        };
        let trace = assignment.spec.trace.as_ref();
        let span = TaskSpan::Statement(assignment.attempt);
        Ok(Conditions {
            task,
            span: trace.map(|trace| trace.call.of(task, span)),
            max_rows: options.result_rows.unwrap_or(0),
            // No later text is to find the token.
            reset: match assignment.resource_token {
                Some(_) => SessionReset::Task,
                None => self.reset(assignment),
            },
            session,
            token: assignment.resource_token,
        })
    }
}
