//! What may be asked about resources, and what is answered.

use super::{
    ClaimNo, ClaimPhase, ClaimSpec, ClaimState, Mode, ResourceField, ResourceImage,
    ResourceSettings, TaskId, Time, Token, Want,
};
use std::{sync::Arc, time::Duration};

/// What a caller asks about resources of its namespace.
#[derive(Clone, Debug)]
pub enum ResourceVerb {
    /// Define a resource, or a pattern of names.
    Create {
        /// Its name.
        name: Arc<str>,
        /// What it is like.
        settings: ResourceSettings,
    },
    /// Put these settings in place of the present ones, as `fields` says. Ends no hold.
    Update {
        /// Its name.
        name: Arc<str>,
        /// The new values.
        settings: ResourceSettings,
        /// Which of them to take.
        fields: Vec<ResourceField>,
    },
    /// Delete a resource that nobody uses.
    Delete(Arc<str>),
    /// A resource with its holds and its queue.
    Get {
        /// Its name: of a definition, or one that a pattern stands for.
        name: Arc<str>,
        /// Holds and waiting claims to name, each at most so many.
        limit: usize,
    },
    /// A page of definitions by name.
    List {
        /// Only later ones.
        after: Arc<str>,
        /// At most so many.
        limit: usize,
    },
    /// Claim resources.
    Acquire {
        /// Which, how and for whom.
        spec: Arc<ClaimSpec>,
        /// Only when it need not wait.
        if_free: bool,
    },
    /// Answered as soon as the claim is in another phase.
    Await {
        /// Which claim.
        claim: ClaimNo,
        /// The phase known.
        phase: ClaimPhase,
    },
    /// A claim as it is.
    Look(ClaimNo),
    /// A resource as it is, as soon as that is another revision.
    Watch {
        /// Its name, not that of a pattern.
        name: Arc<str>,
        /// The revision known; 0: none.
        seen: u64,
    },
    /// Keep a claim for another lease.
    Renew {
        /// Which claim.
        claim: ClaimNo,
        /// Who says so.
        proof: Proof,
    },
    /// Give a hold back, or withdraw a claim that waits.
    Release {
        /// Which claim.
        claim: ClaimNo,
        /// Its token; `None`: it waits.
        token: Option<Token>,
    },
    /// An operator ends a claim, waiting or held.
    ForceRelease {
        /// Which claim.
        claim: ClaimNo,
        /// Why, for the record.
        reason: Arc<str>,
    },
}

/// Who renews a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The stream it was made on, which the service itself sees alive.
    Stream,
    /// A caller, by the token of the hold; `None`: it waits.
    Token(Option<Token>),
}

/// The answer to a [`ResourceVerb`].
#[derive(Clone, Debug)]
pub enum ResourceReply {
    /// Create, Update, Delete, Get: the resource, and whether this call changed something.
    Resource(ResourceView, bool),
    /// List, and whether there are more.
    Resources(Vec<ResourceView>, bool),
    /// Acquire, Await, Look, Renew, Release, ForceRelease: the claim, and whether this call changed
    /// something.
    Claim(ClaimView, bool),
    /// Watch: the resource and its revision; `None`: nothing has changed for a while.
    Watched(Option<Arc<ResourceView>>, u64),
    /// Watch: it was deleted.
    Unwatched,
    /// Acquire, only if free: it is not. Who is in the way, some of them.
    NotFree(Vec<Holder>),
}

/// A definition, and how it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    /// Its definition.
    pub image: ResourceImage,
    /// What is asked about: its own name, or one that it stands for.
    pub name: Arc<str>,
    /// Names in use that it stands for: the following counts are theirs. A thousand of a pattern at
    /// most.
    pub names: usize,
    /// Permits in use.
    pub used: u64,
    /// Claims that hold it.
    pub holds: usize,
    /// Claims that wait for it.
    pub waiting: usize,
    /// Lines of tasks that wait for it: those of one scheduler and order that want the same are
    /// one.
    pub lines: usize,
    /// How long holds last, of late.
    pub usual_hold: Option<Duration>,
    /// Those that hold it, oldest first, as many as were asked for.
    pub holders: Vec<ClaimView>,
    /// Those that wait, first in line first, as many as were asked for.
    pub queue: Vec<ClaimView>,
    /// Tasks that wait, by scheduler, as many as were asked for.
    pub tasks: Vec<LineView>,
}

/// Tasks of one scheduler and order that want the same.
#[derive(Clone, Debug, PartialEq)]
pub struct LineView {
    /// The first of them.
    pub first: TaskId,
    /// How they use the resource.
    pub want: Want,
    /// Their place among claims.
    pub place: ClaimNo,
    /// What they want is kept for them.
    pub is_kept: bool,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// Its number.
    pub no: ClaimNo,
    /// What it asks for.
    pub spec: Arc<ClaimSpec>,
    /// Since when.
    pub requested_at: Time,
    /// Where it stands.
    pub state: ClaimState,
    /// Until when it is kept unless it is renewed; `None`: it has ended.
    pub lease_until: Option<Time>,
    /// Held: for how long it may be held yet, however often it is renewed; `None`: any time.
    pub hold_left: Option<Duration>,
    /// Waiting: its place in line, from 1, where that is longest. Else 0.
    pub position: u64,
    /// Waiting: when its turn may come, by how long holds last.
    pub expected_wait: Option<Duration>,
    /// Waiting: who is in the way, some of them.
    pub in_the_way: Vec<Holder>,
}

/// Open claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// Those that hold what they ask for.
    pub holds: usize,
    /// Those that wait.
    pub waiting: usize,
}

/// Somebody who keeps others from a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Of which resource.
    pub resource: Arc<str>,
    /// The claim.
    pub claim: ClaimNo,
    /// In the caller's words.
    pub owner: Arc<str>,
    /// The task that holds it, if one does.
    pub task: Option<TaskId>,
    /// How it is used.
    pub mode: Mode,
    /// Since when it is held.
    pub since: Time,
}

/// Why a verb had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceReject {
    /// Neither a resource nor a pattern has this name.
    UnknownResource(Arc<str>),
    /// A pattern defines it, and it is no definition itself.
    OfPattern {
        /// Which resource.
        name: Arc<str>,
        /// The pattern that defines it.
        pattern: Arc<str>,
    },
    /// It exists with other settings.
    ResourceExists,
    /// Somebody holds it, or waits for it.
    ResourceInUse {
        /// Claims that hold it.
        holds: usize,
        /// Claims that wait.
        waiting: usize,
    },
    /// More permits than the resource has.
    TooManyPermits {
        /// Which resource.
        name: Arc<str>,
        /// What defines it: itself, or a pattern.
        definition: Arc<str>,
        /// How many it has.
        capacity: u32,
    },
    /// A writer has no use for a resource whose permits come back by time.
    PermitsRefill(Arc<str>),
    /// The claim would wait for ever: everybody in this circle waits for the next, the last one for
    /// the first.
    CircularWait(Vec<Waits>),
    /// No such claim, or it ended long ago.
    UnknownClaim,
    /// The claim has another token, or none.
    WrongToken,
    /// A task holds it, and gives it back when its attempt is over.
    ClaimOfTask(TaskId),
    /// Another identity has made it.
    ClaimOfAnother,
    /// The claim has ended.
    ClaimEnded(Box<ClaimState>),
}

/// Somebody waits for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Who.
    pub owner: Arc<str>,
    /// For which resource.
    pub resource: Arc<str>,
}
