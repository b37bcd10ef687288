//! Keeps the journal small: creates the partitions to come and drops what is past its retention.
//!
//! It works beside the loop and never on the loop's connection; only the checkpoints that free old
//! rows are asked of the loop, like any command. Between two rounds, and on a replica that does not
//! own the shard, it sends nothing to the database. No step keeps another from being done.

use super::{commands::WeakCommandSender, ownership::replica_state::ReplicaState};
use crate::{
    clock::Clock,
    core::{BatchNo, Command, Epoch, Handle, Reply},
    hub::Hub,
    journal::{Calendar, JournalError, Maintenance},
};
use std::time::{Duration, Instant};

/// Interval between rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(3600);
/// The same after a round of which a step failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// Interval between checks, in memory, of the last batch number and of who owns the shard.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The same of partitions of batch numbers that could not be dropped: somebody reads them.
const DROP_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Schedulers looked for at once whose checkpoints keep an old day.
const STALE_CHECKPOINTS: u32 = 1_000;
/// Checkpoints in one command, and so in one batch: each writes all its unfinished ranges.
const CHECKPOINTS_PER_COMMAND: usize = 16;
/// Searches for such schedulers in one round.
const MAX_SEARCHES_PER_ROUND: u32 = 1_000;
/// Interval between summaries of the rows that were written meanwhile.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// How long the loop may take for one command.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes and drops the partitions of batch numbers, whenever one is full and when an ownership
/// begins. A duty of its own that asks only who owns the shard: without partitions no batch becomes
/// durable, so it must not wait for the journal to be well. Never returns.
pub(crate) async fn turn_batches(maintenance: Maintenance, state: ReplicaState) {
    let (mut make_at, mut drop_at, mut known) = (BatchNo(0), BatchNo(0), None);
    let mut drop_after = Instant::now();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let (status, epoch) = (state.status(), state.owned_epoch());
        let last = status.last_batch.map_or(BatchNo(0), |(last, _)| last);
        // An ownership may follow on another within an interval.
        if epoch != known {
            (make_at, drop_at, known) = (BatchNo(0), BatchNo(0), epoch);
        }
        if !status.role.is_owner() {
            continue;
        }
        if last >= make_at {
            match maintenance.make_batches().await {
                Ok(()) => make_at = Maintenance::next_turn(last),
                Err(error) => tracing::warn!(
                    %error,
                    "partitions of batch numbers could not be made; it is tried again at once"
                ),
            }
        }
        if last >= drop_at && Instant::now() >= drop_after {
            match maintenance.drop_batches().await {
                Ok(()) => drop_at = Maintenance::next_turn(last),
                Err(error) => {
                    drop_after = Instant::now() + DROP_RETRY_INTERVAL;
                    tracing::warn!(
                        %error,
                        "old partitions of batch numbers could not be dropped; it is tried again \
                         in a minute"
                    );
                }
            }
        }
    }
}

/// What a round of the owner needs.
pub(crate) struct MaintenanceTask {
    pub maintenance: Maintenance,
    pub state: ReplicaState,
    pub clock: Clock,
    pub commands: WeakCommandSender,
    pub hub: Hub,
}

impl MaintenanceTask {
    /// Runs a round every hour. Never returns.
    pub(crate) async fn run(self) {
        let mut next_round = Instant::now();
        let mut summarized = (BatchNo(0), Instant::now());
        // When this process last recorded that it lives, if it has owned the shard since.
        let mut lived: Option<(Epoch, Instant)> = None;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let status = self.state.status();
            let last = status.last_batch.map_or(BatchNo(0), |(last, _)| last);
            if status.available && last > summarized.0 && summarized.1.elapsed() >= SUMMARY_INTERVAL
            {
                let day = self.clock.now().day();
                let summary = self.maintenance.summarize_times(day).await;
                done("times were not summarized", summary);
                summarized = (last, Instant::now());
            }
            // Also while nothing can be written: a disk may be full of what is over.
            if status.role.is_owner() && Instant::now() >= next_round {
                let whole = self.round(&mut lived).await;
                if whole {
                    self.state.maintained();
                }
                let wait = if whole {
                    ROUND_INTERVAL
                } else {
                    RETRY_INTERVAL
                };
                next_round = Instant::now() + wait;
            }
        }
    }

    /// Takes every step, whatever became of the others; returns whether all were done.
    async fn round(&self, lived: &mut Option<(Epoch, Instant)>) -> bool {
        let (maintenance, now) = (&self.maintenance, self.clock.now());
        let days = maintenance.ensure_partitions(Some(now.day())).await;
        let mut whole = done("days were not made", days);
        let at = Instant::now();
        // The time of others is not ours: they record it themselves.
        let owner_since = self.state.owner_since();
        let observed = lived
            .filter(|(ownership, _)| Some(*ownership) == owner_since)
            .map(|(_, since)| at.duration_since(since));
        match maintenance.live(now, observed).await {
            Ok(calendar) => {
                *lived = owner_since.map(|ownership| (ownership, at));
                whole &= self.drop_what_is_over(&calendar).await;
            }
            Err(error) => whole &= done::<()>("it is not known which days are over", Err(error)),
        }
        let replicas = maintenance.drop_old_replicas().await;
        done("runs of servers were not forgotten", replicas) && whole
    }

    async fn drop_what_is_over(&self, calendar: &Calendar) -> bool {
        let checkpoints = self.renew_checkpoints(calendar).await;
        let days = self.maintenance.drop_days(calendar).await;
        let ended = self.maintenance.drop_ended_schedulers(calendar).await;
        let claims = self.maintenance.drop_ended_claims(calendar).await;
        let resources = self.maintenance.drop_deleted_resources(calendar).await;
        let runs = self.maintenance.drop_old_job_runs(calendar).await;
        let run_claims = self.maintenance.drop_old_run_claims(calendar).await;
        let jobs = self.maintenance.drop_deleted_jobs(calendar).await;
        let audit = self.maintenance.drop_audit_days(calendar).await;
        let steps = [
            done("old days of the audit were not dropped", audit),
            done("checkpoints were not renewed", checkpoints),
            done("old days were not dropped", days),
            done("ended schedulers were not forgotten", ended),
            done("ended claims were not forgotten", claims),
            done("deleted resources were not forgotten", resources),
            done("old runs of jobs were not forgotten", runs),
            done("old claims of runs were not forgotten", run_claims),
            done("deleted jobs were not forgotten", jobs),
        ];
        let before = self.maintenance.retained_since(calendar);
        self.hub.prune_markers(before).await;
        steps.into_iter().all(|step| step)
    }

    /// Has the loop write the checkpoints anew that keep an old day. Those of schedulers that it
    /// cannot read stay, and so does their day.
    async fn renew_checkpoints(&self, calendar: &Calendar) -> Result<(), JournalError> {
        let unreadable = self.state.status().unreadable;
        let unreadable: Vec<Handle> = unreadable.iter().map(|one| one.handle).collect();
        let mut last = Vec::new();
        for _ in 0..MAX_SEARCHES_PER_ROUND {
            let mut stale = self
                .maintenance
                .stale_checkpoints(calendar, &unreadable, STALE_CHECKPOINTS)
                .await?;
            stale.sort_unstable();
            let mut some = false;
            for handles in stale.chunks(CHECKPOINTS_PER_COMMAND) {
                some |= self.checkpoint(handles.to_vec()).await;
            }
            if !some || stale == last {
                break;
            }
            last = stale;
        }
        Ok(())
    }

    /// Has the loop write checkpoints; returns whether they are durable.
    async fn checkpoint(&self, handles: Vec<Handle>) -> bool {
        let reply = self.commands.call(Command::Checkpoint(handles));
        let reply = tokio::time::timeout(CHECKPOINT_TIMEOUT, reply).await;
        matches!(reply, Ok(Ok(reply)) if !matches!(reply, Reply::Rejected(_)))
    }
}

fn done<T>(failure: &str, step: Result<T, JournalError>) -> bool {
    if let Err(error) = &step {
        tracing::warn!(%error, "{failure}: maintenance of the journal is tried again in minutes");
    }
    step.is_ok()
}
