//! One server for all tests of bad input, in this process, on a database of its own. It takes namespaces from metadata.

use crate::harness::postgres;
use rallypoint::{
    core::model::limits::Limits,
    postgres::COORDINATION,
    server::{Config, Target, serve},
};
use rallypoint_client::{
    Client,
    api::{
        self, scheduler_service_client::SchedulerServiceClient,
        status_service_client::StatusServiceClient,
    },
};
use std::{
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::LazyLock,
    thread,
    time::Duration,
};
use tokio::runtime::Runtime;
use tonic::{Request, transport::Channel};

/// Where it listens. It ends with this process.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(start);

/// Where it listens.
pub(crate) fn address() -> SocketAddr {
    *ADDRESS
}

pub(crate) type Schedulers = SchedulerServiceClient<Channel>;

fn start() -> SocketAddr {
    let database = postgres::database(COORDINATION);
    let target = Target {
        name: "app".into(),
        url: postgres::POSTGRES.target_url(),
        slots: 2,
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let config = Config {
        listen: address,
        database: Some(postgres::POSTGRES.url_for(&database, COORDINATION)),
        data_dir: None,
        targets: vec![target],
        slots: 2,
        noop_slots: 64,
        retention_days: 30,
        body_bytes: 1 << 20,
        replica_name: "bad-input".into(),
        peer: None,
        lease: rallypoint::server::DEFAULT_LEASE,
        trusted_namespace_metadata: true,
        limits: Limits::default(),
        allow_unsafe_database: true,
    };
    thread::spawn(move || {
        let serving = async { serve(config, listener.try_into()?, pending()).await };
        Runtime::new()
            .expect("a runtime")
            .block_on(serving)
            .expect("it serves");
    });
    address
}

/// A connection, once the server answers. One per test: a connection belongs to the runtime that made it.
pub(crate) async fn channel() -> Channel {
    let url = format!("http://{}", *ADDRESS);
    Client::connect_lazy(&url)
        .expect("a URL")
        .with_patience(Duration::from_secs(60))
        .open(api::SchedulerSettings::default())
        .await
        .expect("it gets ready");
    Channel::from_shared(url)
        .expect("a URL")
        .connect()
        .await
        .expect("it listens")
}

pub(crate) async fn schedulers() -> Schedulers {
    SchedulerServiceClient::new(channel().await)
}

pub(crate) async fn statuses() -> StatusServiceClient<Channel> {
    StatusServiceClient::new(channel().await)
}

/// A new scheduler's handle.
pub(crate) async fn opened(client: &mut Schedulers, settings: api::SchedulerSettings) -> String {
    let request = api::GetSchedulerRequest {
        settings: Some(settings),
        ..Default::default()
    };
    let response = client.get_scheduler(request).await.expect("it opens");
    response.into_inner().scheduler.expect("a scheduler").handle
}

/// `message` as a caller of `namespace` sends it.
pub(crate) fn from<T>(namespace: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("rallypoint-namespace", namespace.parse().expect("ASCII"));
    request
}

pub(crate) fn noop(order: Option<i64>) -> api::Task {
    api::Task {
        kind: Some(api::task::Kind::Noop(api::NoopTask::default())),
        order,
        options: None,
    }
}

pub(crate) fn sql(statement: &str, order: Option<i64>) -> api::Task {
    let sql = api::SqlTask {
        statement: statement.into(),
        ..Default::default()
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        order,
        options: None,
    }
}

/// The server answers a good call.
pub(crate) async fn still_answers() {
    let mut client = schedulers().await;
    let handle = opened(&mut client, Default::default()).await;
    let request = api::ExecAsyncRequest {
        handle: handle.clone(),
        tasks: vec![noop(None)],
        ..Default::default()
    };
    client.exec_async(request).await.expect("it takes a task");
    let release = api::ReleaseSchedulerRequest {
        handle,
        wait: true,
        ..Default::default()
    };
    let released = client
        .release_scheduler(release)
        .await
        .expect("it releases")
        .into_inner();
    assert_eq!(released.pending, 0);
}
