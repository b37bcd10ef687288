//! How an owner reads the journal, and how one that cannot read it, or is going down, lets go: a
//! replica that may be able to is not kept waiting.

use super::{
    OwnershipRequest, OwnershipTask, RETRY_BACKOFF, deposed, logged_error::LoggedError, successor,
};
use crate::{
    coordinator::machine::Event,
    core::{Epoch, InDoubtWindow, RequestMemory, Time},
    journal::{self, JournalError, Ownership, Recovered},
};
use std::{pin::pin, time::Duration};

/// Failures in a row after which the shard is handed to another replica, if there is one.
const MAX_FAILURES: u32 = 5;
/// How long this replica then leaves the shard to others.
const DECLINE_TIME: Duration = Duration::from_secs(30);

/// What the journal holds, and what may run.
type Read = (Recovered, Option<InDoubtWindow>);

impl OwnershipTask {
    /// Reads the journal until it succeeds; `None`: the shard is another's, or was handed over
    /// because it cannot be read here, or because this replica is going down. `inherited`: others
    /// may have owned it since we did, if we ever did.
    pub(super) async fn recover(&mut self, owned: Ownership, inherited: bool) -> Option<Event> {
        let (mut failures, mut logged) = (0, LoggedError::default());
        loop {
            let now = self.clock.now();
            let memory = RequestMemory::inherited(now, owned.requests_since);
            match self.read(owned.epoch, memory.since(now), inherited).await? {
                Ok((recovered, window)) => {
                    return Some(self.recovered(owned, memory, recovered, window));
                }
                Err(error) => {
                    if logged.is_due(&error) {
                        tracing::warn!(%error, "cannot read the journal");
                    }
                    self.state.set_error(error.to_string());
                }
            }
            failures += 1;
            if failures >= MAX_FAILURES && self.let_go(owned.epoch).await {
                return None;
            }
            tokio::time::sleep(RETRY_BACKOFF.delay(failures - 1)).await;
        }
    }

    /// Reads the journal, with the calls that were accepted since then; `None`: the shard is
    /// another's by now, or was handed over because this replica is going down.
    async fn read(
        &mut self,
        epoch: Epoch,
        since: Time,
        inherited: bool,
    ) -> Option<Result<Read, JournalError>> {
        let (journal, hub, max_request_ids) =
            (self.journal.clone(), self.hub.clone(), self.max_request_ids);
        let reading = async {
            let window = match inherited {
                true => Some(hub.prepare().await?),
                false => None,
            };
            let recovered = journal::recover(&journal, max_request_ids, since).await?;
            Ok::<Read, JournalError>((recovered, window))
        };
        let mut reading = pin!(reading);
        loop {
            let request = tokio::select! {
                read = &mut reading => return Some(read),
                () = deposed(&mut self.polls, &self.membership, epoch) => return None,
                request = self.requests.recv() => request?,
            };
            // Another core is on its way already.
            if let OwnershipRequest::HandOver(to) = request {
                let _ = self.hand_over(epoch, to).await;
                return None;
            }
        }
    }

    fn recovered(
        &mut self,
        owned: Ownership,
        memory: RequestMemory,
        recovered: Recovered,
        window: Option<InDoubtWindow>,
    ) -> Event {
        let Ownership {
            epoch, last_batch, ..
        } = owned;
        let Recovered {
            schedulers,
            unreadable,
            unnoted,
            pauses,
            resources,
            jobs,
        } = recovered;
        for one in &unreadable {
            tracing::error!(
                handle = %one.handle,
                why = one.why,
                "this scheduler is set aside: a row of it makes no sense to this version; run the \
                 version that wrote it, or restore its rows from a backup"
            );
        }
        tracing::info!(
            epoch = epoch.0,
            last_batch = last_batch.0,
            schedulers = schedulers.len(),
            "this replica owns the shard"
        );
        self.state.set_recovered(memory, unreadable);
        self.unnoted.set(unnoted);
        Event::Recovered {
            schedulers,
            pauses,
            resources,
            jobs: Box::new(jobs),
            epoch,
            last_batch,
            memory,
            window,
        }
    }

    /// Hands the shard to a replica that may be able to read it; false: there is none, or the
    /// database does not take it.
    async fn let_go(&self, epoch: Epoch) -> bool {
        let Some(successor) = successor(&self.membership.borrow(), &self.replica) else {
            return false;
        };
        let given = self
            .journal
            .hand_over(&self.replica, epoch, Some(successor.id));
        match given.await {
            Ok(true) => {}
            // It is another's by now.
            Ok(false) => return true,
            Err(error) => {
                tracing::warn!(%error, "the shard could not be handed over");
                return false;
            }
        }
        tracing::error!(
            to = %successor.name,
            "this replica cannot read the journal and hands the shard over"
        );
        self.heartbeat.decline_for(DECLINE_TIME);
        self.membership
            .send_modify(|known| known.owner = Some(successor.id));
        true
    }
}
