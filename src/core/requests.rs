//! Calls that may be repeated: the same request id within fifteen minutes gets the same answer, another payload an error.

use super::{Handle, Namespace, Request, Shard, Time, limits};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use uuid::Uuid;

/// GetScheduler calls by namespace and request id.
#[derive(Debug, Default)]
pub(super) struct Opened {
    by_id: FxHashMap<(Namespace, Uuid), (Request, Handle)>,
    by_age: VecDeque<(Time, Namespace, Uuid)>,
}

impl Opened {
    pub fn get(&self, namespace: &Namespace, id: Uuid) -> Option<(Request, Handle)> {
        self.by_id.get(&(namespace.clone(), id)).copied()
    }

    pub fn insert(&mut self, at: Time, namespace: &Namespace, request: Request, handle: Handle) {
        self.by_id.insert((namespace.clone(), request.id), (request, handle));
        self.by_age.push_back((at, namespace.clone(), request.id));
    }

    fn forget_until(&mut self, limit: Time, most: usize) {
        while self.by_age.front().is_some_and(|(at, ..)| *at < limit) || self.by_age.len() > most {
            let Some((_, namespace, id)) = self.by_age.pop_front() else { return };
            self.by_id.remove(&(namespace, id));
        }
    }
}

impl Shard {
    /// Forgets calls that are too old to be repeated.
    pub(super) fn forget_requests(&mut self, now: Time) {
        let limit = now - limits::REQUEST_MEMORY;
        self.opened.forget_until(limit, self.limits.requests);
        while self.accepted.front().is_some_and(|(at, ..)| *at < limit) || self.accepted.len() > self.limits.requests {
            let Some((_, handle, id)) = self.accepted.pop_front() else { return };
            if let Some(scheduler) = self.schedulers.get_mut(&handle) {
                scheduler.requests.remove(&id);
            }
        }
    }
}
