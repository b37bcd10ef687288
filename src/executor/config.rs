//! How an executor is set up. Values only.

use super::{pg_client::Login, sql::register::SessionNote};
use crate::clock::Clock;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

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
    /// How long a session may be idle; one on each target stays open longer:
    /// [`super::SESSION_IDLE`].
    pub session_idle: Duration,
}

/// A database on which SQL tasks run. Its login needs one connection more than there are slots, and
/// no pooler between.
pub struct TargetConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Its login.
    pub login: Login,
    /// Tasks at any time.
    pub slots: u32,
}
