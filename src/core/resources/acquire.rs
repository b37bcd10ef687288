//! A caller claims resources: the claim takes the next number and is granted, or waits.

use super::{Resources, claim::Claim, define::unknown};
use crate::core::{
    ClaimEvent, ClaimNo, ClaimPhase, ClaimRecord, ClaimSpec, Mode, Namespace, Reject, ResourceKey,
    ResourceReject, ResourceReply, Turn, Want, command::may_go_on_for, model::limits::Limits,
};
use std::sync::Arc;

impl Resources {
    /// Claims resources. `if_free`: only when all of them can be had at once.
    pub(super) fn acquire(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        spec: &Arc<ClaimSpec>,
        if_free: bool,
    ) -> Result<ResourceReply, Reject> {
        if let Some(known) = self.requested_before(spec)? {
            return Ok(ResourceReply::Claim(self.claim_view(known), false));
        }
        self.check_wants(&spec.namespace, &spec.wants)?;
        let open = self.open.get(&spec.namespace).copied();
        open.unwrap_or_default().check_room(spec, limits)?;
        let no = ClaimNo(self.last.0 + 1);
        let renewed_at = self.pace.steady(turn.now);
        let claim = Claim::new(spec.clone(), turn.now, renewed_at);
        self.claims.insert(no, claim);
        self.enqueue(no);
        let blocked = self.blocked_by(no);
        if blocked.is_some() {
            let refused = match if_free {
                true => Some(Ok(ResourceReply::NotFree(self.in_the_way(no)))),
                false => (self.circle(no))
                    .map(|circle| Err(Reject::Resource(ResourceReject::CircularWait(circle)))),
            };
            if let Some(refused) = refused {
                // It stood last, so nobody's turn has come.
                self.leave_queues_silently(no);
                let keys: Vec<ResourceKey> = self.claims[&no].keys().collect();
                keys.iter().for_each(|key| self.forget_or_watch(key));
                self.claims.remove(&no);
                return refused;
            }
        }
        self.last = no;
        self.recorded = no;
        self.note_open(no);
        match blocked {
            None => self.grant(turn, no, Some(spec.clone())),
            Some(key) => {
                self.park_claim(no, &key);
                turn.out.records.resources.claims.push(ClaimRecord {
                    no,
                    at: turn.now,
                    what: ClaimEvent::Requested(spec.clone()),
                });
                self.set_timer(turn.now, no);
                self.note_change_of(no);
            }
        }
        self.watch_refills(no);
        Ok(ResourceReply::Claim(self.claim_view(no), true))
    }

    /// The claim that this very call has made before.
    fn requested_before(&self, spec: &ClaimSpec) -> Result<Option<ClaimNo>, Reject> {
        let Some(request) = spec.request else {
            return Ok(None);
        };
        let call = (spec.namespace.clone(), request.id);
        let known = self.requests.get(&call).copied();
        let made_by = known.and_then(|no| self.claims.get(&no));
        let is_of_another = |made: &Claim| !may_go_on_for(&made.spec.caller, &spec.caller);
        match made_by.and_then(|made| Some((made, made.spec.request?))) {
            Some((made, first)) if first.hash != request.hash || is_of_another(made) => {
                Err(Reject::RequestIdReused)
            }
            Some(_) => Ok(known),
            None => Ok(None),
        }
    }

    /// Refused when there is no such resource, or too little of it.
    pub(crate) fn check_wants(&self, namespace: &Namespace, wants: &[Want]) -> Result<(), Reject> {
        for want in wants {
            let key = ResourceKey {
                namespace: namespace.clone(),
                name: want.name.clone(),
            };
            let definition = self.definitions.of(&key).ok_or_else(|| unknown(&key))?;
            let capacity = definition.image.settings.capacity;
            if want.mode == Mode::Exclusive && definition.image.settings.refill.is_some() {
                let refills = ResourceReject::PermitsRefill(want.name.clone());
                return Err(Reject::Resource(refills));
            }
            if matches!(want.mode, Mode::Shared(permits) if capacity > 0 && permits > capacity) {
                return Err(Reject::Resource(ResourceReject::TooManyPermits {
                    name: want.name.clone(),
                    definition: definition.image.key.name.clone(),
                    capacity,
                }));
            }
        }
        Ok(())
    }

    /// A claim stands in the queues of all its resources. Until it is known where it is not its
    /// turn, it is looked at when the first one changes.
    pub(super) fn enqueue(&mut self, no: ClaimNo) {
        let spec = self.claims[&no].spec.clone();
        let wants = self.claims[&no].keys().zip(&spec.wants);
        for (at, (key, want)) in wants.enumerate() {
            let queue = &mut self.in_use_of(&key).queue;
            queue.push(no, want.mode);
            if at == 0 {
                queue.park(no);
            }
        }
    }

    /// Notes what an open claim counts for and is found by.
    pub(super) fn note_open(&mut self, no: ClaimNo) {
        let spec = &self.claims[&no].spec;
        let namespace = spec.namespace.clone();
        if let Some(request) = spec.request {
            self.requests.insert((namespace.clone(), request.id), no);
        }
        if !spec.owner.is_empty() {
            let owner = (namespace.clone(), spec.owner.clone());
            let owned = self.owners.entry(owner).or_default();
            owned.note_open(no, self.claims[&no].state.phase());
        }
        self.open.entry(namespace).or_default().add(spec);
        match self.claims[&no].state.phase() {
            ClaimPhase::Held => self.counts.holds += 1,
            ClaimPhase::Waiting | ClaimPhase::Ended => self.counts.waiting += 1,
        }
    }
}
