//! Reads the levels that a scrape shows from what GetStatus is made of: the counts of the core, the
//! state of the journal, the sessions of the executor. Between scrapes nothing is measured.

use crate::{
    coordinator::{CallError, Coordinator, ReplicaStatus},
    core::{CoreStatus, Counts, Time, Waiting, Work},
    executor::Executor,
    journal::JournalStatus,
    metrics::{Metrics, of_work},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, Semaphore},
    time::timeout,
};

/// How long a part of the service may take to answer.
const PART_TIMEOUT: Duration = Duration::from_secs(2);

/// Where levels are read.
pub(super) struct Scrape {
    pub metrics: Metrics,
    pub coordinator: Coordinator,
    pub executor: Executor,
    /// Places for connections of callers that are free, and how many there are.
    pub connections: (Arc<Semaphore>, usize),
    /// Name of this replica.
    pub replica: Arc<str>,
    /// Two scrapes at a time would show halves of each other's levels.
    pub one_at_a_time: Mutex<()>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Scrape {
    /// For how long the loop has not run.
    pub(super) fn loop_idle(&self) -> Option<Duration> {
        self.coordinator.replica_status().loop_idle
    }

    /// Sets every level to what it is now.
    pub(super) async fn read_levels(&self) {
        let _one = self.one_at_a_time.lock().await;
        let replica = self.coordinator.replica_status();
        self.replica(&replica);
        self.targets();
        let connections = &self.metrics.calls;
        let (free, all) = &self.connections;
        let open = all.saturating_sub(free.available_permits());
        connections.connections.set(open as f64);
        connections.max_connections.set(*all as f64);
        let reader = self.coordinator.journal().own_reader();
        let (core, journal) = tokio::join!(
            timeout(PART_TIMEOUT, self.coordinator.status()),
            timeout(PART_TIMEOUT, reader.status())
        );
        let now = self.coordinator.clock().now();
        let agent = &self.metrics.jobs.agent_started;
        let core_answered = match core {
            Ok(Ok(core)) => {
                self.core(&core, now);
                let started = !core.jobs.agent.is_stopped;
                agent.replace([([], f64::from(u8::from(started)))]);
                true
            }
            // Only the owner has counts.
            Ok(Err(CallError::NotOwner)) => {
                self.core(&CoreStatus::default(), now);
                agent.replace([]);
                true
            }
            _ => false,
        };
        let journal = journal.ok().and_then(Result::ok);
        self.journal(&replica, journal.as_ref());
        let answered = |yes: bool| f64::from(u8::from(yes));
        self.metrics.replica.reachable.replace([
            (["coordinator"], answered(core_answered)),
            (["journal"], answered(journal.is_some())),
        ]);
    }

    fn replica(&self, status: &ReplicaStatus) {
        let replica = &self.metrics.replica;
        let version = env!("CARGO_PKG_VERSION");
        replica.info.replace([([version, &*self.replica], 1.0)]);
        let owns = status.role.is_owner();
        replica.owner.set(f64::from(u8::from(owns)));
        replica.epoch.set(status.epoch.0 as f64);
        let left = status.lease_left.filter(|_| owns).unwrap_or_default();
        replica.lease_remaining.set(left.as_secs_f64());
        let seen = replica.takeovers.get();
        replica
            .takeovers
            .inc_by(status.takeovers.saturating_sub(seen));
        replica.clock_lead.set(self.coordinator.clock().offset());
        let journal = &self.metrics.journal;
        let age = status.last_batch.map_or(Duration::ZERO, |(_, age)| age);
        journal.last_durable_age.set(age.as_secs_f64());
        journal.unreadable.set(status.unreadable.len() as f64);
        let maintained = status.maintained.map(|age| ([], age.as_secs_f64()));
        journal.maintenance_age.replace(maintained);
    }

    fn journal(&self, replica: &ReplicaStatus, status: Option<&JournalStatus>) {
        let journal = &self.metrics.journal;
        let owns = replica.role.is_owner();
        let available = match owns {
            true => replica.available,
            false => status.is_some(),
        };
        journal.available.set(f64::from(u8::from(available)));
        let Some(status) = status else {
            return;
        };
        let today = status.now.day();
        let oldest = status.oldest_day.unwrap_or(today);
        journal.oldest_day_age.set(f64::from(today.0 - oldest.0));
        journal.retention.set(status.retention_days.into());
        let mut pending = BTreeMap::<&str, f64>::new();
        for fence in status.pending_fences.iter().filter(|_| owns) {
            *pending.entry(&fence.target).or_default() += 1.0;
        }
        let pending = pending.into_iter().map(|(target, count)| ([target], count));
        self.metrics.targets.pending_fences.replace(pending);
    }

    fn targets(&self) {
        let sessions = self.executor.executions();
        let of_target = |name: &Arc<str>| {
            let is = |work: &Work| matches!(work, Work::Sql { target } if target == name);
            let open = sessions.iter();
            open.filter(|row| row.backend_pid != 0 && is(&row.work))
                .count() as f64
        };
        let (targets, metrics) = (self.executor.targets(), &self.metrics.targets);
        let available = targets.iter().map(|target| {
            let yes = target.unavailable.is_none();
            ([&*target.name], f64::from(u8::from(yes)))
        });
        metrics.available.replace(available);
        let open = targets
            .iter()
            .map(|target| ([&*target.name], of_target(&target.name)));
        metrics.sessions.replace(open);
    }

    fn core(&self, core: &CoreStatus, now: Time) {
        let tasks = &self.metrics.tasks;
        tasks.schedulers.set(core.schedulers as f64);
        let oldest = core
            .oldest_queued
            .map_or(Duration::ZERO, |at| now.since(at));
        tasks.oldest_queued.set(oldest.as_secs_f64());
        tasks.unfinished.replace(states(core.counts));
        tasks.waiting.replace(reasons(core.waiting));
        let of = |which: fn(&(Work, u32, u32, u32)) -> u32| {
            let slots = core.slots.iter();
            slots.map(move |slots| (of_work(&slots.0), f64::from(which(slots))))
        };
        tasks.slots.total.replace(of(|(_, total, _, _)| *total));
        tasks.slots.busy.replace(of(|(_, _, busy, _)| *busy));
        tasks
            .slots
            .reserved
            .replace(of(|(_, _, _, reserved)| *reserved));
        let startable = core.startable.iter();
        let startable = startable.map(|(work, count)| (of_work(work), *count as f64));
        tasks.slots.startable.replace(startable);
        let lags = core.lags.iter();
        let lags = lags.map(|(work, lag)| (of_work(work), lag.as_secs_f64()));
        tasks.slots.fairness_lag.replace(lags);
        let paused = core.pauses.iter().map(|view| {
            let target = view.pause.target.as_deref();
            ([target.unwrap_or("")], 1.0)
        });
        self.metrics.targets.paused.replace(paused);
        let (held, waiting) = (core.claims.holds as f64, core.claims.waiting as f64);
        let claims = [(["held"], held), (["waiting"], waiting)];
        self.metrics.resources.claims.replace(claims);
        let (jobs, counts) = (&self.metrics.jobs, &core.jobs);
        jobs.jobs.replace([
            (["all"], counts.jobs as f64),
            (["paused"], counts.paused as f64),
            (["failing"], counts.failing as f64),
            (["late"], counts.late as f64),
            (["unreadable"], counts.unreadable as f64),
        ]);
        let (running, waiting) = (counts.running as f64, counts.waiting as f64);
        jobs.runs
            .replace([(["running"], running), (["waiting"], waiting)]);
    }
}

fn states(counts: Counts) -> [([&'static str; 1], f64); 4] {
    [
        (["blocked"], counts.blocked as f64),
        (["queued"], counts.queued as f64),
        (["running"], counts.running as f64),
        (["retrying"], counts.retrying as f64),
    ]
}

fn reasons(waiting: Waiting) -> [([&'static str; 1], f64); 7] {
    [
        (["slot"], waiting.slot as f64),
        (["max_parallelism"], waiting.max_parallelism as f64),
        (["order"], waiting.order as f64),
        (["not_before"], waiting.not_before as f64),
        (["retry"], waiting.retry as f64),
        (["paused"], waiting.paused as f64),
        (["halted"], waiting.halted as f64),
    ]
}
