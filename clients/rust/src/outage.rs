//! Since when calls that are repeated, or a stream that reconnects by itself, have no server, or
//! none that takes them.

use crate::error::{Error, Result};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Whether no server can be reached, or none takes a call (its queue is full, its database away),
/// while that is tried again and again. Clones watch the same client or stream, also while that is
/// waited for.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<Mutex<Option<Away>>>);

#[derive(Debug)]
struct Away {
    since: SystemTime,
    /// What the last attempt met.
    error: Error,
}

impl Outage {
    /// Since when it has been so; `None`: it is not.
    pub fn since(&self) -> Option<SystemTime> {
        self.with(|away| away.as_ref().map(|away| away.since))
    }

    /// What the last attempt met: no server if it is of the transport, else what a server said.
    pub fn error(&self) -> Option<Error> {
        self.with(|away| away.as_ref().map(|away| away.error.clone()))
    }

    /// An attempt has failed, and is repeated. The outage began with the first of them.
    pub(crate) fn begin(&self, error: &Error) {
        self.with(|away| {
            // No server, and one that does not take the call, are two outages.
            let before = away.as_ref();
            let before = before.filter(|away| away.error.transport == error.transport);
            let since = before.map_or_else(SystemTime::now, |away| away.since);
            let error = error.clone();
            *away = Some(Away { since, error });
        });
    }

    /// What an attempt of a call has met. One that is repeated is an outage until one is not.
    pub(crate) fn met<T>(&self, attempt: &Result<T>) {
        match attempt {
            Err(error) if error.transport || error.is_retryable() => self.begin(error),
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
