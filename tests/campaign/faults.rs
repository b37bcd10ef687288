//! Carries out a plan, and records of each fault how often it bit: what it cut, lost, withheld or
//! broke. A fault that did not bite proves nothing.

mod abuse;
mod callers;
mod clocks;
mod database_clocks;
mod half_open;
mod network;
mod postgres;
mod processes;

use crate::{
    fixture::Fixture,
    history::{Entry, now},
    load::Load,
    plan::{Fault, Kind, Plan},
    proxy::Purpose,
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// Tries of a fault before it counts as one that did not bite.
const MAX_TRIES: usize = 3;

/// Carries out faults.
#[derive(Clone)]
pub(crate) struct Faults {
    pub fixture: Arc<Fixture>,
    pub load: Arc<Load>,
}

/// The effect of a fault.
pub(crate) struct Bite {
    pub count: u64,
    /// Servers that may have lost their tasks.
    pub hurt: Vec<usize>,
    pub what: String,
}

impl Bite {
    pub(crate) fn new(count: u64, what: impl Into<String>) -> Bite {
        Bite {
            count,
            hurt: Vec::new(),
            what: what.into(),
        }
    }

    pub(crate) fn hurting(self, hurt: impl IntoIterator<Item = usize>) -> Bite {
        Bite {
            hurt: hurt.into_iter().collect(),
            ..self
        }
    }
}

impl Faults {
    /// Carries out a whole plan; returns when everything works again.
    pub(crate) async fn carry_out(&self, plan: &Plan) {
        let mut running = JoinSet::new();
        for fault in &plan.faults {
            tokio::time::sleep(fault.wait).await;
            let (this, fault) = (self.clone(), *fault);
            running.spawn(async move { this.one(fault).await });
            if !fault.together {
                while let Some(ended) = running.join_next().await {
                    ended.expect("a fault is carried out");
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("a fault is carried out");
        }
        self.fixture.revive_databases().await;
    }

    /// Carries out one fault, again if it did not bite: there may have been nothing to bite.
    async fn one(&self, fault: Fault) {
        let begun = now();
        let mut bite = self.bite(&fault).await;
        for _ in 1..MAX_TRIES {
            if bite.count > 0 {
                break;
            }
            let hurt = bite.hurt;
            bite = self.bite(&fault).await;
            bite.hurt.extend(hurt);
        }
        let what = format!("{fault}: {}", bite.what);
        println!("  {what} [{}]", bite.count);
        let (kind, bites, hurt) = (format!("{:?}", fault.kind), bite.count, bite.hurt);
        self.fixture.history.write(&Entry::Fault {
            kind,
            begun,
            ended: now(),
            bites,
            hurt,
            what,
        });
    }

    async fn bite(&self, fault: &Fault) -> Bite {
        let bite = self.bite_of(fault).await;
        match hurts_everyone(fault.kind, bite.count) {
            true => bite.hurting(0..self.fixture.servers.len()),
            false => bite,
        }
    }

    async fn bite_of(&self, fault: &Fault) -> Bite {
        match fault.kind {
            Kind::Kill => self.kill(fault).await,
            Kind::Pause => self.pause(fault).await,
            Kind::MemoryLimit => self.memory_limit(fault).await,
            Kind::ClockJumps => self.clock_jumps(fault).await,
            Kind::RollingRestart => self.rolling_restart(fault).await,
            Kind::PostgresCrash => self.postgres_crash(fault).await,
            Kind::BackendKilled => self.backend_killed(fault).await,
            Kind::SessionsEnded => self.sessions_ended(fault).await,
            Kind::DiskFull => self.disk_full(fault).await,
            Kind::NoConnections => self.no_connections(fault).await,
            Kind::AcknowledgementCut => self.cut(fault, true).await,
            Kind::StatementCut => self.cut(fault, false).await,
            Kind::CommitCut => self.cut_commits(fault).await,
            Kind::HalfOpen => self.half_open(fault).await,
            Kind::Latency => self.latency(fault).await,
            Kind::Partition => self.partition(fault).await,
            Kind::PeersApart => self.peers_apart(fault).await,
            Kind::CallersApart => self.callers_apart(fault).await,
            Kind::CallersVanish => self.callers_vanish(fault).await,
            Kind::Http2Abuse => self.http2_abuse(fault).await,
            Kind::SlowReaders => self.slow_readers(fault).await,
            Kind::ClockOfJournal => self.clock_of_journal(fault).await,
            Kind::ClockOfTarget => self.clock_of_target(fault).await,
            Kind::HalfOpenWriter => self.half_open_of(fault, Purpose::Writer).await,
            Kind::HalfOpenHeartbeat => self.half_open_of(fault, Purpose::Heartbeat).await,
            Kind::HalfOpenReader => self.half_open_of(fault, Purpose::Reader).await,
            Kind::HalfOpenTarget => self.half_open_of(fault, Purpose::Target).await,
            Kind::HalfOpenPeer => self.half_open_of(fault, Purpose::Peer).await,
            Kind::HalfOpenOwnership => self.half_open_takeover(fault, Purpose::Ownership).await,
            Kind::HalfOpenRecovery => self.half_open_takeover(fault, Purpose::Recovery).await,
            Kind::HalfOpenBatches => self.half_open_takeover(fault, Purpose::Batches).await,
            Kind::HalfOpenMaintenance => self.half_open_takeover(fault, Purpose::Maintenance).await,
            Kind::HalfOpenCallers => self.half_open_callers(fault).await,
        }
    }

    /// Counts calls of unknown outcome and broken streams while something is done.
    async fn harm_while(&self, done: impl Future<Output = ()>) -> u64 {
        let before = self.load.harmed();
        done.await;
        // Callers notice a moment later.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.load.harmed() - before
    }
}

/// Whether a fault that bit so often may have cost any server its tasks.
fn hurts_everyone(kind: Kind, bites: u64) -> bool {
    match kind {
        // A fault of Postgres does, and the owner takes a server that it cannot reach for lost:
        // even if its effect was not seen.
        Kind::PostgresCrash
        | Kind::DiskFull
        | Kind::ClockOfTarget
        | Kind::PeersApart
        | Kind::RollingRestart => true,
        // They do nothing but end connections, each of which counts.
        Kind::BackendKilled | Kind::SessionsEnded | Kind::NoConnections => bites > 0,
        _ => false,
    }
}

#[test]
fn a_fault_that_ended_no_connection_excuses_nothing() {
    for kind in [
        Kind::BackendKilled,
        Kind::SessionsEnded,
        Kind::NoConnections,
    ] {
        assert!(hurts_everyone(kind, 1));
        assert!(!hurts_everyone(kind, 0));
    }
    assert!(hurts_everyone(Kind::PostgresCrash, 0));
}
