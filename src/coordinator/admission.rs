//! Admission to what all namespaces share, such as the queue before the loop: each may hold as much
//! as stays free.
//!
//! One flooding namespace gets half of the capacity, two get a third each, and a newcomer always
//! finds some (dynamic thresholds, as in the shared buffers of switches: Choudhury and Hahne,
//! 1998). It never waits: it admits or refuses.

use crate::core::Namespace;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Space in the queue, free or held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub calls: usize,
    /// Bytes of the calls' bodies.
    pub bytes: usize,
}

/// Admits calls while there is capacity. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    state: Arc<Mutex<State>>,
}

/// A call's share of the capacity, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Admission,
    namespace: Namespace,
    bytes: usize,
}

#[derive(Debug)]
struct State {
    free: Capacity,
    held: FxHashMap<Namespace, Capacity>,
}

impl Admission {
    pub(crate) fn new(total: Capacity) -> Self {
        Admission {
            state: Arc::new(Mutex::new(State {
                free: total,
                held: FxHashMap::default(),
            })),
        }
    }

    /// A permit for a call of `namespace` with so many bytes, or the limit it would exceed.
    pub(crate) fn admit(
        &self,
        namespace: &Namespace,
        bytes: usize,
    ) -> Result<Permit, &'static str> {
        self.take(namespace, bytes, |held, more, free| {
            more <= free && held + more <= free
        })
    }

    /// The same beyond its share, as long as anything is left.
    pub(crate) fn admit_beyond_share(&self, namespace: &Namespace) -> Result<Permit, &'static str> {
        self.take(namespace, 0, |_, more, free| more <= free)
    }

    fn take(
        &self,
        namespace: &Namespace,
        bytes: usize,
        fits: impl Fn(usize, usize, usize) -> bool,
    ) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let held = state.held.get(namespace).copied().unwrap_or_default();
        if !fits(held.calls, 1, state.free.calls) {
            return Err("commands");
        }
        if !fits(held.bytes, bytes, state.free.bytes) {
            return Err("command_bytes");
        }
        let (calls, all) = (held.calls + 1, held.bytes + bytes);
        state
            .held
            .insert(namespace.clone(), Capacity { calls, bytes: all });
        state.free.calls -= 1;
        state.free.bytes -= bytes;
        Ok(Permit {
            admission: self.clone(),
            namespace: namespace.clone(),
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        state.free.calls += 1;
        state.free.bytes += self.bytes;
        let Some(held) = state.held.get_mut(&self.namespace) else {
            return;
        };
        held.calls -= 1;
        held.bytes -= self.bytes;
        if held.calls == 0 {
            state.held.remove(&self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Namespace {
        Namespace(name.into())
    }

    /// As many permits as a namespace gets.
    fn fill(admission: &Admission, namespace: &str, bytes: usize) -> Vec<Permit> {
        std::iter::from_fn(|| admission.admit(&name(namespace), bytes).ok()).collect()
    }

    #[test]
    fn a_flood_takes_half_of_the_capacity_and_others_find_some() {
        for (bytes, limit) in [(0, "commands"), (10, "command_bytes")] {
            let admission = Admission::new(Capacity {
                calls: 80,
                bytes: 600,
            });
            let flood = fill(&admission, "flood", bytes);
            assert_eq!(admission.admit(&name("flood"), bytes).map(drop), Err(limit));
            assert_eq!(flood.len(), if bytes == 0 { 40 } else { 30 });
            let second = fill(&admission, "second", bytes);
            assert_eq!(second.len(), flood.len() / 2);
            assert!(admission.admit(&name("third"), bytes).is_ok());
        }
    }

    #[test]
    fn what_is_given_back_is_free_again_and_leaves_nothing_behind() {
        let total = Capacity {
            calls: 80,
            bytes: 600,
        };
        let admission = Admission::new(total);
        for _ in 0..3 {
            drop(fill(&admission, "one", 7));
            let state = admission.lock();
            assert_eq!(state.free, total);
            assert!(state.held.is_empty());
        }
    }

    #[test]
    fn a_call_larger_than_what_is_free_is_refused() {
        let admission = Admission::new(Capacity {
            calls: 10,
            bytes: 100,
        });
        assert_eq!(
            admission.admit(&name("one"), 101).map(drop),
            Err("command_bytes")
        );
        assert!(admission.admit(&name("one"), 100).is_ok());
    }
}
