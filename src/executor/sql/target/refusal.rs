//! The login of a target that its server refuses, while one of a namespace gets in. It is tried
//! again now and then, by one task at a time: a server that logs each refusal, and the places that
//! the others have, are spared the rest.

use super::{super::RECONNECT_BACKOFF, Target, lock};
use crate::executor::pg_client;
use std::time::Instant;

/// Since the login was changed, or has opened a session.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What the server says.
    why: String,
    /// How often it has been tried again.
    tries: u32,
    /// When it may be tried again.
    next: Instant,
}

impl Target {
    /// Why the login of the target is not worth a try now. Who is told that it is tries it.
    pub(super) fn is_refused_for_now(&self) -> Option<String> {
        let mut refused = lock(&self.refused);
        let refusal = refused.as_mut()?;
        if refusal.next > Instant::now() {
            return Some(refusal.why.clone());
        }
        refusal.next = Instant::now() + RECONNECT_BACKOFF.delay(refusal.tries);
        refusal.tries = refusal.tries.saturating_add(1);
        None
    }

    /// The server has refused the login of the target, and not that of a namespace.
    pub(super) fn note_refusal(&self, cause: &pg_client::Error) {
        let mut refused = lock(&self.refused);
        let why = format!("tasks of namespaces without a login of their own wait: {cause}");
        match refused.as_mut() {
            Some(refusal) => refusal.why = why,
            None => {
                tracing::warn!(target = %self.name, "the login of the target is refused: {why}");
                *refused = Some(Refusal {
                    why,
                    tries: 1,
                    next: Instant::now() + RECONNECT_BACKOFF.delay(0),
                });
            }
        }
    }

    /// The login of the target gets in, or is another one.
    pub(super) fn forget_refusal(&self) {
        *lock(&self.refused) = None;
    }

    /// Why some tasks get no session though the target is available.
    pub(super) fn refusal(&self) -> Option<String> {
        lock(&self.refused).as_ref().map(|known| known.why.clone())
    }
}
