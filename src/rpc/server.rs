//! The server: services, reflection, health, and every limit of the transport. tonic's own defaults are "no limit", so each
//! one is set here. Memory is bounded by connections × streams × what a stream may have in flight.

use super::{
    auth::Auth,
    errors,
    forwarding::{layer::ForwardLayer, peer_service::Peering, route::Route},
    scheduler::Schedulers,
    status::{
        Statuses,
        executions::{Executions, StatusSource},
        readiness,
    },
    validate::Targets,
};
use crate::{
    coordinator::Coordinator,
    core::model::limits,
    peer::{Peers, connections},
};
use rallypoint_client::api::{
    self, peer::peer_service_server::PeerServiceServer,
    scheduler_service_server::SchedulerServiceServer, status_service_server::StatusServiceServer,
};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{body::Body, codegen::http::Response, service::Routes, transport};
use tower::{
    layer::util::{Identity, Stack},
    util::MapResponseLayer,
};

/// Largest request the transport takes; validation draws the line at 4 MiB with a better message.
const REQUEST_BYTES: usize = limits::CALL_BYTES + (1 << 20);
const CONNECTIONS: usize = 10_000;
const STREAMS_PER_CONNECTION: u32 = 1_024;
const HEADER_BYTES: u32 = 16 << 10;
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const FRAME_BYTES: u32 = 128 << 10;
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls may take to end once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// What the server needs besides the coordinator.
#[derive(Clone)]
pub(crate) struct Config {
    /// Targets that SQL tasks may name.
    pub targets: Targets,
    /// What the executor tells about itself.
    pub status_source: StatusSource,
    /// Take the namespace from the metadata of a call: only behind a gateway that authenticates, and in tests.
    pub trusted_namespace_metadata: bool,
    /// The way to other replicas; `None`: there are none.
    pub peers: Option<Peers>,
}

/// The services, for other replicas: they have verified who calls, and say so in the metadata of each call. What is not
/// here is nowhere: a call makes one hop.
pub(crate) fn peer_routes(
    coordinator: &Coordinator,
    config: &Config,
    stopping: &CancellationToken,
) -> Routes {
    let peering = Peering {
        coordinator: coordinator.clone(),
    };
    services(coordinator, config, stopping, Auth::new(true), None)
        .add_service(PeerServiceServer::new(peering))
}

fn services(
    coordinator: &Coordinator,
    config: &Config,
    stopping: &CancellationToken,
    auth: Auth,
    route: Option<Route>,
) -> Routes {
    let reader = coordinator.journal().reader();
    let schedulers = Schedulers {
        coordinator: coordinator.clone(),
        reader: reader.clone(),
        auth,
        targets: config.targets.clone(),
        stopping: stopping.clone(),
        route: route.clone(),
    };
    let executions = Executions {
        source: config.status_source.clone(),
        route: route.clone(),
    };
    let statuses = Statuses {
        coordinator: coordinator.clone(),
        reader,
        executions,
        stopping: stopping.clone(),
        route,
    };
    Routes::new(SchedulerServiceServer::new(schedulers).max_decoding_message_size(REQUEST_BYTES))
        .add_service(StatusServiceServer::new(statuses))
}

/// Serves until `shutdown`, then ends the streams with UNAVAILABLE and waits a little for the other calls.
pub(crate) async fn serve(
    listener: TcpListener,
    coordinator: Coordinator,
    config: Config,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let stopping = CancellationToken::new();
    let (health, health_service) = tonic_health::server::health_reporter();
    let auth = Auth::new(config.trusted_namespace_metadata);
    let route = Route::new(coordinator.clone(), config.peers.clone());
    tokio::spawn(readiness::tell(
        health,
        coordinator.clone(),
        route.clone(),
        stopping.clone(),
    ));
    let forward = ForwardLayer::new(route.clone(), auth.clone(), REQUEST_BYTES);
    let services = services(&coordinator, &config, &stopping, auth, Some(route));
    let routes = with_reflection(services.add_service(health_service))?;
    let connections = connections(listener, CONNECTIONS);
    let drained = stopping.clone();
    let served = server()
        .layer(forward)
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, async move {
            shutdown.await;
            drained.cancel();
        });
    let late = async {
        stopping.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = served => Ok(served?),
        () = late => Ok(()),
    }
}

fn with_reflection(routes: Routes) -> anyhow::Result<Routes> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(api::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(builder().build_v1()?)
        .add_service(builder().build_v1alpha()?))
}

type Refusals = MapResponseLayer<fn(Response<Body>) -> Response<Body>>;

fn server() -> transport::Server<Stack<Refusals, Identity>> {
    transport::Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .layer(MapResponseLayer::new(
            errors::transport::translate as fn(_) -> _,
        ))
}
