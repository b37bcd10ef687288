//! Whose turn it is to have a forecast made, in this process: a few at a time, of each namespace
//! one, so that no namespace keeps others from theirs.

use crate::core::Namespace;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Forecasts at a time: each keeps a processor busy.
const AT_A_TIME: usize = 2;

/// The turns of one server.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// Of namespaces that have one or wait for one.
    own: Arc<Mutex<HashMap<Namespace, Arc<Semaphore>>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            all: Arc::new(Semaphore::new(AT_A_TIME)),
            own: Arc::default(),
        }
    }
}

impl Turns {
    /// Waits for that of the namespace first: who waits for it is in nobody's way.
    pub(super) async fn of(&self, namespace: &Namespace) -> Option<Turn> {
        let own = self.own(namespace).acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Turn {
            _own: own,
            _all: all,
        })
    }

    fn own(&self, namespace: &Namespace) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has a turn or waits for one holds its semaphore.
        own.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let one = || Arc::new(Semaphore::new(1));
        own.entry(namespace.clone()).or_insert_with(one).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_namespace_has_one_turn_and_leaves_the_other_one() {
        let turns = Turns::default();
        let [greedy, other, third] = ["greedy", "other", "third"].map(|n| Namespace(n.into()));
        let first = turns.of(&greedy).await;
        let second = turns.of(&greedy);
        assert!(timeout(SOON, second).await.is_err(), "it has one");
        let waiting = tokio::spawn({
            let (turns, greedy) = (turns.clone(), greedy.clone());
            async move { turns.of(&greedy).await }
        });
        tokio::task::yield_now().await;
        let others = timeout(SOON, turns.of(&other)).await;
        assert!(others.is_ok_and(|turn| turn.is_some()));
        drop(first);
        let waited = timeout(SOON, waiting).await;
        let waited = waited.expect("its turn").expect("no panic");
        drop(waited);
        assert!(timeout(SOON, turns.of(&third)).await.is_ok());
        assert_eq!(turns.own.lock().expect("whole").len(), 1, "none is kept");
    }
}
