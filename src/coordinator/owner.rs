//! Owning the shard: taking it over, reading the journal, and renewing the lease.

use super::{health::Health, machine::Event};
use crate::{
    clock::Clock,
    journal::{self, Claim, Journal, Membership, Replica, TakeOver},
};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How long an ownership lasts without a heartbeat.
const LEASE: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Wait between attempts to recover, doubled up to the longest.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Takes the shard over and reads the journal, until it succeeds; then tells the loop.
pub(super) async fn recover(journal: Journal, replica: Replica, clock: Clock, health: Health, events: mpsc::Sender<Event>) {
    let mut pause = RETRY_MIN;
    loop {
        match take_over_and_read(&journal, &replica, &clock, &health).await {
            Ok(Ok(event)) => {
                // Nobody listens only when the service is shutting down.
                let _ = events.send(event).await;
                return;
            }
            Ok(Err(wait)) => {
                health.trouble("another replica owns the shard");
                tracing::info!(wait_ms = wait.as_millis() as u64, "another replica owns the shard");
                tokio::time::sleep(wait).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take the shard over");
                health.trouble(error.to_string());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

async fn take_over_and_read(
    journal: &Journal,
    replica: &Replica,
    clock: &Clock,
    health: &Health,
) -> Result<Result<Event, Duration>, journal::JournalError> {
    let owned = match journal.take_over(replica, Claim::Start, LEASE).await? {
        TakeOver::Owned(owned) => owned,
        TakeOver::Wait(wait) => return Ok(Err(wait)),
    };
    clock.set(owned.now);
    let schedulers = journal::recover(journal).await?;
    tracing::info!(epoch = owned.epoch.0, last_batch = owned.last_batch.0, schedulers = schedulers.len(), "the shard is ours");
    health.owned(owned.epoch, owned.now);
    Ok(Ok(Event::Recovered { schedulers, epoch: owned.epoch, last_batch: owned.last_batch, window: None }))
}

/// Renews the lease and measures the time of the database, every second, for ever.
pub(super) async fn keep(
    journal: Journal,
    replica: Replica,
    clock: Clock,
    health: Health,
    membership: watch::Sender<Membership>,
) {
    let mut heart = journal.heart(replica, LEASE);
    let mut ticks = tokio::time::interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let epoch = health.read().epoch;
        let asked = Instant::now();
        match heart.beat(Some(epoch)).await {
            Ok(beat) => {
                clock.correct(beat.now, asked.elapsed());
                membership.send_if_modified(|known| std::mem::replace(known, beat.membership.clone()) != beat.membership);
            }
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed");
                health.trouble(error.to_string());
            }
        }
    }
}
