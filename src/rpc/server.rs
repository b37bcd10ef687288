//! The gRPC server: services, reflection, health, and the limits of messages. Memory is bounded by
//! what connections have sent and nobody has read (a window each, see `connections`) and by the
//! rooms for messages, answers and events of streams (`room`).

use super::{
    audit::{Audit, Auditing},
    auth::Auth,
    authorization::Authorization,
    connections,
    deadline::Deadlines,
    errors,
    fetched::Fetched,
    forwarding::{forwarded_streams::ForwardedStreams, peer_service::Peering, route::Route},
    gateway::{Gateway, Hosts, Settings},
    job::Jobs,
    message_budget::MessageRoom,
    observed::{self, Observed},
    operator::Operators,
    resource::Resources,
    room::{Room, Rooms, SMALL_BYTES},
    scheduler::Schedulers,
    status::{
        Statuses,
        executions::{Executions, StatusSource},
        readiness,
        shared::Shared,
        watch::Watchers,
    },
    validate::Targets,
};
use crate::{
    coordinator::Coordinator,
    core::model::limits,
    identity::Authenticator,
    metrics::Metrics,
    peer::{self, Accept, CallerTls, Connection, Peers, Strangers, Usefulness},
};
use rallypoint_client::api::{
    self, job_service_server::JobServiceServer, operator_service_server::OperatorServiceServer,
    peer::peer_service_server::PeerServiceServer, resource_service_server::ResourceServiceServer,
    scheduler_service_server::SchedulerServiceServer, status_service_server::StatusServiceServer,
};
use std::{io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tower::{ServiceBuilder, layer::layer_fn, util::MapResponseLayer};

/// Limit of the transport for a request. Validation refuses above 4 MiB with a better message.
pub(super) const MAX_REQUEST_BYTES: usize = limits::CALL_BYTES + (1 << 20);
/// The same between replicas. What one of them took, and encodes anew with a request id, must not
/// be too large for the owner.
const MAX_FORWARDED_BYTES: usize = 2 * MAX_REQUEST_BYTES;
pub(crate) const MAX_CONNECTIONS: usize = 10_000;
/// How long calls may take to end once a shutdown began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the server needs besides the coordinator.
#[derive(Clone)]
pub(crate) struct Config {
    /// Targets that SQL tasks may name.
    pub targets: Targets,
    /// Slots and targets of the executor.
    pub status_source: StatusSource,
    /// Takes the namespace from the metadata of a call. Safe only behind a gateway that
    /// authenticates, and in tests.
    pub trusted_namespace_metadata: bool,
    /// Channels to the other replicas; `None`: there are none.
    pub peers: Option<Peers>,
    /// Certificates of the port for callers; `None`: plain text.
    pub tls: Option<CallerTls>,
    /// Knows callers; `None`: everybody may do everything.
    pub authenticator: Option<Authenticator>,
    /// One for each connection that callers may have.
    pub connections: Arc<Semaphore>,
    pub metrics: Metrics,
    /// Under which names the port may be reached over HTTP.
    pub hosts: Hosts,
    /// Has calls written down.
    pub audit: Audit,
}

/// The services for other replicas. They have identified the caller and name it in the metadata,
/// which is therefore trusted. Calls are not forwarded again: a call makes one hop.
pub(crate) fn peer_routes(
    coordinator: &Coordinator,
    config: &Config,
    stopping: &CancellationToken,
) -> Routes {
    let peering = Peering {
        coordinator: coordinator.clone(),
        source: config.status_source.clone(),
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
    let is_for_callers = route.is_some();
    let limit = match is_for_callers {
        true => MAX_REQUEST_BYTES,
        false => MAX_FORWARDED_BYTES,
    };
    let operators = Operators {
        coordinator: coordinator.clone(),
        auth: auth.clone(),
        reader: coordinator.journal().own_reader(),
        targets: config.targets.clone(),
        stopping: stopping.clone(),
        route: route.clone(),
    };
    let schedulers = Schedulers {
        coordinator: coordinator.clone(),
        reader: coordinator.journal().reader(),
        auth,
        targets: config.targets.clone(),
        // Also when another replica asks: it is the owner who explains.
        executions: Executions::new(
            config.status_source.clone(),
            Some(Route::new(coordinator.clone(), config.peers.clone())),
        ),
        stopping: stopping.clone(),
        route,
    };
    let jobs = jobs_of(&schedulers);
    let statuses = statuses_of(&schedulers, config.status_source.clone());
    let resources = resources_of(&schedulers, &config.metrics);
    let schedulers = SchedulerServiceServer::new(schedulers).max_decoding_message_size(limit);
    let resources = ResourceServiceServer::new(resources);
    let routes = match is_for_callers {
        // What is not read of their streams has room by `MessageRoom`.
        true => Routes::new(schedulers).add_service(resources),
        false => {
            let room = Room::of_events();
            Routes::new(ForwardedStreams::new(schedulers, room.clone()))
                .add_service(ForwardedStreams::new(resources, room))
        }
    };
    routes
        .add_service(StatusServiceServer::new(statuses))
        .add_service(OperatorServiceServer::new(operators))
        .add_service(JobServiceServer::new(jobs).max_decoding_message_size(limit))
}

/// JobService, by what SchedulerService has.
fn jobs_of(schedulers: &Schedulers) -> Jobs {
    Jobs {
        coordinator: schedulers.coordinator.clone(),
        reader: schedulers.reader.clone(),
        auth: schedulers.auth.clone(),
        targets: schedulers.targets.clone(),
        stopping: schedulers.stopping.clone(),
        route: schedulers.route.clone(),
    }
}

/// ResourceService, by what SchedulerService has.
fn resources_of(schedulers: &Schedulers, metrics: &Metrics) -> Resources {
    Resources {
        coordinator: schedulers.coordinator.clone(),
        reader: schedulers.reader.clone(),
        auth: schedulers.auth.clone(),
        stopping: schedulers.stopping.clone(),
        metrics: metrics.clone(),
        route: schedulers.route.clone(),
    }
}

/// StatusService, by what SchedulerService has.
fn statuses_of(schedulers: &Schedulers, source: StatusSource) -> Statuses {
    let executions = Executions::new(source, schedulers.route.clone());
    let reader = schedulers.reader.clone();
    // Another replica adds who submitted what by itself.
    let of_tasks = schedulers.route.as_ref().map(|_| reader.clone());
    let targets = schedulers.targets.clone();
    Statuses {
        coordinator: schedulers.coordinator.clone(),
        reader,
        auth: schedulers.auth.clone(),
        executions: executions.clone(),
        watchers: Watchers::new(executions, of_tasks, targets.clone()),
        targets,
        stopping: schedulers.stopping.clone(),
        route: schedulers.route.clone(),
        latest: Shared::default(),
    }
}

/// Serves until `shutdown` resolves, then ends the streams with UNAVAILABLE and waits for the other
/// calls, up to a timeout.
pub(crate) async fn serve(
    listener: TcpListener,
    coordinator: Coordinator,
    config: Config,
    shutdown: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    let stopping = CancellationToken::new();
    let (health, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(SMALL_BYTES);
    let auth = Auth::new(config.trusted_namespace_metadata);
    let route = Route::new(coordinator.clone(), config.peers.clone());
    tokio::spawn(readiness::report(
        health,
        config.metrics.clone(),
        coordinator.clone(),
        route.clone(),
        stopping.clone(),
    ));
    let services = services(&coordinator, &config, &stopping, auth, Some(route));
    let routes = with_reflection(services.add_service(health_service))?;
    let accepted = accepted(listener, &config);
    let authenticator = config.authenticator.clone();
    let rooms = Rooms::default();
    let gateway = Arc::new(gateway(&config, &rooms));
    let audit = config.audit.clone();
    let (of_errors, of_streams) = (config.metrics.clone(), config.metrics.clone());
    let service = ServiceBuilder::new()
        .layer(layer_fn(Fetched))
        .layer(layer_fn(move |inner| Gateway::new(inner, gateway.clone())))
        .layer(MapResponseLayer::new(move |response| {
            observed::count(&of_errors, response)
        }))
        .layer(layer_fn(move |inner| {
            Observed::new(inner, of_streams.clone())
        }))
        .layer(layer_fn(move |inner| Auditing::new(inner, audit.clone())))
        .layer(layer_fn(Deadlines))
        .layer(MapResponseLayer::new(errors::transport::translate))
        .layer(layer_fn(move |inner| {
            Authorization::new(inner, authenticator.clone())
        }))
        .layer(layer_fn(move |inner| {
            MessageRoom::new(inner, rooms.clone(), MAX_REQUEST_BYTES)
        }))
        .service(routes.prepare());
    let tls = config.tls.as_ref();
    let served = connections::serve(service, accepted, tls, &stopping);
    let stop = async {
        shutdown.await;
        stopping.cancel();
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(served, stop) } => Ok(()),
        () = drained(&stopping) => Ok(()),
        () = renewed(config.tls.clone(), config.authenticator) => Ok(()),
    }
}

/// Resolves when calls have had their time to end after a shutdown began.
async fn drained(stopping: &CancellationToken) {
    stopping.cancelled().await;
    tokio::time::sleep(DRAIN_TIMEOUT).await;
}

fn accepted(listener: TcpListener, config: &Config) -> ReceiverStream<io::Result<Connection>> {
    let accept = config.tls.clone().map_or(Accept::Plain, Accept::Callers);
    // Where nobody is known everybody is welcome.
    let strangers = config.authenticator.as_ref().map(|_| Strangers::default());
    peer::connections(
        listener,
        config.connections.clone(),
        accept,
        strangers,
        Some(Usefulness::default()),
    )
}

fn gateway(config: &Config, rooms: &Rooms) -> Settings {
    Settings {
        hosts: config.hosts.clone(),
        rooms: rooms.clone(),
        largest: MAX_REQUEST_BYTES,
        is_starting: false,
        authenticator: config.authenticator.clone(),
        by_tls: config.tls.is_some(),
    }
}

/// Keeps fresh what proves who is who; for ever.
async fn renewed(tls: Option<CallerTls>, authenticator: Option<Authenticator>) {
    let certificates = async {
        if let Some(tls) = tls {
            tls.keep_reading().await;
        }
    };
    let keys = async {
        if let Some(authenticator) = authenticator {
            authenticator.keep_keys_fresh().await;
        }
    };
    tokio::join!(certificates, keys, std::future::pending::<()>());
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
