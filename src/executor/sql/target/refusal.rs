//! The login of a target that its server refuses, while one of a namespace gets in. It is tried
//! again now and then, by one task at a time or without any: a server that logs each refusal, and
//! the places that the others have, are spared the rest.

use super::super::RECONNECT_BACKOFF;
use crate::executor::pg_client;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Whether the login is refused: since it was changed, or has got in.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<Option<Refusal>>);

#[derive(Debug)]
struct Refusal {
    /// Who waits, and what the server says.
    why: String,
    /// How often it has been tried again.
    tries: u32,
    /// When it may be tried again.
    next: Instant,
}

impl Refused {
    /// Why the login is not worth a try now. `None`: it is, and whoever asks tries it.
    pub(super) fn for_now(&self) -> Option<String> {
        let mut known = self.lock();
        let refusal = known.as_mut()?;
        if refusal.next > Instant::now() {
            return Some(refusal.why.clone());
        }
        refusal.next = Instant::now() + RECONNECT_BACKOFF.delay(refusal.tries);
        refusal.tries = refusal.tries.saturating_add(1);
        None
    }

    /// Whether it is refused, and may be tried again now. Whoever is told so has to try it.
    pub(super) fn is_due(&self) -> bool {
        self.why().is_some() && self.for_now().is_none()
    }

    /// The server has refused the login, and not that of a namespace.
    pub(super) fn note(&self, target: &str, cause: &pg_client::Error) {
        let mut known = self.lock();
        let why = format!("tasks of namespaces without a login of their own wait: {cause}");
        match known.as_mut() {
            Some(refusal) => refusal.why = why,
            None => {
                tracing::warn!(target, "the login of the target is refused: {why}");
                *known = Some(Refusal {
                    why,
                    tries: 1,
                    next: Instant::now() + RECONNECT_BACKOFF.delay(0),
                });
            }
        }
    }

    /// The login gets in, or is another one.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Why some tasks get no session though the target is available.
    pub(super) fn why(&self) -> Option<String> {
        self.lock().as_ref().map(|known| known.why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
