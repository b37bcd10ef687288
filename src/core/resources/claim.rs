//! A claim in memory, and when it has to be looked at.

use crate::core::{
    Caller, ClaimEnd, ClaimSpec, ClaimState, Reject, ResourceKey, ResourceReject, Ticket, Time,
    Token,
    command::may_go_on_for,
    model::steady::{Pace, Steady},
};
use std::{sync::Arc, time::Duration};

/// A claim.
#[derive(Debug)]
pub(crate) struct Claim {
    pub spec: Arc<ClaimSpec>,
    pub requested_at: Time,
    pub state: ClaimState,
    /// When it was requested, granted or renewed last.
    pub renewed_at: Steady,
    /// When its timer goes off; [`Steady::NEVER`]: it has none.
    pub wake: Steady,
    /// It has ended and its resources are not free yet.
    pub keeps_others_out: bool,
    /// Who is told of its next phase: the streams that show it.
    pub awaited_by: Vec<Ticket>,
}

impl Claim {
    /// One that waits. `renewed_at`: its lease counts from then on.
    pub(crate) fn new(spec: Arc<ClaimSpec>, requested_at: Time, renewed_at: Steady) -> Self {
        Claim {
            spec,
            requested_at,
            state: ClaimState::Waiting,
            renewed_at,
            wake: Steady::NEVER,
            keeps_others_out: false,
            awaited_by: Vec::new(),
        }
    }

    /// The resources it is about.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ResourceKey> + use<> {
        let spec = self.spec.clone();
        (0..spec.wants.len()).map(move |at| ResourceKey {
            namespace: spec.namespace.clone(),
            name: spec.wants[at].name.clone(),
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, ClaimState::Ended { .. })
    }

    /// Refused when it has ended.
    pub(crate) fn check_open(&self) -> Result<(), Reject> {
        match self.is_open() {
            true => Ok(()),
            false => {
                let ended = ResourceReject::ClaimEnded(Box::new(self.state.clone()));
                Err(Reject::Resource(ended))
            }
        }
    }

    /// Refused to other identities than the one that made it.
    pub(crate) fn check_is_of(&self, caller: &Caller) -> Result<(), Reject> {
        match may_go_on_for(&self.spec.caller, &caller.name) {
            true => Ok(()),
            false => Err(Reject::Resource(ResourceReject::ClaimOfAnother)),
        }
    }

    /// Refused when a task holds it: its attempt does, and gives it back.
    pub(crate) fn check_not_of_task(&self) -> Result<(), Reject> {
        match self.spec.task {
            None => Ok(()),
            Some(task) => Err(Reject::Resource(ResourceReject::ClaimOfTask(task))),
        }
    }

    /// Refused unless this is its token.
    pub(crate) fn check_token(&self, token: Option<Token>) -> Result<(), Reject> {
        let own = self.state.granted().map(|(token, _)| token);
        match own == token {
            true => Ok(()),
            false => Err(Reject::Resource(ResourceReject::WrongToken)),
        }
    }

    /// Whether it is kept by being renewed.
    pub(crate) fn has_lease(&self) -> bool {
        self.is_open() && self.spec.task.is_none()
    }

    /// Until when it is kept unless it is renewed. `since`: leases count from then at the earliest.
    fn lease_until(&self, since: Steady) -> Steady {
        self.renewed_at.max(since) + self.spec.lease
    }

    /// When it ends for want of a renewal, or of patience, and how. `max_hold`: of its resources.
    pub(crate) fn ends_at(
        &self,
        (pace, leases_since): (&Pace, Steady),
        max_hold: Option<Duration>,
    ) -> Option<(Time, ClaimEnd)> {
        if self.spec.task.is_some() {
            // It ends with the attempt.
            return None;
        }
        let lease = pace.time(self.lease_until(leases_since));
        let (longest, at_longest, without_lease) = match &self.state {
            ClaimState::Ended { .. } => return None,
            ClaimState::Waiting => {
                let until = self.spec.wait.map(|wait| self.requested_at + wait);
                (until, ClaimEnd::TimedOut, ClaimEnd::Abandoned)
            }
            ClaimState::Held { since, .. } => {
                let until = max_hold.map(|longest| *since + longest);
                (until, ClaimEnd::HeldTooLong, ClaimEnd::Expired)
            }
        };
        Some(match longest {
            Some(until) if until <= lease => (until, at_longest),
            _ => (lease, without_lease),
        })
    }

    /// When others may have what it held, if it keeps them out after its end.
    pub(crate) fn free_at(&self) -> Option<Time> {
        match &self.state {
            ClaimState::Ended { ending, .. } if self.keeps_others_out => Some(ending.free_at),
            _ => None,
        }
    }
}
