//! Assembles a server from its parts (database, journal, executor, coordinator, gRPC) and stops
//! them in order. It holds no rules of its own: each part enforces its own invariants.

pub(crate) mod config;
pub(crate) mod session_register;
pub(crate) mod shutdown;
pub(crate) mod status_source;

pub use config::{Config, DEFAULT_LEASE, Target};

use crate::{
    clock::Clock,
    coordinator::{Coordinator, Parts},
    executor::{CANCEL_GRACE, Executor, ExecutorConfig},
    hub::session::{self, Remote},
    journal::{Journal, Replica, Sessions},
    peer::{PeerConfig, Port},
    rpc,
};
use anyhow::Context;
use shutdown::GRACE_PERIOD;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use uuid::Uuid;

/// Serves until `shutdown` resolves, then stops in order (see `server::shutdown`).
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let private = config.start_private().await?;
    let targets = config.targets(private.as_ref());
    let journal = Journal::open(config.journal(private.as_ref())?).await?;
    let port = bind_peer_port(config.peer.clone()).await?;
    let replica = Replica {
        id: Uuid::now_v7(),
        name: config.replica_name.as_str().into(),
        address: port.as_ref().map(|port| port.address().into()),
    };
    let sessions = journal.sessions(replica.clone());
    let clock = Clock::new();
    let executor = start_executor(&targets, &clock, &sessions).await?;
    let coordinator = Coordinator::start(Parts {
        journal,
        replica: replica.clone(),
        lease: config.lease,
        clock: clock.clone(),
        executor: executor.clone(),
        sessions: sessions.clone(),
        noop_slots: config.noop_slots,
        limits: config.limits,
        body_bytes: config.body_bytes,
    })?;
    let rpc = rpc::Config {
        targets: rpc::Targets::new(targets.iter().map(|target| target.name.as_str())),
        status_source: status_source::new(&executor, clock, replica.name.clone()),
        trusted_namespace_metadata: config.trusted_namespace_metadata,
        peers: port.as_ref().map(Port::peers),
    };
    let stopping = CancellationToken::new();
    let peers = rpc.peers.clone();
    if let Some(port) = port {
        let remote = remote(&port, &coordinator, &executor, &sessions, &replica);
        let routes = rpc::peer_routes(&coordinator, &rpc, &stopping)
            .add_service(session::Sessions::service(coordinator.hub()));
        tokio::spawn(stopping.clone().run_until_cancelled_owned(remote.keep()));
        tokio::spawn(serve_peers(port, routes, stopping.clone()));
    }
    let leaving = async {
        shutdown.await;
        shutdown::leave(&coordinator, &executor, &sessions, peers.as_ref()).await;
    };
    rpc::serve(listener, coordinator.clone(), rpc, leaving).await?;
    shutdown::retire(&executor, &sessions).await;
    coordinator.drain(GRACE_PERIOD).await;
    coordinator.hand_over().await;
    stopping.cancel();
    if let Some(private) = private {
        tokio::task::spawn_blocking(move || private.stop()).await?;
    }
    Ok(())
}

async fn bind_peer_port(config: Option<PeerConfig>) -> anyhow::Result<Option<Port>> {
    match config {
        Some(config) => Ok(Some(Port::bind(config).await.context("the peer port")?)),
        None => Ok(None),
    }
}

/// Starts the executor and registers it, so that an owner can fence it.
async fn start_executor(
    targets: &[Target],
    clock: &Clock,
    sessions: &Sessions,
) -> anyhow::Result<Executor> {
    let executor = Executor::start(ExecutorConfig {
        targets: config::target_configs(targets)?,
        clock: clock.clone(),
        sessions: Some(session_register::spawn(sessions.clone())),
        cancel_grace: CANCEL_GRACE,
    });
    sessions.enrol(&executor.capacity()).await?;
    Ok(executor)
}

/// What runs tasks here for whichever replica owns the shard.
fn remote(
    port: &Port,
    coordinator: &Coordinator,
    executor: &Executor,
    sessions: &Sessions,
    replica: &Replica,
) -> Remote {
    Remote {
        executor: executor.clone(),
        sessions: sessions.clone(),
        membership: coordinator.membership(),
        me: coordinator.id(),
        name: replica.name.clone(),
        peers: port.peers(),
    }
}

async fn serve_peers(port: Port, routes: Routes, stopping: CancellationToken) {
    if let Err(error) = port.serve(routes, stopping).await {
        tracing::error!(%error, "the peer port has failed");
    }
}
