//! Admission in the queue before the loop, shared between namespaces: one of them may hold as much as stays free. So a flood takes
//! half of the room, two take a third each, and whoever comes next always finds some (dynamic thresholds, as in the shared
//! buffers of switches: Choudhury and Hahne, 1998).

use crate::core::Namespace;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What calls hold while they wait for the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How many there are.
    pub calls: usize,
    /// Bytes of their bodies.
    pub bytes: usize,
}

/// The room there is. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    state: Arc<Mutex<State>>,
}

/// A call's share of the room, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    room: Admission,
    namespace: Namespace,
    bytes: usize,
}

#[derive(Debug)]
struct State {
    free: Demand,
    held: FxHashMap<Namespace, Demand>,
}

impl Admission {
    /// Admission for so much.
    pub(super) fn new(whole: Demand) -> Self {
        Admission {
            state: Arc::new(Mutex::new(State {
                free: whole,
                held: FxHashMap::default(),
            })),
        }
    }

    /// A place for a call of `namespace` with so many bytes, or the limit it would exceed.
    pub(super) fn take(&self, namespace: &Namespace, bytes: usize) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let held = state.held.get(namespace).copied().unwrap_or_default();
        let fits = |held: usize, more: usize, free: usize| more <= free && held + more <= free;
        if !fits(held.calls, 1, state.free.calls) {
            return Err("commands");
        }
        if !fits(held.bytes, bytes, state.free.bytes) {
            return Err("command_bytes");
        }
        let (calls, all) = (held.calls + 1, held.bytes + bytes);
        state
            .held
            .insert(namespace.clone(), Demand { calls, bytes: all });
        state.free.calls -= 1;
        state.free.bytes -= bytes;
        Ok(Permit {
            room: self.clone(),
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
        let mut state = self.room.lock();
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

    /// As many places as a namespace gets.
    fn fill(room: &Admission, namespace: &str, bytes: usize) -> Vec<Permit> {
        std::iter::from_fn(|| room.take(&name(namespace), bytes).ok()).collect()
    }

    #[test]
    fn a_flood_takes_half_of_the_room_and_others_find_some() {
        for (bytes, limit) in [(0, "commands"), (10, "command_bytes")] {
            let room = Admission::new(Demand {
                calls: 80,
                bytes: 600,
            });
            let flood = fill(&room, "flood", bytes);
            assert_eq!(room.take(&name("flood"), bytes).map(drop), Err(limit));
            assert_eq!(flood.len(), if bytes == 0 { 40 } else { 30 });
            let second = fill(&room, "second", bytes);
            assert_eq!(second.len(), flood.len() / 2);
            assert!(room.take(&name("third"), bytes).is_ok());
        }
    }

    #[test]
    fn what_is_given_back_is_free_again_and_leaves_nothing_behind() {
        let whole = Demand {
            calls: 80,
            bytes: 600,
        };
        let room = Admission::new(whole);
        for _ in 0..3 {
            drop(fill(&room, "one", 7));
            let state = room.lock();
            assert_eq!(state.free, whole);
            assert!(state.held.is_empty());
        }
    }

    #[test]
    fn a_call_larger_than_what_is_free_is_refused() {
        let room = Admission::new(Demand {
            calls: 10,
            bytes: 100,
        });
        assert_eq!(room.take(&name("one"), 101).map(drop), Err("command_bytes"));
        assert!(room.take(&name("one"), 100).is_ok());
    }
}
