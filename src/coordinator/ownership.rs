//! Ownership as a state machine: standby → recovering → owner → deposed → standby, again and again
//! in one process.
//!
//! A replica becomes the owner under a new epoch, learns what earlier owners may have been running,
//! reads the journal, and informs the loop. It stops being the owner when a poll finds another
//! epoch, when another replica says that it owns the shard by now, or when it hands over; then the
//! loop drops its core, and executors report to the next owner. It is not this file that keeps an
//! old owner from writing: the numbers of batches do.

pub(crate) mod heartbeat;
pub(crate) mod lease_watch;
mod liveness;
pub(crate) mod logged_error;
mod recovery;
pub(crate) mod replica_state;
pub(crate) mod requests;
pub(crate) mod role;
mod standby;
mod taking_over;
#[cfg(test)]
mod tests;
pub(crate) mod unnoted;

use super::machine::Event;
use crate::{
    backoff::Backoff,
    clock::Clock,
    core::Epoch,
    hub::{Hub, session::machine::Owner},
    journal::{Claim, Journal, Member, Membership, Ownership, Replica, TakeOver},
};
use heartbeat::{HeartbeatTask, HeartbeatTrigger};
use lease_watch::{LeaseTiming, Poll};
use liveness::Liveness;
use replica_state::ReplicaState;
use role::Role;
use standby::{NameClaim, Next, Standby};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use unnoted::Unnoted;

/// The epoch of the first ownership ever.
const FIRST_EPOCH: Epoch = Epoch(1);
/// Wait between attempts to take the shard over, or to recover.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// How long the database may take for a handover. Without one the lease expires by itself.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(4);

/// A request to the ownership task.
#[derive(Debug)]
pub(crate) enum OwnershipRequest {
    /// The core of this epoch is unusable: begin another epoch and read the journal again. Ignored
    /// when a newer epoch has begun; otherwise rebuilds would chase each other.
    Rebuild(Epoch),
    /// Give the shard up; the reply is who got it.
    HandOver(oneshot::Sender<Option<Member>>),
}

/// What the rest of the coordinator knows of the ownership, and how it asks for something. Cheap to
/// clone.
#[derive(Clone)]
pub(crate) struct OwnershipHandle {
    pub replica: Replica,
    pub membership: watch::Sender<Membership>,
    pub heartbeat: HeartbeatTrigger,
    pub requests: mpsc::Sender<OwnershipRequest>,
    pub gone_owners: mpsc::Sender<Owner>,
}

/// Manages the ownership of one process.
pub(crate) struct OwnershipTask {
    pub journal: Journal,
    /// Request ids that are remembered, at most.
    pub max_request_ids: usize,
    pub replica: Replica,
    pub clock: Clock,
    pub state: ReplicaState,
    pub hub: Hub,
    pub timing: LeaseTiming,
    pub heartbeat: HeartbeatTrigger,
    pub polls: watch::Receiver<Option<Poll>>,
    pub membership: watch::Sender<Membership>,
    pub requests: mpsc::Receiver<OwnershipRequest>,
    /// Schedulers that this owner has set aside and whose rows do not say so yet.
    pub unnoted: Unnoted,
    /// Owners at whose address nobody answers any more.
    pub gone_owners: mpsc::Receiver<Owner>,
    pub events: mpsc::Sender<Event>,
}

/// Why an ownership ended.
enum Lost {
    /// Another replica has it, or it was handed over.
    Deposed,
    /// The loop has ended.
    Stopped,
}

impl OwnershipTask {
    /// Starts the heartbeat, and owns the shard whenever it may.
    pub(super) fn start(self, polls: watch::Sender<Option<Poll>>) {
        let heartbeat = HeartbeatTask {
            heartbeat: self
                .journal
                .heartbeat(self.replica.clone(), self.timing.lease),
            replica: self.replica.clone(),
            namesake_warned: false,
            logged: Default::default(),
            timing: self.timing,
            liveness: Liveness::new(self.timing.lease),
            clock: self.clock.clone(),
            state: self.state.clone(),
            trigger: self.heartbeat.clone(),
            polls,
            membership: self.membership.clone(),
        };
        tokio::spawn(heartbeat.run());
        tokio::spawn(self.run());
    }

    /// Owns the shard whenever it may, until the loop ends.
    async fn run(mut self) {
        let mut claim = Claim::Start;
        let mut standby = Standby::new(self.timing);
        loop {
            match self.take_over(claim, &mut standby).await {
                // It is going down by now: nobody has to wait until its lease is over.
                Some(owned) if self.heartbeat.is_stopping() => {
                    let _ = self.hand_over(owned.epoch, oneshot::channel().0).await;
                    standby.unsure();
                    self.step_down().await;
                }
                Some(owned) => {
                    let lost = self.own(owned).await;
                    self.unnoted.give_up();
                    match lost {
                        Lost::Deposed => self.log_new_owner(),
                        Lost::Stopped => return,
                    }
                    standby.unsure();
                    self.step_down().await;
                    self.ask_for_lost_batches();
                }
                None if self.state.role() != Role::Standby => self.step_down().await,
                None => {
                    standby.pause_after(claim).await;
                    self.heartbeat.fire();
                }
            }
            match self.stand_by(&mut standby).await {
                Some(next) => claim = next,
                None => return,
            }
        }
    }

    /// Watches the owner until the shard may be taken over; `None`: the loop has ended.
    async fn stand_by(&mut self, standby: &mut Standby) -> Option<Claim> {
        loop {
            tokio::select! {
                polled = self.polls.changed() => polled.ok()?,
                Some(gone) = self.gone_owners.recv() => match self.claim_of(gone) {
                    Some(claim) => return Some(claim),
                    None => continue,
                },
                request = self.requests.recv() => {
                    match request? {
                        OwnershipRequest::HandOver(to) => {
                            if standby.keeps(to) {
                                self.heartbeat.fire();
                            }
                        }
                        OwnershipRequest::Rebuild(_) => {}
                    }
                    continue;
                }
                () = self.events.closed() => return None,
            }
            let Some(poll) = self.polls.borrow_and_update().clone() else {
                continue;
            };
            let declines = self.heartbeat.declines();
            if !declines && self.namesake_owns() {
                match standby.name_claim() {
                    NameClaim::After(pause) => {
                        tokio::time::sleep(pause).await;
                        return Some(Claim::Start);
                    }
                    NameClaim::GivenUp => self.warn_of_namesake(),
                    NameClaim::NoMore => {}
                }
            }
            match standby.next(self.replica.id, &poll, declines) {
                Next::Claim(claim) => return Some(claim),
                Next::HandOver(epoch) => {
                    let _ = self.hand_over(epoch, standby.who_asked()).await;
                }
                Next::Watch => {}
            }
        }
    }

    /// The claim to the shard of an owner at whose address nobody answers, if it still owns it.
    fn claim_of(&self, gone: Owner) -> Option<Claim> {
        let membership = self.membership.borrow();
        let owns = membership.owner == Some(gone.replica) && membership.epoch == gone.epoch;
        (owns && !self.heartbeat.declines()).then_some(Claim::Gone(gone.replica, gone.epoch))
    }

    /// Owns the shard until it is lost.
    async fn own(&mut self, mut owned: Ownership) -> Lost {
        // Requests to an earlier ownership ended with it.
        while let Ok(request) = self.requests.try_recv() {
            self.decline(request);
        }
        let mut inherited = owned.epoch > FIRST_EPOCH;
        loop {
            self.state.set_role(Role::Recovering);
            let Some(event) = self.recover(owned, inherited).await else {
                return Lost::Deposed;
            };
            if self.events.send(event).await.is_err() {
                return Lost::Stopped;
            }
            self.state.set_role(Role::Owner);
            // Executors continue with what they were given under our previous epoch.
            inherited = false;
            match self.serve(owned.epoch).await {
                Ok(again) => owned = again,
                Err(lost) => return lost,
            }
        }
    }

    /// Waits until the core is to be rebuilt under another epoch of ours, or the shard is lost.
    async fn serve(&mut self, epoch: Epoch) -> Result<Ownership, Lost> {
        loop {
            let request = tokio::select! {
                () = deposed(&mut self.polls, &self.membership, epoch) => return Err(Lost::Deposed),
                () = self.events.closed() => return Err(Lost::Stopped),
                request = self.requests.recv() => request,
                () = self.unnoted.note(&self.journal), if !self.unnoted.is_empty() => continue,
            };
            match request {
                None => return Err(Lost::Stopped),
                Some(OwnershipRequest::Rebuild(of)) if of != epoch => {}
                Some(OwnershipRequest::Rebuild(_)) => {
                    return self.begin_epoch_after(epoch).await.ok_or(Lost::Deposed);
                }
                Some(OwnershipRequest::HandOver(to)) => return self.hand_over(epoch, to).await,
            }
        }
    }

    /// Begins the next epoch while the shard is still ours; `None`: it has been lost.
    async fn begin_epoch_after(&mut self, epoch: Epoch) -> Option<Ownership> {
        self.state.set_role(Role::Recovering);
        let mut failures = 0;
        loop {
            match self.claim(Claim::Owner(epoch)).await {
                Ok(TakeOver::Owned(owned)) => return Some(owned),
                // The shard is lost, or our own last statement is in the way: the next poll tells
                // which.
                Ok(TakeOver::Refused) => self.heartbeat.fire(),
                Err(error) => {
                    tracing::warn!(%error, "cannot begin another epoch");
                    self.state.set_error(error.to_string());
                }
            }
            tokio::select! {
                () = deposed(&mut self.polls, &self.membership, epoch) => return None,
                () = tokio::time::sleep(RETRY_BACKOFF.delay(failures)) => failures += 1,
            }
        }
    }

    /// Hands the shard over to the youngest replica that is ready, or gives it up.
    async fn hand_over(
        &mut self,
        epoch: Epoch,
        to: oneshot::Sender<Option<Member>>,
    ) -> Result<Ownership, Lost> {
        let successor = successor(&self.membership.borrow(), &self.replica);
        let given = self.give_up(epoch, successor.as_ref()).await;
        self.state.set_role(Role::Standby);
        if given {
            match &successor {
                Some(member) => tracing::info!(to = &*member.name, "the shard is handed over"),
                None => tracing::info!("the shard is left: no other replica stands by"),
            }
            self.membership
                .send_modify(|known| known.owner = successor.as_ref().map(|member| member.id));
        }
        // Before the answer, with which a process that goes down may end.
        self.unnoted.give_up();
        let _ = to.send(successor.filter(|_| given));
        Err(Lost::Deposed)
    }

    /// Leaves the shard to `successor`, or to anybody, and tries again while there is time. Says
    /// whether the shard is known to be left.
    async fn give_up(&self, epoch: Epoch, successor: Option<&Member>) -> bool {
        // It may be done although the answer does not come.
        self.state.give_up_lease();
        let (begun, mut failures) = (Instant::now(), 0);
        loop {
            let to = successor.map(|member| member.id);
            match self.journal.hand_over(&self.replica, epoch, to).await {
                Ok(given) => return given,
                Err(error) => tracing::warn!(
                    %error,
                    "the shard could not be handed over; unless it still can, it is taken over \
                     when the lease expires"
                ),
            }
            tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
            failures += 1;
            if begun.elapsed() >= HANDOVER_TIMEOUT {
                return false;
            }
        }
    }

    /// Has the loop drop everything of the ownership.
    async fn step_down(&mut self) {
        self.state.set_role(Role::Standby);
        let _ = self.events.send(Event::Deposed).await;
        self.heartbeat.fire();
    }

    fn log_new_owner(&self) {
        // A replica that is going down has handed the shard over and logged it.
        if self.heartbeat.is_stopping() {
            return;
        }
        let membership = self.membership.borrow();
        let owner = membership
            .owning()
            .filter(|owner| owner.id != self.replica.id);
        let name = owner.map_or("nobody", |owner| &owner.name);
        tracing::warn!(
            owner = name,
            epoch = membership.epoch.0,
            "this replica does not own the shard any more"
        );
    }

    fn warn_of_namesake(&self) {
        tracing::error!(
            name = &*self.replica.name,
            "another process of this name owns the shard, and is waited for: give each server its \
             own name (--replica-name)"
        );
    }

    /// Whether another process owns the shard that was given the name of this one.
    fn namesake_owns(&self) -> bool {
        let membership = self.membership.borrow();
        let owner = membership.owning();
        owner.is_some_and(|it| it.id != self.replica.id && it.name == self.replica.name)
    }

    fn decline(&self, request: OwnershipRequest) {
        if let OwnershipRequest::HandOver(to) = request {
            let _ = to.send(None);
        }
    }
}

/// Resolves when the shard is lost: a poll of ours under this epoch could not renew its lease, as
/// the shard has another epoch, or was handed over and only the answer was lost; or a replica has
/// heard of a later epoch, which a database that was set back has forgotten, and would not follow
/// an owner of this one; or another replica is known to own it by now.
async fn deposed(
    polls: &mut watch::Receiver<Option<Poll>>,
    membership: &watch::Sender<Membership>,
    epoch: Epoch,
) {
    let ours = |poll: &Poll| {
        let reading = &poll.reading;
        poll.epoch != Some(epoch) || reading.lease_until.is_some() && reading.heard <= epoch
    };
    let lost = |poll: &Option<Poll>| poll.as_ref().is_some_and(|poll| !ours(poll));
    let mut known = membership.subscribe();
    let is_known = tokio::select! {
        polled = polls.wait_for(lost) => polled.is_ok(),
        known = known.wait_for(|known| known.epoch > epoch) => known.is_ok(),
    };
    if !is_known {
        std::future::pending::<()>().await;
    }
}

/// The youngest replica that could own the shard at once.
pub(crate) fn successor(membership: &Membership, me: &Replica) -> Option<Member> {
    let ready =
        |member: &&Member| member.id != me.id && member.address.is_some() && !member.stopping;
    membership.members.iter().find(ready).cloned()
}
