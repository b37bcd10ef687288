//! Since when calls that are repeated, or a stream that reconnects by itself, have no server.

use crate::error::{Error, Result};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Whether no server can be reached, while that is tried again and again. Clones watch the same
/// client or stream, also while that is waited for.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<Mutex<Option<Away>>>);

#[derive(Debug)]
struct Away {
    since: SystemTime,
    /// What the last attempt met.
    error: Error,
}

impl Outage {
    /// Since when there has been no server; `None`: there is one.
    pub fn since(&self) -> Option<SystemTime> {
        self.with(|away| away.as_ref().map(|away| away.since))
    }

    /// Why the last attempt found none; `None`: there is one.
    pub fn error(&self) -> Option<Error> {
        self.with(|away| away.as_ref().map(|away| away.error.clone()))
    }

    /// An attempt found no server. The outage began with the first of them.
    pub(crate) fn begin(&self, error: &Error) {
        self.with(|away| {
            let since = away
                .as_ref()
                .map_or_else(SystemTime::now, |away| away.since);
            let error = error.clone();
            *away = Some(Away { since, error });
        });
    }

    /// A server was reached by this attempt of a call, or was not.
    pub(crate) fn met<T>(&self, attempt: &Result<T>) {
        match attempt {
            Err(error) if error.transport => self.begin(error),
            _ => self.end(),
        }
    }

    pub(crate) fn end(&self) {
        self.with(|away| *away = None);
    }

    fn with<T>(&self, what: impl FnOnce(&mut Option<Away>) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
