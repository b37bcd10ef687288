//! Callers that take a lock and give it back, again and again, of one system or another.

use super::etcd::EtcdLocks;
use anyhow::{Result, bail};
use rallypoint_client::{
    Client, Hold,
    api::{AcquireRequest, ResourceMode, ResourceUse},
};
use sqlx::{Executor, PgConnection};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// A caller of one system.
pub(super) enum Caller {
    /// One of those who share a client, as the callers of one program do.
    Service(Client),
    Etcd(EtcdLocks),
    /// `select … for update`, until the end of the transaction.
    Postgres(PgConnection),
}

/// What gives a lock back.
enum Held {
    Service(Box<Hold>),
    Etcd(Vec<u8>),
    Postgres,
}

/// What callers have done.
#[derive(Default)]
pub(super) struct Done {
    /// Locks taken and given back, a second.
    pub rate: f64,
    /// Microseconds from the call that gives the one lock back until the next holder has it.
    pub hand_overs: Vec<f64>,
    /// Microseconds of each lock taken and given back.
    pub pairs: Vec<f64>,
}

/// A request for a lock.
pub(super) fn request(name: &str, lease_s: i64) -> AcquireRequest {
    AcquireRequest {
        resources: vec![ResourceUse {
            name: name.to_owned(),
            mode: ResourceMode::Exclusive.into(),
            permits: 0,
        }],
        lease: Some(prost_types::Duration {
            seconds: lease_s,
            nanos: 0,
        }),
        renewed_by_caller: true,
        ..AcquireRequest::default()
    }
}

impl Caller {
    async fn lock(&mut self, name: &str) -> Result<Held> {
        Ok(match self {
            Caller::Service(client) => {
                Held::Service(Box::new(client.acquire_as(request(name, 600)).await?))
            }
            Caller::Etcd(etcd) => Held::Etcd(etcd.lock(name).await?),
            Caller::Postgres(connection) => {
                connection.execute("begin").await?;
                let row = "select from bench_lock where name = $1 for update";
                sqlx::query(row).bind(name).execute(connection).await?;
                Held::Postgres
            }
        })
    }

    async fn unlock(&mut self, held: Held) -> Result<()> {
        match (self, held) {
            (Caller::Service(_), Held::Service(hold)) => hold.release().await?,
            (Caller::Etcd(etcd), Held::Etcd(key)) => etcd.unlock(key).await?,
            (Caller::Postgres(connection), Held::Postgres) => {
                connection.execute("commit").await?;
            }
            _ => bail!("held elsewhere"),
        }
        Ok(())
    }
}

/// Has all callers lock and unlock for a while, each a name of its own, or all the same.
pub(super) async fn run(callers: &mut Vec<Caller>, one_name: bool, time: Duration) -> Result<Done> {
    let given_back = Arc::new(Mutex::new(None::<Instant>));
    let (start, mut working) = (Instant::now(), JoinSet::new());
    for (number, mut caller) in callers.drain(..).enumerate() {
        let given_back = given_back.clone();
        working.spawn(async move {
            let name = match one_name {
                true => "bench/one".to_owned(),
                false => format!("bench/{number}"),
            };
            let (mut hand_overs, mut pairs) = (Vec::new(), Vec::new());
            while start.elapsed() < time {
                let asked = Instant::now();
                let held = caller.lock(&name).await?;
                if one_name {
                    let mut before = given_back.lock().unwrap_or_else(PoisonError::into_inner);
                    // Else nobody waited when it was given back.
                    let before = before.take().filter(|before| asked < *before);
                    hand_overs.extend(before.map(|before| before.elapsed().as_secs_f64() * 1e6));
                }
                *given_back.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                caller.unlock(held).await?;
                pairs.push(asked.elapsed().as_secs_f64() * 1e6);
            }
            Ok::<_, anyhow::Error>((caller, hand_overs, pairs))
        });
    }
    let mut done = Done::default();
    while let Some(worked) = working.join_next().await {
        let (caller, hand_overs, pairs) = worked??;
        callers.push(caller);
        done.hand_overs.extend(hand_overs);
        done.pairs.extend(pairs);
    }
    done.rate = done.pairs.len() as f64 / start.elapsed().as_secs_f64();
    Ok(done)
}
