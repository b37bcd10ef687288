//! Keeps the journal young: partitions to come are made, and what is over its retention goes. It works beside the loop and
//! never on its connection; only the new checkpoints that let go of old rows are asked of the loop, like any command.
//!
//! Nothing is sent to the database between two rounds, nor by a replica that does not own the shard.

use super::{commands::Asked, ownership::role::Health};
use crate::{
    core::{BatchNo, Command, Handle},
    journal::{JournalError, Maintenance},
};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// How often days are looked at.
const ROUND: Duration = Duration::from_secs(3600);
/// How often the number of the last batch, and whether the shard is ours, is looked at, in memory.
const TICK: Duration = Duration::from_secs(1);
/// Checkpoints asked for at once.
const CHECKPOINTS: u32 = 1_000;
/// How often they are asked for in one round.
const CALLS: u32 = 1_000;
/// The longest wait for them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does everything every hour, and turns the batch numbers whenever a range of them is full, for ever.
pub(crate) async fn keep(upkeep: Maintenance, health: Health, commands: mpsc::WeakSender<Asked>) {
    let mut next_round = Instant::now();
    let mut next_batches = None;
    loop {
        tokio::time::sleep(TICK).await;
        let health = health.read();
        if !health.available {
            continue;
        }
        if let Some((last, _)) = health.last_batch {
            next_batches = turn_batches(&upkeep, last, next_batches).await;
        }
        if Instant::now() >= next_round {
            next_round = Instant::now() + ROUND;
            if let Err(error) = round(&upkeep, &commands).await {
                tracing::warn!(%error, "housekeeping of the journal was not finished; it goes on in an hour");
            }
        }
    }
}

/// Makes and drops batch numbers when it is time; says when it is time again.
async fn turn_batches(
    upkeep: &Maintenance,
    last: BatchNo,
    due: Option<BatchNo>,
) -> Option<BatchNo> {
    let next = Maintenance::next_turn(last);
    if due.is_some_and(|due| last >= due)
        && let Err(error) = upkeep.turn_batches().await
    {
        tracing::warn!(%error, "batch numbers could not be turned; it is tried again at once");
        return due;
    }
    Some(next)
}

async fn round(
    upkeep: &Maintenance,
    commands: &mpsc::WeakSender<Asked>,
) -> Result<(), JournalError> {
    upkeep.ensure_partitions().await?;
    for _ in 0..CALLS {
        let stale = upkeep.stale_checkpoints(CHECKPOINTS).await?;
        if stale.is_empty() || !checkpoint(commands, stale).await {
            break;
        }
    }
    upkeep.drop_days().await?;
    upkeep.turn_batches().await?;
    upkeep.drop_ended_schedulers().await?;
    upkeep.drop_old_replicas().await
}

/// Has the loop write checkpoints; says whether they are durable.
async fn checkpoint(commands: &mpsc::WeakSender<Asked>, handles: Vec<Handle>) -> bool {
    let (reply, answer) = oneshot::channel();
    let asked = Asked {
        command: Command::Checkpoint(handles),
        reply,
        _place: None,
    };
    let Some(commands) = commands.upgrade() else {
        return false;
    };
    commands.try_send(asked).is_ok()
        && tokio::time::timeout(PATIENCE, answer)
            .await
            .is_ok_and(|answer| answer.is_ok())
}
