//! Admission to what all namespaces share, such as the queue before the loop: each may hold as much
//! as stays free.
//!
//! One flooding namespace gets half of the capacity, two get a third each, and a newcomer always
//! finds some (dynamic thresholds, as in the shared buffers of switches: Choudhury and Hahne,
//! 1998). Where callers are told apart, the same holds among those of a namespace: one may hold as
//! much as the namespace may still get, so one that floods gets half of what its namespace has. It
//! never waits: it admits or refuses.

use crate::core::{Caller, Namespace, is_identity};
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
    /// Set where callers are told apart and this one is known.
    caller: Option<Arc<str>>,
    bytes: usize,
}

#[derive(Debug)]
struct State {
    free: Capacity,
    held: FxHashMap<Namespace, Capacity>,
    /// Calls of each caller who is told apart: callers of two namespaces are two.
    of_callers: FxHashMap<(Namespace, Arc<str>), usize>,
}

impl Admission {
    pub(crate) fn new(total: Capacity) -> Self {
        Admission {
            state: Arc::new(Mutex::new(State {
                free: total,
                held: FxHashMap::default(),
                of_callers: FxHashMap::default(),
            })),
        }
    }

    /// A permit for a call of `namespace` with so many bytes, or the limit it would exceed.
    pub(crate) fn admit(
        &self,
        namespace: &Namespace,
        bytes: usize,
    ) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let held = state.held.get(namespace).copied().unwrap_or_default();
        if held.calls + 1 > state.free.calls {
            return Err("commands");
        }
        if held.bytes + bytes > state.free.bytes {
            return Err("command_bytes");
        }
        Ok(self.take(&mut state, namespace, None, bytes))
    }

    /// A permit for a call of a caller, without bytes, or whose share it would exceed: that of the
    /// `namespace`, or of the `caller`.
    pub(crate) fn admit_caller(&self, caller: &Caller) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let (namespace, free) = (&caller.namespace, state.free.calls);
        let held = state.held.get(namespace).map_or(0, |held| held.calls);
        if held + 1 > free {
            return Err("namespace");
        }
        let known = known(caller);
        if let Some(name) = &known {
            let of_caller = state.of_callers.get(&(namespace.clone(), name.clone()));
            // With each that the namespace gets, one less stays free.
            let left_to_namespace = (free - held).div_ceil(2);
            if of_caller.copied().unwrap_or_default() + 1 > left_to_namespace {
                return Err("caller");
            }
        }
        Ok(self.take(&mut state, namespace, known, 0))
    }

    /// The same beyond these shares, as long as anything is left.
    pub(crate) fn admit_beyond_share(&self, caller: &Caller) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        match state.free.calls {
            0 => Err("namespace"),
            _ => Ok(self.take(&mut state, &caller.namespace, known(caller), 0)),
        }
    }

    fn take(
        &self,
        state: &mut State,
        namespace: &Namespace,
        caller: Option<Arc<str>>,
        bytes: usize,
    ) -> Permit {
        let held = state.held.entry(namespace.clone()).or_default();
        held.calls += 1;
        held.bytes += bytes;
        if let Some(name) = &caller {
            let key = (namespace.clone(), name.clone());
            *state.of_callers.entry(key).or_default() += 1;
        }
        state.free.calls -= 1;
        state.free.bytes -= bytes;
        Permit {
            admission: self.clone(),
            namespace: namespace.clone(),
            caller,
            bytes,
        }
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
        if let Some(name) = &self.caller {
            state.caller_ended((self.namespace.clone(), name.clone()));
        }
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

impl State {
    fn caller_ended(&mut self, caller: (Namespace, Arc<str>)) {
        match self.of_callers.get_mut(&caller) {
            Some(calls) if *calls > 1 => *calls -= 1,
            _ => drop(self.of_callers.remove(&caller)),
        }
    }
}

/// Who it is, if that was proven: names that callers give themselves tell nobody apart.
fn known(caller: &Caller) -> Option<Arc<str>> {
    is_identity(&caller.name).then(|| caller.name.clone())
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

    /// As many permits as a caller gets.
    fn fill_for(admission: &Admission, namespace: &str, caller: &str) -> Vec<Permit> {
        let caller = Caller {
            namespace: name(namespace),
            name: caller.into(),
        };
        std::iter::from_fn(|| admission.admit_caller(&caller).ok()).collect()
    }

    #[test]
    fn a_caller_who_is_known_leaves_some_of_its_namespace_to_others() {
        let total = Capacity {
            calls: 80,
            bytes: 0,
        };
        let admission = Admission::new(total);
        let fill = |namespace, caller| fill_for(&admission, namespace, caller);
        let ann = fill("a", "token:ann");
        assert_eq!(ann.len(), 20, "half of what its namespace may have alone");
        let ben = fill("a", "token:ben");
        assert!((8..=12).contains(&ben.len()), "{}", ben.len());
        assert!(!fill("a", "token:cleo").is_empty());
        // Beside another namespace there is less, and still something for the next caller.
        let nobody = fill("b", "ann");
        assert!((20..=30).contains(&nobody.len()), "{}", nobody.len());
        drop((ann, ben));
        let ann = fill("a", "token:ann");
        assert!((10..20).contains(&ann.len()), "{}", ann.len());
        assert!(!fill("a", "token:ben").is_empty());
        let again = Caller {
            namespace: name("a"),
            name: "token:ann".into(),
        };
        assert_eq!(admission.admit_caller(&again).map(drop), Err("caller"));
        let further = admission.admit_beyond_share(&again);
        assert!(further.is_ok(), "it goes on");
        drop((ann, nobody, further));
        let state = admission.lock();
        assert_eq!(state.free, total);
        assert!(state.held.is_empty() && state.of_callers.is_empty());
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
