//! What is shown of resources and claims.

use super::{
    Resources,
    define::{key_of, unknown},
    definitions::Definition,
    in_use::InUse,
};
use crate::core::{
    Caller, ClaimNo, ClaimState, ClaimView, Holder, LineView, Mode, Reject, ResourceKey,
    ResourceReply, ResourceView, TaskId,
};
use std::{sync::Arc, time::Duration};

/// Names of a pattern that its counts are taken over.
const NAMES_COUNTED: usize = 1_000;
/// Names that are looked at for the counts of a page: one with wide patterns is shorter.
const NAMES_OF_A_PAGE: usize = 10_000;
/// Holders that a claim in waiting names for each of its resources.
const HOLDERS_NAMED: usize = 10;

impl Resources {
    /// A resource by its own name, or one that a pattern stands for, with its holds and its queue.
    pub(super) fn resource(
        &self,
        caller: &Caller,
        name: &Arc<str>,
        limit: usize,
    ) -> Result<ResourceView, Reject> {
        self.resource_of(&key_of(caller, name), limit)
    }

    /// The same by its key.
    pub(super) fn resource_of(
        &self,
        key: &ResourceKey,
        limit: usize,
    ) -> Result<ResourceView, Reject> {
        let is_used = self.in_use.contains_key(key) || self.tasks.watched.contains_key(key);
        if let Some(view) = self.definition_view(key)
            && !is_used
        {
            return Ok(view);
        }
        let definition = self.definitions.of(key).ok_or_else(|| unknown(key))?;
        let mut view = self.seen(definition, &key.name, self.in_use.get(key));
        if let Some(watch) = self.tasks.watched.get(key) {
            let shown = |no| self.line_view(key, no);
            view.lines = watch.lines();
            view.tasks = watch.all().take(limit).filter_map(shown).collect();
        }
        if let Some(in_use) = self.in_use.get(key) {
            // Of a resource answers are kept for a while, in which it would pass.
            let shown = |no: &ClaimNo| ClaimView {
                hold_left: None,
                ..self.claim_view(*no)
            };
            view.holders = in_use.held.keys().take(limit).map(shown).collect();
            // Tasks that are in line have no claim yet.
            let in_line = in_use.queue.iter().map(|(no, _)| no);
            let claims = in_line.filter(|no| self.claims.contains_key(no));
            view.queue = claims.take(limit).map(|no| shown(&no)).collect();
        }
        Ok(view)
    }

    /// Definitions by name: up to `limit`, and one at least if there is any.
    pub(super) fn list(&self, caller: &Caller, after: &str, limit: usize) -> ResourceReply {
        let mut later = self.definitions.after(&caller.namespace, after).peekable();
        let (mut page, mut looks) = (Vec::new(), 0);
        while page.len() < limit
            && looks < NAMES_OF_A_PAGE
            && let Some(next) = later.next()
        {
            page.push(self.counted(next, &mut looks));
        }
        ResourceReply::Resources(page, later.peek().is_some())
    }

    /// A definition: of a pattern with what all of its resources are used for.
    pub(super) fn definition_view(&self, key: &ResourceKey) -> Option<ResourceView> {
        let definition = self.definitions.get(key)?;
        Some(self.counted(definition, &mut 0))
    }

    /// The same; adds how many names it has looked at.
    fn counted(&self, definition: &Definition, looks: &mut usize) -> ResourceView {
        let key = &definition.image.key;
        let mut view = self.seen(definition, &key.name, None);
        for used in self.used_under(key).take(NAMES_COUNTED) {
            *looks += 1;
            // A longer pattern may stand for it.
            let own = self.definitions.of(&used).map(|one| &one.image.key);
            if let Some(in_use) = self.in_use.get(&used).filter(|_| own == Some(key)) {
                view.names += 1;
                view.used += in_use.used(self.now);
                view.holds += in_use.held.len();
                view.waiting += in_use.queue.claims();
            }
        }
        for waited in self.watched_under(key).take(NAMES_COUNTED) {
            *looks += 1;
            let own = self.definitions.of(&waited).map(|one| &one.image.key);
            if let Some(watch) = self.tasks.watched.get(&waited).filter(|_| own == Some(key)) {
                view.lines += watch.lines();
            }
        }
        view
    }

    /// A claim as it is.
    pub(super) fn claim_view(&self, no: ClaimNo) -> ClaimView {
        let claim = &self.claims[&no];
        let waits = claim.state == ClaimState::Waiting;
        let places = claim.keys().zip(&claim.spec.wants).filter(|_| waits);
        let places: Vec<(u64, Option<Duration>)> = places
            .filter_map(|(key, want)| self.place(&key, no, want.mode))
            .collect();
        // Nobody can say when an operator raises a capacity.
        let is_closed = |key: &ResourceKey| {
            let in_use = self.in_use.get(key);
            in_use.is_some_and(|one| self.in_force(key, one).capacity == 0)
        };
        let expected_wait = match claim.keys().any(|key| is_closed(&key)) {
            true => None,
            false => places.iter().filter_map(|(_, wait)| *wait).max(),
        };
        ClaimView {
            no,
            spec: claim.spec.clone(),
            requested_at: claim.requested_at,
            state: claim.state.clone(),
            lease_until: (claim.has_lease())
                .then(|| claim.ends_at((&self.pace, self.leases_since), self.max_hold(no)))
                .flatten()
                .map(|(until, _)| until),
            hold_left: self.hold_left(no),
            position: places.iter().map(|(place, _)| *place).max().unwrap_or(0),
            expected_wait,
            in_the_way: match waits {
                true => self.in_the_way(no),
                false => Vec::new(),
            },
        }
    }

    /// How long its resources let a caller hold it from now on.
    fn hold_left(&self, no: ClaimNo) -> Option<Duration> {
        let claim = &self.claims[&no];
        let ClaimState::Held { since, .. } = &claim.state else {
            return None;
        };
        let longest = self.max_hold(no).filter(|_| claim.has_lease())?;
        Some((*since + longest).since(self.now))
    }

    /// Tasks that wait for a resource.
    fn line_view(&self, key: &ResourceKey, no: ClaimNo) -> Option<LineView> {
        let line = self.line(no)?;
        let want = line.wants.iter().find(|want| want.name == key.name)?;
        Some(LineView {
            first: TaskId {
                handle: line.handle,
                seq: line.front,
            },
            want: want.clone(),
            place: no,
            is_kept: self.is_kept_for(no),
        })
    }

    /// Place in one queue, and how long it may take to come to its front.
    fn place(&self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> Option<(u64, Option<Duration>)> {
        let in_use = self.in_use.get(key)?;
        let position = in_use.queue.position(no);
        if let Some(refill) = in_use.settings.refill {
            let wait = in_use.refill_wait(self.now, position, mode, refill);
            return Some((position, Some(wait)));
        }
        let at_once = match mode {
            Mode::Exclusive => 1,
            Mode::Shared(permits) => (in_use.settings.capacity / permits.max(1)).max(1),
        };
        let usual = self.definitions.of(key).and_then(|one| one.usual_hold);
        // One that is held for longer than usual says nothing of when it comes back.
        let usual = usual.filter(|usual| {
            let mut oldest = in_use.held.keys().take(HOLDERS_NAMED);
            oldest.all(|no| self.held_for(*no) <= *usual)
        });
        let wait = usual.map(|usual| usual.mul_f64(position as f64 / f64::from(at_once)));
        Some((position, wait))
    }

    /// How long it has held so far.
    fn held_for(&self, no: ClaimNo) -> Duration {
        match self.claims.get(&no).map(|claim| &claim.state) {
            Some(ClaimState::Held { since, .. }) => self.now.since(*since),
            _ => Duration::ZERO,
        }
    }

    /// Who keeps a claim from being granted: those that hold its resources, oldest first.
    pub(super) fn in_the_way(&self, no: ClaimNo) -> Vec<Holder> {
        let mut found = Vec::new();
        for key in self.claims[&no].keys() {
            let Some(in_use) = self.in_use.get(&key) else {
                continue;
            };
            for (claim, mode) in in_use.held.iter().take(HOLDERS_NAMED) {
                found.extend(self.holder(&key, *claim, *mode));
            }
        }
        found
    }

    pub(super) fn holder(&self, key: &ResourceKey, no: ClaimNo, mode: Mode) -> Option<Holder> {
        let held = self.claims.get(&no)?;
        Some(Holder {
            resource: key.name.clone(),
            claim: no,
            owner: held.spec.owner.clone(),
            task: held.spec.task,
            mode,
            since: held.state.granted().map_or(held.requested_at, |(_, at)| at),
        })
    }

    fn seen(
        &self,
        definition: &Definition,
        name: &Arc<str>,
        in_use: Option<&InUse>,
    ) -> ResourceView {
        ResourceView {
            image: definition.image.clone(),
            name: name.clone(),
            names: usize::from(in_use.is_some()),
            used: in_use.map_or(0, |one| one.used(self.now)),
            holds: in_use.map_or(0, |one| one.held.len()),
            waiting: in_use.map_or(0, |one| one.queue.claims()),
            lines: 0,
            usual_hold: definition.usual_hold,
            holders: Vec::new(),
            queue: Vec::new(),
            tasks: Vec::new(),
        }
    }
}
