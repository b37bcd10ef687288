//! Claims to the shard, and what this process knows from then on if one is granted.

use super::{OwnershipTask, RETRY_BACKOFF, standby::Standby};
use crate::{
    clock::uptime,
    journal::{Claim, JournalError, Ownership, TakeOver},
};

/// Attempts of a process that starts to own the shard at once.
const MAX_START_CLAIMS: u32 = 4;

impl OwnershipTask {
    /// Begins a new epoch if the claim holds. After a failure, as after a claim that does not hold,
    /// the lease is watched again: the next poll also says if only the answer got lost.
    pub(super) async fn take_over(
        &mut self,
        claim: Claim,
        standby: &mut Standby,
    ) -> Option<Ownership> {
        let mut failures = 0;
        loop {
            match self.claim(claim).await {
                Ok(TakeOver::Owned(owned)) => {
                    standby.granted();
                    return Some(owned);
                }
                Ok(TakeOver::Refused) => return None,
                Err(error) => {
                    standby.unsure();
                    tracing::warn!(%error, "cannot take the shard over");
                    self.state.set_error(error.to_string());
                }
            }
            tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
            failures += 1;
            // No poll will say that an earlier run of this replica owns the shard.
            if claim != Claim::Start || failures == MAX_START_CLAIMS {
                return None;
            }
        }
    }

    /// Another replica goes on with the journal: asks whether it has all that this one has seen
    /// durable, as nobody else knows of what is missing.
    pub(super) fn ask_for_lost_batches(&self) {
        // Nobody reads any more what one counts that is going down.
        let durable = self.state.last_durable();
        let Some(durable) = durable.filter(|_| !self.heartbeat.is_stopping()) else {
            return;
        };
        let (journal, state) = (self.journal.clone(), self.state.clone());
        tokio::spawn(async move {
            match journal.survived(durable).await {
                Ok(Some(survived)) => state.survived(durable.1, survived),
                Ok(None) => {}
                Err(error) => tracing::warn!(
                    %error,
                    "cannot ask whether the journal has all batches that this replica has seen durable"
                ),
            }
        });
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<TakeOver, JournalError> {
        let sent = uptime();
        let durable = self.state.last_durable();
        let taken = self
            .journal
            .take_over(&self.replica, claim, self.timing.lease, durable)
            .await?;
        if let TakeOver::Owned(owned) = &taken {
            self.clock.correct(owned.now, uptime().saturating_sub(sent));
            if let (Some((_, durable)), Some(survived)) = (durable, owned.survived) {
                self.state.survived(durable, survived);
            }
            self.state.taken_over(owned.epoch, sent + self.timing.lease);
            self.membership.send_modify(|known| {
                (known.epoch, known.owner) = (owned.epoch, Some(self.replica.id))
            });
        }
        Ok(taken)
    }
}
