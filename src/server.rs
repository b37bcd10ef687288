//! Assembles a server from its parts (database, journal, executor, coordinator, gRPC) and stops
//! them in order. It holds no rules of its own: each part enforces its own invariants.

pub(crate) mod admin;
pub(crate) mod config;
pub(crate) mod config_file;
pub(crate) mod database_wait;
mod descriptors;
pub(crate) mod doctor;
mod login_zone;
pub(crate) mod pg_agent;
pub(crate) mod pg_cron;
pub(crate) mod pg_timetable;
pub(crate) mod private_postgres;
pub(crate) mod reload;
pub(crate) mod scaler;
pub(crate) mod scrape;
pub(crate) mod session_registration;
pub(crate) mod shutdown;
pub(crate) mod standby_warning;
pub(crate) mod status_source;
pub(crate) mod target_setup;
pub(crate) mod unreached;

pub use crate::executor::{
    Login, SESSION_IDLE as DEFAULT_SESSION_IDLE, TARGET_SLOTS, TargetConfig as Target,
};
pub use crate::traces::TraceConfig;
pub use admin::AdminPort;
pub use config::{Config, DEFAULT_LEASE, DEFAULT_SHUTDOWN_GRACE};
pub use config_file::{ConfigFile, Described};
pub use descriptors::raise_descriptor_limit;
pub(crate) use doctor::{of_certificates, of_peer, of_peer_certificates, of_target};

use crate::{
    clock::Clock,
    coordinator::{Coordinator, Parts},
    executor::{CANCEL_GRACE, Executor, ExecutorConfig},
    hub::session::{self, Remote},
    journal::{Journal, Replica, Sessions},
    metrics::Metrics,
    peer::{Accept, PeerConfig, Port},
    postgres::PrivatePostgres,
    rpc::{self, Audit, Slots},
    traces::Traces,
};
use admin::Admin;
use anyhow::Context;
use reload::Reload;
use scaler::Scaler;
use scrape::Scrape;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, signal::unix::Signal, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use uuid::Uuid;

/// Serves until `shutdown` resolves, then stops in order (see `server::shutdown`). `listening` is
/// called with the address once callers are taken.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    // The first thing: until then the signal ends the process.
    let hangups = reload::hangups(config.config_file.as_ref())?;
    let private = config.start_private().await?.map(Arc::new);
    let served = tokio::select! {
        served = run(config, hangups, listener, shutdown, listening, private.as_deref()) => served,
        ended = private_postgres::keep(private.clone()) => ended,
    };
    if let Some(private) = private {
        tokio::task::spawn_blocking(move || private.stop()).await?;
    }
    served
}

async fn run(
    config: Config,
    hangups: Option<Signal>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    listening: impl FnOnce(SocketAddr),
    private: Option<&PrivatePostgres>,
) -> anyhow::Result<()> {
    let mut shutdown = std::pin::pin!(shutdown);
    descriptors::make_room();
    let targets = config.targets(private)?;
    let peer_port = bind_peer_port(config.peer.clone()).await?;
    let replica = Replica {
        id: Uuid::now_v7(),
        name: config.replica_name.as_str().into(),
        address: peer_port.as_ref().map(|port| port.address().into()),
    };
    let admin = Admin::default();
    let _admin = config.admin.clone().map(|port| admin.clone().start(port));
    let (database, capacity) = (config.journal(private)?, config::capacity(&targets));
    let open = || database_wait::open(&database, &replica, &capacity);
    let opened = database_wait::wait(&listener, doors(&config), shutdown.as_mut(), open).await?;
    let Some((journal, sessions)) = opened else {
        return Ok(());
    };
    let metrics = admin.metrics.clone();
    let mut running = start(&config, &targets, replica, (journal, sessions), metrics)?;
    let rpc = rpc::Config {
        targets: rpc::Targets::new(config::allowed(&targets)),
        status_source: status_source::new(
            &running.executor,
            running.coordinator.clock().clone(),
            running.replica.name.clone(),
        ),
        trusted_namespace_metadata: config.trusted_namespace_metadata,
        peers: peer_port.as_ref().map(Port::peers),
        tls: config.tls.clone(),
        authenticator: config.authenticator.clone(),
        connections: Arc::new(Semaphore::new(rpc::MAX_CONNECTIONS)),
        audit: running.audit(admin.metrics.clone()),
        metrics: admin.metrics.clone(),
        hosts: doors(&config).1,
    };
    let scaler = running.scaler(&rpc);
    admin.started(running.scrape(&rpc), scaler);
    let watched = config.config_file.zip(hangups);
    running.reload = watched.map(|(file, hangups)| Reload {
        from_file: file.names_among(&config.targets),
        file,
        noted: capacity,
        targets,
        executor: running.executor.clone(),
        sessions: running.sessions.clone(),
        rpc_targets: rpc.targets.clone(),
        authenticator: rpc.authenticator.clone(),
        hangups,
    });
    listening(listener.local_addr()?);
    running.serve(listener, peer_port, rpc, shutdown).await
}

/// How callers are let in, and under which names over HTTP.
fn doors(config: &Config) -> (Accept, rpc::Hosts) {
    let accept = config.tls.clone().map_or(Accept::Plain, Accept::Callers);
    let hosts = match &config.authenticator {
        Some(_) => rpc::Hosts::Any,
        None => rpc::Hosts::Named(config.http_hosts.clone()),
    };
    (accept, hosts)
}

/// Starts what coordinates and what runs tasks.
fn start(
    config: &Config,
    targets: &[Target],
    replica: Replica,
    (journal, sessions): (Journal, Sessions),
    metrics: Metrics,
) -> anyhow::Result<Running> {
    let clock = Clock::new();
    let traces = config.traces(&replica.name, &clock, &metrics)?;
    let executor = Executor::start(ExecutorConfig {
        targets: targets.to_vec(),
        replica: replica.name.clone(),
        clock: clock.clone(),
        sessions: Some(session_registration::spawn(sessions.clone())),
        cancel_grace: CANCEL_GRACE,
    });
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
        metrics,
        traces: traces.clone(),
    });
    Ok(Running {
        coordinator,
        executor,
        sessions,
        replica,
        traces,
        grace: config.shutdown_grace,
        reload: None,
    })
}

/// The parts that have been started.
struct Running {
    coordinator: Coordinator,
    executor: Executor,
    sessions: Sessions,
    replica: Replica,
    traces: Traces,
    grace: Duration,
    /// What a changed configuration file changes.
    reload: Option<Reload>,
}

impl Running {
    /// Serves callers and other replicas until `shutdown`, and then stops in order.
    async fn serve(
        mut self,
        listener: TcpListener,
        port: Option<Port>,
        rpc: rpc::Config,
        shutdown: impl Future<Output = ()> + Send,
    ) -> anyhow::Result<()> {
        let (stopping, peers) = (CancellationToken::new(), rpc.peers.clone());
        let until_stopping = || stopping.clone();
        let reachability = standby_warning::report(self.coordinator.clone(), port.is_some());
        tokio::spawn(until_stopping().run_until_cancelled_owned(reachability));
        if let Some(reload) = self.reload.take() {
            tokio::spawn(until_stopping().run_until_cancelled_owned(reload.at_each_hangup()));
        }
        if let Some(port) = port {
            let remote = self.remote(&port);
            let routes = rpc::peer_routes(&self.coordinator, &rpc, &stopping).add_service(
                session::Sessions::service(
                    self.coordinator.hub(),
                    self.coordinator.clock().clone(),
                ),
            );
            tokio::spawn(until_stopping().run_until_cancelled_owned(remote.keep()));
            tokio::spawn(serve_peers(port, routes, until_stopping()));
        }
        let Running {
            coordinator,
            executor,
            sessions,
            traces,
            grace,
            ..
        } = &self;
        let leaving = async {
            shutdown.await;
            shutdown::leave(coordinator, executor, sessions, peers.as_ref(), *grace).await;
        };
        let audit = rpc.audit.clone();
        rpc::serve(listener, coordinator.clone(), rpc, leaving).await?;
        audit.flush().await;
        shutdown::retire(executor, sessions, *grace).await;
        coordinator.drain(shutdown::DRAIN_TIMEOUT).await;
        coordinator.hand_over().await;
        traces.flush(shutdown::TRACES_TIMEOUT).await;
        stopping.cancel();
        Ok(())
    }

    fn audit(&self, metrics: Metrics) -> Audit {
        let (coordinator, name) = (&self.coordinator, self.replica.name.clone());
        let reader = coordinator.journal().own_reader();
        Audit::start(reader, coordinator.clock().clone(), name, metrics)
    }

    /// Tells an autoscaler how many executors there should be.
    fn scaler(&self, rpc: &rpc::Config) -> Scaler {
        Scaler {
            slots: Slots::new(&self.coordinator, rpc.peers.clone()),
            executor: self.executor.clone(),
            latest: Arc::default(),
        }
    }

    /// Where a scrape reads levels.
    fn scrape(&self, rpc: &rpc::Config) -> Scrape {
        Scrape {
            metrics: rpc.metrics.clone(),
            coordinator: self.coordinator.clone(),
            executor: self.executor.clone(),
            connections: (rpc.connections.clone(), rpc::MAX_CONNECTIONS),
            replica: self.replica.name.clone(),
            one_at_a_time: Default::default(),
        }
    }

    /// What runs tasks here for whichever replica owns the shard.
    fn remote(&self, port: &Port) -> Remote {
        Remote {
            executor: self.executor.clone(),
            clock: self.coordinator.clock().clone(),
            sessions: self.sessions.clone(),
            membership: self.coordinator.membership(),
            gone_owners: self.coordinator.gone_owners(),
            me: self.coordinator.id(),
            name: self.replica.name.clone(),
            peers: port.peers(),
        }
    }
}

async fn bind_peer_port(config: Option<PeerConfig>) -> anyhow::Result<Option<Port>> {
    match config {
        Some(config) => {
            let what = format!(
                "cannot listen on {} for other replicas: choose another address with --peer-listen",
                config.listen
            );
            Ok(Some(Port::bind(config).await.context(what)?))
        }
        None => Ok(None),
    }
}

async fn serve_peers(port: Port, routes: Routes, stopping: CancellationToken) {
    if let Err(error) = port.serve(routes, stopping).await {
        tracing::error!(%error, "the peer port has failed");
    }
}
