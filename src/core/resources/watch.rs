//! Who follows a resource is told of its present state when it has changed, with the batch that
//! makes that durable: the latest state, never what was between.
//!
//! A follower asks with the revision it knows. One that knows the present one waits, and is
//! answered at the next change, or after a while without one: so nothing is kept for a follower
//! that has gone. Revisions are in memory alone; one of an earlier owner is no present one.

use super::{
    Resources,
    define::{first_under, key_of, keys_from},
};
use crate::core::{
    Caller, ClaimNo, Namespace, Reject, ResourceKey, ResourceReply, ResourceView, Ticket, Time,
    Turn,
    model::limits::{LIMIT_WAIT, Limit, Limits},
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

/// Holds and waiting claims that a follower is shown.
const CLAIMS_SHOWN: usize = 100;
/// How often those are answered for whom nothing has changed.
const ROUND: Duration = Duration::from_secs(15);

/// Who follows which resource.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watched: BTreeMap<ResourceKey, Watched>,
    /// Those that have changed in this batch.
    changed: BTreeSet<ResourceKey>,
    /// How much of it is of each namespace.
    of: BTreeMap<Namespace, Followed>,
    revision: u64,
    /// When the next round is due.
    round_at: Option<Time>,
    /// How far the round under way has come.
    round_after: Option<ResourceKey>,
}

/// A resource that is followed.
#[derive(Debug)]
struct Watched {
    revision: u64,
    /// Its present state, once somebody was shown it.
    view: Option<Arc<ResourceView>>,
    waiting: Vec<Ticket>,
}

/// What a namespace follows; each is limited by its streams.
#[derive(Debug, Default)]
struct Followed {
    resources: u32,
    /// Followers that wait.
    waiting: u32,
}

impl Watches {
    /// When a round is due.
    pub(super) fn next_due(&self) -> Time {
        match self.changed.is_empty() && self.round_after.is_none() {
            true => self.round_at.unwrap_or(Time::NEVER),
            false => Time(0),
        }
    }

    /// The resource is not as its followers were told.
    pub(super) fn note(&mut self, key: &ResourceKey) {
        let Some(watched) = self.watched.get_mut(key) else {
            return;
        };
        self.revision += 1;
        watched.revision = self.revision;
        watched.view = None;
        self.changed.insert(key.clone());
    }

    /// The next resource, and its revision; `None`: that was the last one.
    fn next_after(&self, after: Option<&ResourceKey>) -> Option<(ResourceKey, u64)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.watched.range((after, Bound::Unbounded));
        let (key, watched) = later.next()?;
        Some((key.clone(), watched.revision))
    }

    /// Those that waited for this resource.
    fn take_waiting(&mut self, key: &ResourceKey) -> Vec<Ticket> {
        let watched = self.watched.get_mut(key);
        let tickets = watched.map_or_else(Vec::new, |one| std::mem::take(&mut one.waiting));
        if let Some(of) = self.of.get_mut(&key.namespace) {
            of.waiting = of.waiting.saturating_sub(tickets.len() as u32);
        }
        tickets
    }

    /// Notes what followers of a resource are shown from now on; returns its revision.
    fn show(&mut self, key: &ResourceKey, view: Arc<ResourceView>) -> u64 {
        let watched = self.watched.entry(key.clone()).or_insert_with(|| {
            self.revision += 1;
            self.of.entry(key.namespace.clone()).or_default().resources += 1;
            Watched {
                revision: self.revision,
                view: None,
                waiting: Vec::new(),
            }
        });
        watched.view = Some(view);
        watched.revision
    }

    /// Nobody follows the resource any more.
    fn forget(&mut self, key: &ResourceKey) {
        if self.watched.remove(key).is_none() {
            return;
        }
        if let Entry::Occupied(mut of) = self.of.entry(key.namespace.clone()) {
            of.get_mut().resources -= 1;
            if of.get().resources == 0 {
                of.remove();
            }
        }
    }
}

impl Resources {
    /// A follower asks for the state after `seen`. `None`: it is answered later.
    pub(super) fn watch(
        &mut self,
        now: Time,
        limits: &Limits,
        ticket: Option<Ticket>,
        caller: &Caller,
        (name, seen): (&Arc<str>, u64),
    ) -> Result<Option<ResourceReply>, Reject> {
        let key = key_of(caller, name);
        let full = |namespace| Reject::LimitReached {
            limit: Limit::Streams,
            namespace,
            value: limits.streams.into(),
            wait: Some(LIMIT_WAIT),
        };
        let of = self.watches.of.get(&key.namespace);
        let is_full = of.is_some_and(|of| of.resources >= limits.streams);
        if is_full && !self.watches.watched.contains_key(&key) {
            return Err(full(key.namespace));
        }
        let present = self.watched_state(&key)?;
        self.watches.round_at.get_or_insert(now + ROUND);
        let (Some(ticket), ResourceReply::Watched(_, revision)) = (ticket, &present) else {
            return Ok(Some(present));
        };
        if *revision != seen {
            return Ok(Some(present));
        }
        let of = self.watches.of.entry(key.namespace.clone()).or_default();
        if of.waiting >= limits.streams {
            return Err(full(key.namespace));
        }
        of.waiting += 1;
        if let Some(watched) = self.watches.watched.get_mut(&key) {
            watched.waiting.push(ticket);
        }
        Ok(None)
    }

    /// The present state of a resource, which is followed from now on.
    fn watched_state(&mut self, key: &ResourceKey) -> Result<ResourceReply, Reject> {
        let known = self.watches.watched.get(key);
        let known = known.and_then(|one| Some((one.view.clone()?, one.revision)));
        if let Some((view, revision)) = known {
            return Ok(ResourceReply::Watched(Some(view), revision));
        }
        let view = Arc::new(self.resource_of(key, CLAIMS_SHOWN)?);
        let revision = self.watches.show(key, view.clone());
        Ok(ResourceReply::Watched(Some(view), revision))
    }

    /// A claim is in another phase, or what it held is free.
    pub(super) fn note_change_of(&mut self, no: ClaimNo) {
        if self.watches.watched.is_empty() {
            return;
        }
        for key in self.claims[&no].keys() {
            self.watches.note(&key);
        }
    }

    /// A definition is new, has changed or was deleted.
    pub(super) fn note_definition(&mut self, key: &ResourceKey) {
        let watched = keys_from(&self.watches.watched, key, &first_under(key));
        let watched: Vec<ResourceKey> = watched.collect();
        watched.iter().for_each(|one| self.watches.note(one));
    }

    /// Tells followers what has changed in this batch, and after a while that nothing has.
    pub(crate) fn tell_followers(&mut self, turn: &mut Turn, limits: &Limits) {
        while let Some(key) = self.watches.changed.pop_first() {
            let waiting = self.watches.take_waiting(&key);
            if waiting.is_empty() {
                continue;
            }
            let state = self.watched_state(&key).unwrap_or_else(|_| {
                self.watches.forget(&key);
                ResourceReply::Unwatched
            });
            for ticket in waiting {
                turn.out.answer(ticket, state.clone());
            }
        }
        let is_due = self.watches.round_at.is_some_and(|at| at <= turn.now);
        if is_due || self.watches.round_after.is_some() {
            self.go_round(turn, limits);
        }
    }

    /// Answers all that wait, those of a few resources with each batch: they ask again at once.
    /// What nobody has asked for since the round before is not followed.
    fn go_round(&mut self, turn: &mut Turn, limits: &Limits) {
        let mut left = limits.slice as usize;
        let mut after = self.watches.round_after.take();
        while let Some((key, revision)) = self.watches.next_after(after.as_ref()) {
            if left == 0 {
                self.watches.round_after = after;
                return;
            }
            let waiting = self.watches.take_waiting(&key);
            left = left.saturating_sub(waiting.len().max(1));
            if waiting.is_empty() {
                self.watches.forget(&key);
            }
            for ticket in waiting {
                let same = ResourceReply::Watched(None, revision);
                turn.out.answer(ticket, same);
            }
            after = Some(key);
        }
        let is_watched = !self.watches.watched.is_empty();
        self.watches.round_at = is_watched.then(|| turn.now + ROUND);
    }
}
