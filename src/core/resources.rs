//! Resources: who holds them, who waits, and who is next.
//!
//! A claim takes the next number and stands in the queues of all its resources. It is granted as a
//! whole, as soon as no earlier claim of any of its queues would have to wait for it: so nobody
//! starves, and claims on several resources cannot block each other. A claim is kept by being
//! renewed, waiting or held, which is in memory alone; every other change is a record. After a
//! takeover or an outage every open claim has a whole lease before it.
//!
//! What a verb costs does not depend on how many wait, how many resources a pattern has, or how
//! many claims are held: queues are ordered maps, timers are set once a claim and looked at when
//! they go off.

mod acquire;
mod checkpoint;
mod circle;
mod claim;
mod claim_queue;
mod copied;
mod define;
mod definitions;
pub(crate) mod digest;
mod end;
mod grant;
mod in_use;
mod missing;
mod open_claims;
mod owned;
mod parked_lines;
mod passing;
mod ready_lines;
mod refill;
mod restore;
mod task_blockers;
mod task_holds;
pub(crate) mod task_lines;
mod timers;
mod view;
mod watch;

use super::{
    Caller, ClaimCounts, ClaimNo, Namespace, Proof, Reject, Reply, ResourceKey, ResourceReject,
    ResourceReply, ResourceVerb, TaskId, Ticket, Time, Token, Turn,
    model::{
        limits::Limits,
        steady::{Pace, Steady},
    },
};
use claim::Claim;
use definitions::Definitions;
use in_use::InUse;
use open_claims::OpenClaims;
use owned::Owned;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use task_lines::TaskLines;
use uuid::Uuid;
use watch::Watches;

/// Streams that are told of a claim's next phase: of one call that was made again while connections
/// seemed alive, for instance.
const MAX_AWAITING: usize = 4;

/// The resources of one shard.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    definitions: Definitions,
    /// Those that are held or waited for.
    in_use: BTreeMap<ResourceKey, InUse>,
    /// Open claims, those whose resources are not free yet, and those remembered.
    claims: BTreeMap<ClaimNo, Claim>,
    /// Remembered claims by the time of their end.
    ended: VecDeque<(Time, ClaimNo)>,
    /// Bytes of what these say, but for those that keep others out and cannot be forgotten yet.
    ended_bytes: usize,
    /// Claims by the request ids of their calls.
    requests: BTreeMap<(Namespace, Uuid), ClaimNo>,
    /// Of those who say who they are, while they have open claims.
    owners: BTreeMap<(Namespace, Arc<str>), Owned>,
    /// Open claims by namespace.
    open: BTreeMap<Namespace, OpenClaims>,
    counts: ClaimCounts,
    /// The last number given; `recorded`: the last one on record.
    last: ClaimNo,
    recorded: ClaimNo,
    token: Token,
    /// When to look at a claim: at most one entry each.
    timers: BTreeSet<(Steady, ClaimNo)>,
    /// When to look at a resource whose permits come back by time: at most one entry each.
    refills: BTreeSet<(Time, ResourceKey)>,
    /// The time of the present turn.
    now: Time,
    /// Resources of which somebody may be granted something.
    changed: BTreeSet<ResourceKey>,
    /// Definitions that what is in use has not followed yet, each with the name it was last done
    /// for.
    redefined: VecDeque<(ResourceKey, ResourceKey)>,
    /// How time passes, by which leases count.
    pace: Pace,
    /// Leases count from then at the earliest.
    leases_since: Steady,
    /// Callers cannot reach the service, so that nothing ends for not being renewed.
    in_outage: bool,
    /// Claims that have ended since some were forgotten.
    ended_since_forgotten: usize,
    /// Tasks that wait, and the claims of those that run.
    tasks: TaskLines,
    holders: BTreeMap<TaskId, ClaimNo>,
    /// They are as the journal has them, and nobody has looked at whose attempts are over.
    restored: bool,
    /// Claims that have ended since the last checkpoint.
    ended_since_checkpoint: usize,
    /// When to write one, for so few ended claims.
    checkpoint_due: Option<Time>,
    /// Who follows which of them.
    watches: Watches,
}

/// What a verb leads to: an answer now or, for `Await`, later.
type Answered = Result<Option<ResourceReply>, Reject>;

impl Resources {
    /// How many claims are open.
    pub(crate) fn counts(&self) -> ClaimCounts {
        self.counts
    }

    /// Decides one verb. `None`: it is answered later, under its ticket.
    pub(crate) fn decide(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        ticket: Option<Ticket>,
        caller: &Caller,
        verb: &ResourceVerb,
    ) -> Option<Reply> {
        self.now = turn.now;
        let answered = self.answer(turn, limits, ticket, caller, verb);
        match answered {
            Ok(reply) => reply.map(|reply| Reply::Resource(Box::new(reply))),
            Err(reject) => Some(Reply::Rejected(reject)),
        }
    }

    fn answer(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        ticket: Option<Ticket>,
        caller: &Caller,
        verb: &ResourceVerb,
    ) -> Answered {
        let reply = match verb {
            ResourceVerb::Create { name, settings } => {
                self.create(turn, limits, caller, name, settings)?
            }
            ResourceVerb::Update {
                name,
                settings,
                fields,
            } => self.update(turn, limits, caller, name, (settings, fields))?,
            ResourceVerb::Delete(name) => self.delete(turn, caller, name)?,
            ResourceVerb::Get { name, limit } => {
                ResourceReply::Resource(self.resource(caller, name, *limit)?, false)
            }
            ResourceVerb::List { after, limit } => self.list(caller, after, *limit),
            ResourceVerb::Acquire { spec, if_free } => {
                self.acquire(turn, limits, spec, *if_free)?
            }
            ResourceVerb::Await { claim, phase } => {
                let known = self.claim_of(caller, *claim)?;
                if known.state.phase() == *phase {
                    return Ok(self.wait_for_change(turn, *claim, ticket));
                }
                ResourceReply::Claim(self.claim_view(*claim), false)
            }
            ResourceVerb::Look(claim) => {
                self.claim_of(caller, *claim)?;
                ResourceReply::Claim(self.claim_view(*claim), false)
            }
            ResourceVerb::Watch { name, seen } => {
                return self.watch(turn.now, limits, ticket, caller, (name, *seen));
            }
            ResourceVerb::Renew { claim, proof } => self.renew(turn.now, caller, *claim, *proof)?,
            ResourceVerb::Release { claim, token } => {
                self.release(turn, limits, caller, *claim, *token)?
            }
            ResourceVerb::ForceRelease { claim, reason } => {
                self.force_release(turn, limits, caller, *claim, reason)?
            }
        };
        Ok(Some(reply))
    }

    /// The claim, if it is one of the caller's namespace. One that does not exist and one of
    /// another namespace are told apart by nobody.
    fn claim_of(&self, caller: &Caller, no: ClaimNo) -> Result<&Claim, Reject> {
        let known = self.claims.get(&no);
        known
            .filter(|claim| claim.spec.namespace == caller.namespace)
            .ok_or(Reject::Resource(ResourceReject::UnknownClaim))
    }

    /// Keeps a claim for another lease.
    fn renew(
        &mut self,
        now: Time,
        caller: &Caller,
        no: ClaimNo,
        proof: Proof,
    ) -> Result<ResourceReply, Reject> {
        let claim = self.claim_of(caller, no)?;
        claim.check_not_of_task()?;
        claim.check_is_of(caller)?;
        claim.check_open()?;
        if let Proof::Token(token) = proof {
            claim.check_token(token)?;
        }
        if let Some(claim) = self.claims.get_mut(&no) {
            claim.renewed_at = self.pace.steady(now);
        }
        Ok(ResourceReply::Claim(self.claim_view(no), true))
    }

    /// The answer is given when the claim's phase changes, or when too many others wait for that:
    /// then to the first of them, who may look now and then instead.
    fn wait_for_change(
        &mut self,
        turn: &mut Turn,
        no: ClaimNo,
        ticket: Option<Ticket>,
    ) -> Option<ResourceReply> {
        let claim = self.claims.get_mut(&no)?;
        claim.awaited_by.extend(ticket);
        if claim.awaited_by.len() > MAX_AWAITING {
            let first = claim.awaited_by.remove(0);
            let view = self.claim_view(no);
            turn.out.answer(first, ResourceReply::Claim(view, false));
        }
        None
    }

    /// Tells whoever waits for it, or follows its resources, that the claim is in another phase.
    fn tell_change(&mut self, turn: &mut Turn, no: ClaimNo) {
        self.note_change_of(no);
        let claim = self.claims.get_mut(&no);
        let awaited_by = claim.map(|claim| std::mem::take(&mut claim.awaited_by));
        for ticket in awaited_by.unwrap_or_default() {
            let view = self.claim_view(no);
            turn.out.answer(ticket, ResourceReply::Claim(view, true));
        }
    }
}
