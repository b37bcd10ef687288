//! The one path on which a claim ends, whoever ends it.

use super::Resources;
use crate::core::{
    Caller, ClaimEnd, ClaimEnding, ClaimEvent, ClaimNo, ClaimPhase, ClaimRecord, ClaimState,
    Reject, ResourceReply, Time, Token, Turn, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

impl Resources {
    /// Gives a hold back, or withdraws a claim that waits. One that was released or withdrawn
    /// before stays so; of one that was lost the caller is told.
    pub(super) fn release(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        no: ClaimNo,
        token: Option<Token>,
    ) -> Result<ResourceReply, Reject> {
        let claim = self.claim_of(caller, no)?;
        claim.check_not_of_task()?;
        claim.check_is_of(caller)?;
        claim.check_token(token)?;
        let how = match &claim.state {
            ClaimState::Waiting => ClaimEnd::Withdrawn,
            ClaimState::Held { .. } => ClaimEnd::Released,
            ClaimState::Ended { .. } => return Ok(self.ended_before(no)),
        };
        self.end(turn, no, how, None);
        self.grant_next(turn, limits);
        Ok(ResourceReply::Claim(self.claim_view(no), true))
    }

    /// An operator ends a claim.
    pub(super) fn force_release(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        no: ClaimNo,
        reason: &Arc<str>,
    ) -> Result<ResourceReply, Reject> {
        if !self.claim_of(caller, no)?.is_open() {
            return Ok(self.ended_before(no));
        }
        self.end(turn, no, ClaimEnd::Forced, Some((&caller.name, reason)));
        self.grant_next(turn, limits);
        Ok(ResourceReply::Claim(self.claim_view(no), true))
    }

    fn ended_before(&self, no: ClaimNo) -> ResourceReply {
        ResourceReply::Claim(self.claim_view(no), false)
    }

    /// Ends an open claim. What was lost stays out of reach for others while the resource says so:
    /// whoever has lost it may not know yet.
    pub(super) fn end(
        &mut self,
        turn: &mut Turn,
        no: ClaimNo,
        how: ClaimEnd,
        operator: Option<(&Arc<str>, &Arc<str>)>,
    ) {
        let granted = self.claims[&no].state.granted();
        let mut free_at = turn.now;
        match granted {
            None => self.leave_queues(no),
            Some(_) if how.is_loss() => free_at = turn.now + self.lock_delay(no),
            Some((_, since)) => self.note_length(no, turn.now.since(since)),
        }
        let keeps_others_out = free_at > turn.now;
        if granted.is_some() && !keeps_others_out {
            self.give_back(no);
        }
        let (by, reason) = operator.map_or_else(Default::default, |(by, reason)| {
            (by.clone(), reason.clone())
        });
        let ending = Arc::new(ClaimEnding {
            how,
            free_at,
            by,
            reason,
        });
        turn.out.records.resources.claims.push(ClaimRecord {
            no,
            at: turn.now,
            what: ClaimEvent::Ended(ending.clone()),
        });
        self.note_ended(no);
        let claim = self.claims.get_mut(&no).expect("it is open");
        claim.keeps_others_out = keeps_others_out;
        if !keeps_others_out {
            self.ended_bytes += claim.spec.bytes();
        }
        claim.state = ClaimState::Ended {
            granted,
            at: turn.now,
            ending,
        };
        self.ended.push_back((turn.now, no));
        self.ended_since_forgotten += 1;
        self.count_ended(turn.now);
        self.set_timer(turn.now, no);
        self.tell_change(turn, no);
    }

    /// The claim counts for nothing any more.
    pub(super) fn note_ended(&mut self, no: ClaimNo) {
        let spec = self.claims[&no].spec.clone();
        let owner = (spec.namespace.clone(), spec.owner.clone());
        if let Some(owned) = self.owners.get_mut(&owner) {
            owned.note_ended(no);
            if owned.is_empty() {
                self.owners.remove(&owner);
            }
        }
        match self.claims[&no].state.phase() {
            ClaimPhase::Held => self.counts.holds -= 1,
            ClaimPhase::Waiting | ClaimPhase::Ended => self.counts.waiting -= 1,
        }
        if let Some(open) = self.open.get_mut(&spec.namespace) {
            open.remove(&spec);
            if open.is_empty() {
                self.open.remove(&spec.namespace);
            }
        }
    }

    /// The longest delay of what it holds.
    fn lock_delay(&self, no: ClaimNo) -> Duration {
        let delays = self.claims[&no].keys().filter_map(|key| {
            let in_use = self.in_use.get(&key)?;
            let is_held = in_use.held.contains_key(&no);
            is_held.then(|| self.in_force(&key, in_use).lock_delay)
        });
        delays.max().unwrap_or_default()
    }

    /// The shortest limit of what it holds.
    pub(super) fn max_hold(&self, no: ClaimNo) -> Option<Duration> {
        let limits = self.claims[&no].keys().filter_map(|key| {
            let in_use = self.in_use.get(&key)?;
            let is_held = in_use.held.contains_key(&no);
            self.in_force(&key, in_use).max_hold.filter(|_| is_held)
        });
        limits.min()
    }

    pub(super) fn note_length(&mut self, no: ClaimNo, time: Duration) {
        for key in self.claims[&no].keys() {
            let in_use = self.in_use.get(&key);
            if in_use.is_some_and(|one| one.held.contains_key(&no))
                && let Some(definition) = self.definitions.of_mut(&key)
            {
                definition.held_for(time);
            }
        }
    }

    /// Forgets claims that ended before `since`, and those above the limits: a few more at a time
    /// than end.
    pub(super) fn forget(&mut self, since: Time, limits: &Limits) {
        let most = limits.slice as usize + std::mem::take(&mut self.ended_since_forgotten);
        for _ in 0..most {
            let is_old = self.ended.front().is_some_and(|(at, _)| *at < since);
            let is_room = self.ended.len() <= limits.ended_claims
                && self.ended_bytes <= limits.ended_claim_bytes;
            if !is_old && is_room {
                return;
            }
            let Some((at, no)) = self.ended.pop_front() else {
                return;
            };
            if self
                .claims
                .get(&no)
                .is_some_and(|claim| claim.keeps_others_out)
            {
                // The clock has gone on by less than its delay.
                self.ended.push_back((at, no));
                continue;
            }
            let Some(claim) = self.claims.remove(&no) else {
                continue;
            };
            self.ended_bytes -= claim.spec.bytes();
            if let Some(request) = claim.spec.request {
                let call = (claim.spec.namespace.clone(), request.id);
                if self.requests.get(&call) == Some(&no) {
                    self.requests.remove(&call);
                }
            }
        }
    }
}
