//! Keeps the journal small: creates the partitions to come and drops what is past its retention.
//!
//! It works beside the loop and never on the loop's connection; only the checkpoints that free old
//! rows are asked of the loop, like any command. Between two rounds, and on a replica that does not
//! own the shard, it sends nothing to the database.

use super::{commands::WeakCommandSender, ownership::replica_state::ReplicaState};
use crate::{
    core::{BatchNo, Command, Handle},
    journal::{JournalError, Maintenance},
};
use std::time::{Duration, Instant};

/// Interval between rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(3600);
/// Interval between checks, in memory, of the last batch number and of who owns the shard.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Checkpoints in one command.
const CHECKPOINTS_PER_COMMAND: u32 = 1_000;
/// Commands in one round.
const MAX_COMMANDS_PER_ROUND: u32 = 1_000;
/// How long the loop may take for one command.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a round every hour, and rotates the partitions of batch numbers whenever one is full. Never
/// returns.
pub(crate) async fn run(
    maintenance: Maintenance,
    state: ReplicaState,
    commands: WeakCommandSender,
) {
    let mut next_round = Instant::now();
    let mut next_batches = None;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let status = state.status();
        if !status.available {
            continue;
        }
        if let Some((last, _)) = status.last_batch {
            next_batches = turn_batches(&maintenance, last, next_batches).await;
        }
        if Instant::now() >= next_round {
            next_round = Instant::now() + ROUND_INTERVAL;
            if let Err(error) = round(&maintenance, &commands).await {
                tracing::warn!(
                    %error,
                    "maintenance of the journal was not finished; it continues in an hour"
                );
            }
        }
    }
}

/// Rotates the partitions of batch numbers when `due` is reached; returns when it is due again.
async fn turn_batches(
    maintenance: &Maintenance,
    last: BatchNo,
    due: Option<BatchNo>,
) -> Option<BatchNo> {
    let next = Maintenance::next_turn(last);
    if due.is_some_and(|due| last >= due)
        && let Err(error) = maintenance.turn_batches().await
    {
        tracing::warn!(
            %error,
            "partitions of batch numbers could not be rotated; it is tried again at once"
        );
        return due;
    }
    Some(next)
}

async fn round(
    maintenance: &Maintenance,
    commands: &WeakCommandSender,
) -> Result<(), JournalError> {
    maintenance.ensure_partitions().await?;
    for _ in 0..MAX_COMMANDS_PER_ROUND {
        let stale = maintenance
            .stale_checkpoints(CHECKPOINTS_PER_COMMAND)
            .await?;
        if stale.is_empty() || !checkpoint(commands, stale).await {
            break;
        }
    }
    maintenance.drop_days().await?;
    maintenance.turn_batches().await?;
    maintenance.drop_ended_schedulers().await?;
    maintenance.drop_old_replicas().await
}

/// Has the loop write checkpoints; returns whether they are durable.
async fn checkpoint(commands: &WeakCommandSender, handles: Vec<Handle>) -> bool {
    let reply = commands.call(Command::Checkpoint(handles));
    tokio::time::timeout(CHECKPOINT_TIMEOUT, reply)
        .await
        .is_ok_and(|reply| reply.is_ok())
}
