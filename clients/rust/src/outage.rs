//! Since when a stream that reconnects by itself has no server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Whether a stream is broken off while it looks for a server. Clones watch the same stream, also
/// while that is waited for.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<AtomicU64>);

impl Outage {
    /// Since when there has been no server; `None`: the stream is open.
    pub fn since(&self) -> Option<SystemTime> {
        let micros = self.0.load(Ordering::Relaxed);
        (micros > 0).then(|| UNIX_EPOCH + Duration::from_micros(micros))
    }

    pub(crate) fn begin(&self) {
        let passed = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = passed.unwrap_or_default().as_micros() as u64;
        self.0.store(micros.max(1), Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
