//! Ownership as a state machine: standby → recovering → owner → deposed → standby, again and again in one process.
//!
//! A replica becomes the owner by a new epoch, learns what others may have been running, reads the journal, and tells the
//! loop. It stops being the owner when a look finds another epoch, or when it hands over; then the loop drops its core, and
//! executors report to the next owner. That the old owner writes nothing is the gate's doing, not this room's.

pub(crate) mod handover;
pub(crate) mod heartbeat;
pub(crate) mod lease_watch;
pub(crate) mod role;

use super::machine::Event;
use crate::hub::fencing::Fencing;
use crate::{
    clock::Clock,
    core::Epoch,
    journal::{
        self, Claim, Journal, JournalError, Member, Membership, Ownership, Replica, TakeOver,
    },
};
use heartbeat::{HeartbeatTask, HeartbeatTrigger};
use lease_watch::{LeaseTiming, LeaseWatch, Poll};
use role::{Health, Role};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Nobody has owned the shard before this one.
const FIRST: Epoch = Epoch(1);
/// Wait between attempts to recover, doubled up to the longest.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Asked of whoever keeps the ownership.
#[derive(Debug)]
pub(crate) enum OwnershipRequest {
    /// The core of this epoch is of no more use: begin another epoch, and read the journal again. When another one has begun by
    /// now, its core is on its way, and to begin yet another would make that one useless in its turn, and so on for ever.
    Rebuild(Epoch),
    /// Give the shard up; the answer is whom it was handed to.
    HandOver(oneshot::Sender<Option<Member>>),
}

/// Keeps the ownership of one process.
pub(crate) struct OwnershipTask {
    pub journal: Journal,
    /// Calls that are remembered.
    pub requests: usize,
    pub replica: Replica,
    pub clock: Clock,
    pub health: Health,
    pub roll: Fencing,
    pub pace: LeaseTiming,
    pub nudge: HeartbeatTrigger,
    pub looks: watch::Receiver<Option<Poll>>,
    pub membership: watch::Sender<Membership>,
    pub wishes: mpsc::Receiver<OwnershipRequest>,
    pub events: mpsc::Sender<Event>,
}

/// Why an ownership ended.
enum Lost {
    /// Another replica has it, or it was handed over.
    Deposed,
    /// Nobody asks any more.
    Stopped,
}

impl OwnershipTask {
    /// Begins to beat, and to own the shard whenever it may.
    pub(super) fn start(self, looks: watch::Sender<Option<Poll>>) {
        let beating = HeartbeatTask {
            heart: self.journal.heart(self.replica.clone(), self.pace.lease),
            pace: self.pace,
            clock: self.clock.clone(),
            health: self.health.clone(),
            nudge: self.nudge.clone(),
            looks,
            membership: self.membership.clone(),
        };
        tokio::spawn(beating.keep());
        tokio::spawn(self.keep());
    }

    /// Owns the shard whenever it may, until the loop ends.
    async fn keep(mut self) {
        let mut claim = Claim::Start;
        loop {
            if let Some(owned) = self.take_over(claim).await {
                match self.own(owned).await {
                    Lost::Deposed => self.tell_of_the_new_owner(),
                    Lost::Stopped => return,
                }
            }
            self.step_down().await;
            match self.stand_by().await {
                Some(next) => claim = next,
                None => return,
            }
        }
    }

    /// Watches the owner until the shard may be taken over; `None`: nobody asks any more.
    async fn stand_by(&mut self) -> Option<Claim> {
        let mut vigil = LeaseWatch::new(self.pace);
        loop {
            tokio::select! {
                looked = self.looks.changed() => looked.ok()?,
                wish = self.wishes.recv() => self.decline(wish?),
                () = self.events.closed() => return None,
            }
            let look = self.looks.borrow_and_update().clone();
            if let Some(look) = look
                && vigil.allows(self.replica.id, &look)
                && !self.nudge.is_stopping()
            {
                return Some(Claim::Successor);
            }
        }
    }

    /// Begins a new epoch if the claim holds. A failure is as good as a claim that does not hold: it is looked at again.
    async fn take_over(&mut self, claim: Claim) -> Option<Ownership> {
        match self.claim(claim).await {
            Ok(TakeOver::Owned(owned)) => Some(owned),
            Ok(TakeOver::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(%error, "cannot take the shard over");
                self.health.trouble(error.to_string());
                tokio::time::sleep(RETRY_MIN).await;
                None
            }
        }
    }

    async fn claim(&self, claim: Claim) -> Result<TakeOver, JournalError> {
        let asked = std::time::Instant::now();
        let taken = self
            .journal
            .take_over(&self.replica, claim, self.pace.lease)
            .await?;
        if let TakeOver::Owned(owned) = &taken {
            self.clock.set(owned.now);
            self.health.taken(owned.epoch, asked + self.pace.lease);
            self.membership.send_modify(|known| {
                (known.epoch, known.owner) = (owned.epoch, Some(self.replica.id))
            });
        }
        Ok(taken)
    }

    /// Owns the shard until it is another's.
    async fn own(&mut self, mut owned: Ownership) -> Lost {
        // What was wished of an earlier ownership is over with it.
        while let Ok(wish) = self.wishes.try_recv() {
            self.decline(wish);
        }
        let mut anew = owned.epoch > FIRST;
        loop {
            let Some(event) = self.recover(owned, anew).await else {
                return Lost::Deposed;
            };
            if self.events.send(event).await.is_err() {
                return Lost::Stopped;
            }
            self.health.stands(Role::OwnershipTask);
            // What executors were given under our last epoch they go on with.
            anew = false;
            match self.serve(owned.epoch).await {
                Ok(again) => owned = again,
                Err(lost) => return lost,
            }
        }
    }

    /// Reads the journal until it succeeds; `None`: the shard has become another's meanwhile. `anew`: others have owned it
    /// since we did, if we ever did.
    async fn recover(&mut self, owned: Ownership, anew: bool) -> Option<Event> {
        self.health.stands(Role::Recovering);
        let mut pause = RETRY_MIN;
        loop {
            let (journal, roll, requests) =
                (self.journal.clone(), self.roll.clone(), self.requests);
            let reading = async {
                let window = if anew {
                    Some(roll.prepare().await?)
                } else {
                    None
                };
                Ok::<_, JournalError>((journal::recover(&journal, requests).await?, window))
            };
            tokio::select! {
                read = reading => match read {
                    Ok((schedulers, window)) => {
                        let Ownership { epoch, last_batch, .. } = owned;
                        tracing::info!(epoch = epoch.0, last_batch = last_batch.0, schedulers = schedulers.len(), "the shard is ours");
                        return Some(Event::Recovered { schedulers, epoch, last_batch, window });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the journal");
                        self.health.trouble(error.to_string());
                    }
                },
                () = deposed(&mut self.looks, owned.epoch) => return None,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Until the core is to be rebuilt under another epoch of ours, or the shard is lost.
    async fn serve(&mut self, epoch: Epoch) -> Result<Ownership, Lost> {
        loop {
            let wish = tokio::select! {
                () = deposed(&mut self.looks, epoch) => return Err(Lost::Deposed),
                () = self.events.closed() => return Err(Lost::Stopped),
                wish = self.wishes.recv() => wish,
            };
            match wish {
                None => return Err(Lost::Stopped),
                Some(OwnershipRequest::Rebuild(of)) if of != epoch => {}
                Some(OwnershipRequest::Rebuild(_)) => {
                    return self.begin_again(epoch).await.ok_or(Lost::Deposed);
                }
                Some(OwnershipRequest::HandOver(to)) => return self.hand_over(epoch, to).await,
            }
        }
    }

    /// Another epoch of ours; `None`: the shard is another's.
    async fn begin_again(&mut self, epoch: Epoch) -> Option<Ownership> {
        self.health.stands(Role::Recovering);
        let mut pause = RETRY_MIN;
        loop {
            match self.claim(Claim::Owner(epoch)).await {
                Ok(TakeOver::Owned(owned)) => return Some(owned),
                // Another's, or its row is locked by what we have just sent: the next look tells.
                Ok(TakeOver::Wait(_)) => self.nudge.look(),
                Err(error) => {
                    tracing::warn!(%error, "cannot begin another epoch");
                    self.health.trouble(error.to_string());
                }
            }
            tokio::select! {
                () = deposed(&mut self.looks, epoch) => return None,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
            }
        }
    }

    /// Gives the shard to the youngest replica that is ready, or to nobody.
    async fn hand_over(
        &mut self,
        epoch: Epoch,
        to: oneshot::Sender<Option<Member>>,
    ) -> Result<Ownership, Lost> {
        let successor = successor(&self.membership.borrow(), &self.replica);
        let given = self
            .journal
            .hand_over(
                &self.replica,
                epoch,
                successor.as_ref().map(|member| member.id),
            )
            .await;
        if let Err(error) = given {
            tracing::warn!(%error, "the shard could not be handed over; it is taken over when the lease ends");
        }
        tracing::info!(
            to = successor.as_ref().map_or("nobody", |member| &member.name),
            "the shard is handed over"
        );
        self.health.stands(Role::Standby);
        self.membership
            .send_modify(|known| known.owner = successor.as_ref().map(|member| member.id));
        let _ = to.send(successor);
        Err(Lost::Deposed)
    }

    /// Lets go of everything that was the owner's.
    async fn step_down(&mut self) {
        self.health.stands(Role::Standby);
        let _ = self.events.send(Event::Deposed).await;
        self.nudge.look();
    }

    fn tell_of_the_new_owner(&self) {
        // Who is told to go has given it away, and has said so.
        if self.nudge.is_stopping() {
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
            "the shard is not ours any more"
        );
        if name == &*self.replica.name {
            tracing::error!(
                name,
                "another process runs under the name of this replica: give each its own (--replica-name)"
            );
        }
    }

    fn decline(&self, wish: OwnershipRequest) {
        if let OwnershipRequest::HandOver(to) = wish {
            let _ = to.send(None);
        }
    }
}

/// Resolves when a look finds that the shard has another epoch than ours.
async fn deposed(looks: &mut watch::Receiver<Option<Poll>>, epoch: Epoch) {
    let ours = |look: &Poll| {
        let beat = &look.beat;
        look.epoch != Some(epoch) || beat.lease_until.is_some() || beat.handover_to.is_some()
    };
    while looks.borrow_and_update().as_ref().is_none_or(ours) {
        if looks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The youngest replica that could own the shard at once.
pub(crate) fn successor(membership: &Membership, me: &Replica) -> Option<Member> {
    let ready =
        |member: &&Member| member.id != me.id && member.address.is_some() && !member.stopping;
    membership.members.iter().find(ready).cloned()
}
