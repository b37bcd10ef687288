//! Pauses of targets: what an operator says of where nothing new is to start. Values only.

use super::{task::Work, time::Time};
use std::sync::Arc;

/// What becomes of the tasks that run on a target when it is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseMode {
    /// They go on to their end.
    Drain,
    /// They are stopped, and run again after the pause.
    CancelRunning,
}

/// A pause that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPause {
    /// Which target; `None`: all of them, and work without one.
    pub target: Option<Arc<str>>,
    /// What becomes of the tasks that run.
    pub mode: PauseMode,
    /// Since when it is in force in this mode.
    pub since: Time,
    /// Who paused it.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseChange {
    /// Of which target; `None`: of all of them, and of work without one.
    pub target: Option<Arc<str>>,
    /// A pause; `None`: its end.
    pub mode: Option<PauseMode>,
    /// Who asks.
    pub by: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
}

impl PauseChange {
    /// The pause that this begins at `at`; `None`: it ends one.
    pub(crate) fn begun(&self, at: Time) -> Option<TargetPause> {
        Some(TargetPause {
            target: self.target.clone(),
            mode: self.mode?,
            since: at,
            by: self.by.clone(),
            reason: self.reason.clone(),
        })
    }
}

impl Work {
    /// Whether a pause of `target` (`None`: of all) keeps it from starting.
    pub fn is_of(&self, target: Option<&str>) -> bool {
        match (target, self) {
            (None, _) => true,
            (Some(name), Work::Sql { target }) => **target == *name,
            (Some(_), Work::Noop) => false,
        }
    }
}
