//! Puts the parts together: database, journal, executor, coordinator, gRPC; and takes them down in order.

pub(crate) mod status_source;

use crate::{
    clock::Clock,
    coordinator::{Coordinator, Parts, Role},
    core::{ShardId, model::limits::Limits},
    executor::{CANCEL_GRACE, Executor, ExecutorConfig, SessionNote, TargetConfig},
    hub::session::{self, Remote},
    journal::{self, Journal, JournalConfig, Replica, Sessions},
    peer::{PeerConfig, Peers, Port},
    postgres::{self, PrivatePostgres},
    rpc,
};
use anyhow::Context;
use sqlx::postgres::PgConnectOptions;
use std::{net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use uuid::Uuid;

/// Session notes that may wait for the register.
const NOTES: usize = 256;
/// Connections for reads of the journal.
const READERS: u32 = 8;
/// How long running tasks may go on after a shutdown began.
const GRACE: Duration = Duration::from_secs(10);
/// How long a replica that is going down waits to see that another one has come.
const LAST_LOOK: Duration = Duration::from_millis(300);

/// How long an ownership lasts without a heartbeat, unless an operator says otherwise.
pub const LEASE: Duration = Duration::from_secs(5);

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// URL of the coordination database; `None`: a private Postgres.
    pub database: Option<String>,
    /// Where the private Postgres keeps its data; `None`: in the account's state directory.
    pub data_dir: Option<PathBuf>,
    /// Where SQL tasks run; none: the private Postgres's `app`.
    pub targets: Vec<Target>,
    /// Slots of the private Postgres's `app`.
    pub slots: u32,
    /// No-op tasks at any time.
    pub noop_slots: u32,
    /// Days for which events and the log are kept.
    pub retention_days: u32,
    /// Bytes of bodies of waiting tasks kept in memory.
    pub body_bytes: usize,
    /// Name of this replica, the same after a restart.
    pub replica_name: String,
    /// The port of the replicas; `None`: this server has no others.
    pub peer: Option<PeerConfig>,
    /// How long this server owns the shard without a heartbeat; the same for all replicas.
    pub lease: Duration,
    /// Namespaces come from the metadata of calls: only behind a proxy that sets it.
    pub trusted_namespace_metadata: bool,
    /// What each namespace may have.
    pub limits: Limits,
    /// Accept a database that loses commits in a crash: for tests.
    pub allow_unsafe_database: bool,
}

/// A named database on which SQL tasks run.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its URL, with the login of the tasks.
    pub url: String,
    /// Tasks at any time.
    pub slots: u32,
}

/// Serves until `shutdown` resolves, then stops in order. When another replica is there, it is given the shard, running tasks
/// get a grace, and no new calls are taken. Else no new calls are taken, running tasks get a grace, and the last outcomes
/// become durable.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let private = match &config.database {
        Some(_) => None,
        None => Some(start_private(config.data_dir.clone()).await?),
    };
    let url = config
        .database
        .clone()
        .or_else(|| private.as_ref().map(PrivatePostgres::coordination_url))
        .unwrap_or_default();
    let targets = targets(&config, private.as_ref());
    let journal = Journal::open(JournalConfig {
        options: PgConnectOptions::from_str(&url)
            .context("the URL of the coordination database")?,
        shard: ShardId(0),
        allow_unsafe: config.allow_unsafe_database,
        readers: READERS,
        retention_days: config.retention_days,
    })
    .await?;
    let port = match config.peer {
        Some(peer) => Some(Port::bind(peer).await.context("the port of the replicas")?),
        None => None,
    };
    let address = port.as_ref().map(|port| port.address().into());
    let replica = Replica {
        id: Uuid::now_v7(),
        name: config.replica_name.as_str().into(),
        address,
    };
    let sessions = journal.sessions(replica.clone());
    let clock = Clock::new();
    let executor = Executor::start(ExecutorConfig {
        targets: target_configs(&targets)?,
        clock: clock.clone(),
        sessions: Some(keep_register(sessions.clone())),
        cancel_grace: CANCEL_GRACE,
    });
    sessions.enrol(&executor.capacity()).await?;
    let coordinator = Coordinator::start(Parts {
        journal,
        replica: replica.clone(),
        lease: config.lease,
        clock,
        executor: executor.clone(),
        sessions: sessions.clone(),
        noop_slots: config.noop_slots,
        limits: config.limits,
        body_bytes: config.body_bytes,
    })?;
    let rpc = rpc::Config {
        targets: rpc::Targets::new(targets.iter().map(|target| target.name.as_str())),
        probes: status_source::probes(&executor, coordinator.clock().clone(), replica.name.clone()),
        trusted_namespace_metadata: config.trusted_namespace_metadata,
        peers: port.as_ref().map(Port::peers),
    };
    let stopping = CancellationToken::new();
    let peers = rpc.peers.clone();
    if let Some(port) = port {
        let routes = rpc::peer_routes(&coordinator, &rpc, &stopping);
        join_peers(
            port,
            routes,
            &coordinator,
            &executor,
            sessions.clone(),
            replica.name.clone(),
            &stopping,
        );
    }
    let leaving = async {
        shutdown.await;
        leave(&coordinator, &executor, &sessions, peers.as_ref()).await;
    };
    rpc::serve(listener, coordinator.clone(), rpc, leaving).await?;
    retire(&executor, &sessions).await;
    coordinator.drain(GRACE).await;
    coordinator.hand_over().await;
    stopping.cancel();
    if let Some(private) = private {
        tokio::task::spawn_blocking(move || private.stop()).await?;
    }
    Ok(())
}

/// Gives the shard to another replica that is ready for it, if there is one, and goes on serving callers through it. What
/// runs here is finished for the new owner.
async fn leave(
    coordinator: &Coordinator,
    executor: &Executor,
    sessions: &Sessions,
    peers: Option<&Peers>,
) {
    coordinator.stopping();
    let Some(peers) = peers.filter(|_| coordinator.standing() != Role::Standby) else {
        return;
    };
    if coordinator.successor().is_none() {
        // One that has just come is known when the heartbeat that is under way ends.
        let _ = tokio::time::timeout(LAST_LOOK, coordinator.membership().changed()).await;
    }
    if coordinator.successor().is_none() {
        return;
    }
    let successor = coordinator
        .hand_over()
        .await
        .and_then(|successor| successor.address);
    if let Some(address) = successor {
        rpc::poke(peers, &address).await;
    }
    retire(executor, sessions).await;
}

/// Serves the other replicas, and works for whichever of them owns the shard.
fn join_peers(
    port: Port,
    routes: Routes,
    coordinator: &Coordinator,
    executor: &Executor,
    sessions: Sessions,
    name: Arc<str>,
    stopping: &CancellationToken,
) {
    let (membership, me, peers) = (coordinator.membership(), coordinator.id(), port.peers());
    let remote = Remote {
        executor: executor.clone(),
        sessions,
        membership,
        me,
        name,
        peers,
    };
    tokio::spawn(stopping.clone().run_until_cancelled_owned(remote.keep()));
    let routes = routes.add_service(session::Sessions::service(coordinator.entrance()));
    tokio::spawn(serve_peers(port, routes, stopping.clone()));
}

/// Ends what runs here. Nobody need fence an executor that has nothing left.
async fn retire(executor: &Executor, sessions: &Sessions) {
    executor.shutdown(GRACE).await;
    if executor.is_idle()
        && let Err(error) = sessions.leave().await
    {
        tracing::warn!(%error, "the register of sessions could not be cleaned; the next owner does that");
    }
}

async fn serve_peers(port: Port, routes: Routes, stopping: CancellationToken) {
    if let Err(error) = port.serve(routes, stopping).await {
        tracing::error!(%error, "the port of the replicas has failed");
    }
}

async fn start_private(data_dir: Option<PathBuf>) -> anyhow::Result<PrivatePostgres> {
    let data_dir = data_dir.unwrap_or_else(postgres::default_data_dir);
    let options = postgres::Options {
        data_dir: Some(data_dir),
        ..postgres::Options::default()
    };
    tokio::task::spawn_blocking(move || PrivatePostgres::start(options)).await?
}

fn targets(config: &Config, private: Option<&PrivatePostgres>) -> Vec<Target> {
    let mut targets = config.targets.clone();
    if let Some(private) = private
        && !targets.iter().any(|target| target.name == postgres::TARGET)
    {
        targets.push(Target {
            name: postgres::TARGET.into(),
            url: private.target_url(),
            slots: config.slots,
        });
    }
    if targets.is_empty() {
        tracing::warn!(
            "no target is configured: only no-op tasks can run (name one with --target NAME=URL)"
        );
    }
    targets
}

fn target_configs(targets: &[Target]) -> anyhow::Result<Vec<TargetConfig>> {
    let config = |target: &Target| {
        let options = PgConnectOptions::from_str(&target.url)
            .with_context(|| format!("the URL of target {}", target.name))?;
        Ok(TargetConfig {
            name: target.name.as_str().into(),
            options,
            slots: target.slots,
        })
    };
    targets.iter().map(config).collect()
}

/// Writes the executor's sessions into the register.
fn keep_register(sessions: Sessions) -> mpsc::Sender<SessionNote> {
    let (notes, mut arriving) = mpsc::channel(NOTES);
    tokio::spawn(async move {
        while let Some(note) = arriving.recv().await {
            if let Err(error) = write_down(&sessions, note).await {
                tracing::warn!(%error, "cannot write the register of sessions");
            }
        }
    });
    notes
}

async fn write_down(sessions: &Sessions, note: SessionNote) -> Result<(), journal::JournalError> {
    match note {
        SessionNote::Register { session, done } => {
            if sessions
                .register(
                    &session.target,
                    session.slot,
                    session.pid,
                    session.backend_start,
                )
                .await?
            {
                // A slot that has given up waiting opens another session.
                let _ = done.send(());
            }
            Ok(())
        }
        SessionNote::Forget(session) => {
            sessions
                .let_go(&session.target, session.pid, session.backend_start)
                .await
        }
    }
}
