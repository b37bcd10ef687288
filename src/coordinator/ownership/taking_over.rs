//! Claims to the shard, and what this process knows from then on if one is granted.

use super::{
    OwnershipTask, RETRY_BACKOFF, heartbeat::HeartbeatTrigger, logged_error::LoggedError,
    replica_state::ReplicaState, standby::Standby,
};
use crate::{
    clock::uptime,
    core::{BatchNo, Epoch},
    journal::{Claim, JournalError, Membership, Ownership, TakeOver},
};
use tokio::sync::watch;

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
        let (state, membership) = (self.state.clone(), self.membership.clone());
        let (heartbeat, journal) = (self.heartbeat.clone(), self.journal.clone());
        let ask = move |durable| {
            let journal = journal.clone();
            async move { journal.survived(durable).await }
        };
        tokio::spawn(ask_until_answered(state, membership, heartbeat, ask));
    }

    pub(super) async fn claim(&self, claim: Claim) -> Result<TakeOver, JournalError> {
        let sent = uptime();
        let durable = self.state.last_durable();
        // Its owner may have told of it since the last heartbeat, and the database not know it.
        let heard = self.membership.borrow().epoch;
        let taken = self
            .journal
            .take_over(&self.replica, claim, self.timing.lease, durable, heard)
            .await?;
        if let TakeOver::Owned(owned) = &taken {
            self.clock.correct(owned.now, uptime().saturating_sub(sent));
            if let (Some(durable), Some(survived)) = (durable, owned.survived) {
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

/// Asks which of the batches survived that this replica has seen durable, until there is an answer
/// or nobody needs one: this replica owns the shard again, and its claim has found out, or it is
/// going down, and nobody reads any more what it counts.
async fn ask_until_answered<A>(
    state: ReplicaState,
    membership: watch::Sender<Membership>,
    heartbeat: HeartbeatTrigger,
    mut ask: impl FnMut((Epoch, BatchNo)) -> A,
) where
    A: Future<Output = Result<(Epoch, Option<BatchNo>), JournalError>>,
{
    // Only the database that the next owner goes on with says what is lost. One that does not know
    // of an owner after this one, or of the last one that this replica has heard of, is another
    // one: an older copy, or a standby that lags behind.
    let knows_of_next =
        |epoch: Epoch| epoch > state.status().epoch && epoch >= membership.borrow().epoch;
    let (mut failures, mut logged) = (0, LoggedError::default());
    while let Some(durable) = state.last_durable() {
        if state.role().is_owner() || heartbeat.is_stopping() {
            return;
        }
        match ask(durable).await {
            Ok((epoch, _)) if !knows_of_next(epoch) => {}
            Ok((_, None)) => return,
            Ok((_, Some(survived))) if state.survived(durable, survived) => return,
            // One more has become durable here meanwhile.
            Ok(_) => continue,
            Err(error) if logged.is_due(&error) => tracing::warn!(
                %error,
                "cannot ask yet whether the journal has all batches that this replica has seen \
                 durable"
            ),
            Err(_) => {}
        }
        tokio::time::sleep(RETRY_BACKOFF.delay(failures)).await;
        failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::ownership::role::Role;
    use std::{future::ready, time::Duration};

    const SEEN: (Epoch, BatchNo) = (Epoch(5), BatchNo(7));
    const NEXT: Epoch = Epoch(6);

    fn deposed() -> ReplicaState {
        let state = ReplicaState::default();
        state.taken_over(SEEN.0, uptime());
        state.batch_durable(SEEN.0, SEEN.1);
        state.set_role(Role::Standby);
        state
    }

    /// What this replica knows when it has heard of an owner of this epoch.
    fn heard_of(epoch: Epoch) -> watch::Sender<Membership> {
        watch::Sender::new(Membership {
            epoch,
            ..Membership::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_is_asked_for_until_the_database_answers() {
        let (state, heartbeat) = (deposed(), HeartbeatTrigger::default());
        let mut asked = Vec::new();
        let ask = |durable| {
            asked.push(durable);
            let answer = match asked.len() {
                1 | 2 => Err(JournalError::ReadOnly),
                3 => {
                    state.batch_durable(SEEN.0, BatchNo(8));
                    Ok((NEXT, Some(BatchNo(6))))
                }
                _ => Ok((NEXT, Some(BatchNo(6)))),
            };
            ready(answer)
        };
        ask_until_answered(state.clone(), heard_of(NEXT), heartbeat, ask).await;
        assert_eq!(asked, [SEEN, SEEN, SEEN, (SEEN.0, BatchNo(8))]);
        assert_eq!(state.take_lost_batches(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_does_not_know_the_owner_that_follows_is_not_believed() {
        let later = Epoch(NEXT.0 + 1);
        // The shard was handed over, and who has taken it is not heard of yet; or it is.
        for (heard, knows) in [(SEEN.0, NEXT), (later, later)] {
            let (state, heartbeat) = (deposed(), HeartbeatTrigger::default());
            let older = (SEEN.0.0 - 1..knows.0).map(Epoch);
            // Of copies without the batches of before, and of one that has them all.
            let all = [None, Some(BatchNo(2)), Some(SEEN.1)];
            let older = older.flat_map(|epoch| all.map(|last| (epoch, last)));
            let mut answers = older.chain([(knows, Some(BatchNo(6)))]);
            let ask = |_| ready(Ok(answers.next().expect("the last one is believed")));
            ask_until_answered(state.clone(), heard_of(heard), heartbeat, ask).await;
            assert_eq!(answers.next(), None);
            assert_eq!(state.take_lost_batches(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_owns_the_shard_again_or_goes_down_does_not_ask_on() {
        let ends: [fn(&ReplicaState, &HeartbeatTrigger); 2] = [
            |state, _| state.taken_over(NEXT, uptime() + Duration::from_secs(60)),
            |_, heartbeat| heartbeat.announce_stopping(),
        ];
        for end in ends {
            let (state, heartbeat) = (deposed(), HeartbeatTrigger::default());
            let mut asked = 0;
            let ask = |_| {
                asked += 1;
                end(&state, &heartbeat);
                ready(Err(JournalError::Timeout))
            };
            let known = heard_of(SEEN.0);
            ask_until_answered(state.clone(), known, heartbeat.clone(), ask).await;
            assert_eq!(asked, 1);
        }
    }
}
