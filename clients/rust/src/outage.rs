//! Since when calls that are repeated, or a stream that reconnects by itself, have no server.

use crate::error::Result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Whether no server can be reached, while that is tried again and again. Clones watch the same
/// client or stream, also while that is waited for.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<AtomicU64>);

impl Outage {
    /// Since when there has been no server; `None`: there is one.
    pub fn since(&self) -> Option<SystemTime> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros > 0).then(|| UNIX_EPOCH + Duration::from_micros(micros))
    }

    pub(crate) fn begin(&self) {
        let passed = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = passed.unwrap_or_default().as_micros() as u64;
        // A failure means that another one has begun it already.
        let _ = self
            .0
            .compare_exchange(0, micros.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A server was reached by this attempt of a call, or was not.
    pub(crate) fn met<T>(&self, attempt: &Result<T>) {
        match attempt {
            Err(error) if error.transport => self.begin(),
            _ => self.end(),
        }
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
