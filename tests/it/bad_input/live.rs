//! One server for all tests of bad input, in this process, on a database of its own. It takes
//! namespaces from metadata and ends with this process.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    in_process::{InProcess, config},
    postgres,
};
use rallypoint::{
    postgres::COORDINATION,
    server::{Config, Target},
};
use rallypoint_client::{
    Client,
    api::{
        self, scheduler_service_client::SchedulerServiceClient,
        status_service_client::StatusServiceClient,
    },
};
use std::{net::SocketAddr, sync::LazyLock};
use tonic::{Request, transport::Channel};

static SERVER: LazyLock<InProcess> = LazyLock::new(start);

/// The address the server listens on.
pub(crate) fn address() -> SocketAddr {
    SERVER.address
}

pub(crate) type Schedulers = SchedulerServiceClient<Channel>;

fn start() -> InProcess {
    let database = postgres::database(COORDINATION);
    let login = postgres::POSTGRES.target_url().parse().expect("a login");
    let target = Target::new("app", login, 2);
    let database = postgres::POSTGRES.url_for(&database, COORDINATION);
    InProcess::start(Config {
        noop_slots: 64,
        body_bytes: 1 << 20,
        trusted_namespace_metadata: true,
        ..config(database, vec![target])
    })
}

/// A connection, once the server answers. Each test needs its own: it belongs to the runtime of the
/// test.
pub(crate) async fn channel() -> Channel {
    let url = SERVER.url();
    Client::connect_lazy(&url)
        .expect("a URL")
        .with_retry_timeout(WAIT_TIMEOUT)
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

/// Opens a scheduler; returns its handle.
pub(crate) async fn opened(client: &mut Schedulers, settings: api::SchedulerSettings) -> String {
    let request = api::GetSchedulerRequest {
        settings: Some(settings),
        ..Default::default()
    };
    let response = client.get_scheduler(request).await.expect("it opens");
    response.into_inner().scheduler.expect("a scheduler").handle
}

/// `message` from a caller in `namespace`.
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

/// Asserts that the server still serves.
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
