//! Connections of callers, with the limits of the transport: HTTP/2 for gRPC, and HTTP/1 for what
//! the gateway takes.
//!
//! tonic's server is not used: it has a timer of its own for each deadline (see `deadline`), and
//! leaves no choice of how the tasks of answers run (see `polled_again`).

use super::polled_again::PolledAgain;
use crate::peer::Connection;
use futures_util::{Stream, StreamExt};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use std::{convert::Infallible, io, pin::pin, time::Duration};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    body::Body,
    codegen::http::{Request, Response},
    transport::server::Connected,
};
use tower::{Service, ServiceExt};

const STREAMS_PER_CONNECTION: u32 = 1_024;
/// Errors of a caller on a connection, over its whole life: each keeps a stream until its reset is
/// written, which somebody who reads nothing can put off. What still comes of a call that was
/// refused early counts as one, too, so there is to be room for many of these.
const MAX_STREAM_ERRORS: usize = 4 * STREAMS_PER_CONNECTION as usize;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const MAX_FRAME_BYTES: u32 = 128 << 10;
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this time a connection takes no new call, so that callers come to replicas that are new,
/// and present certificates that are still valid. Calls that go on, go on.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(1_800);

/// Serves connections until `ending` resolves. Those that are open take no new calls then, and it
/// returns when the calls on them have ended. If it is dropped before, they end without it.
pub(super) async fn serve<S>(
    service: S,
    connections: impl Stream<Item = io::Result<Connection>>,
    ending: impl Future<Output = ()>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let (open, retired) = (TaskTracker::new(), CancellationToken::new());
    let retire = retired.clone().drop_guard();
    accept(connections, ending, |connection| {
        open.spawn(answer(service.clone(), connection, retired.clone()));
    })
    .await;
    drop(retire);
    open.close();
    open.wait().await;
}

/// Hands on new connections. When it returns, nobody takes them any more.
async fn accept(
    connections: impl Stream<Item = io::Result<Connection>>,
    ending: impl Future<Output = ()>,
    accepted: impl Fn(Connection),
) {
    let (mut connections, mut ending) = (pin!(connections), pin!(ending));
    loop {
        let connection = tokio::select! {
            () = &mut ending => return,
            connection = connections.next() => connection,
        };
        match connection {
            Some(Ok(connection)) => accepted(connection),
            Some(Err(error)) => tracing::debug!(%error, "a connection was not accepted"),
            None => return,
        }
    }
}

/// Answers the calls of a connection, and those that have begun when it is `retired`.
async fn answer<S>(service: S, connection: Connection, retired: CancellationToken)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let info = connection.connect_info();
    let service = service.map_request(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(info.clone());
        request
    });
    let builder = builder();
    let service = TowerToHyperService::new(service);
    let mut served = pin!(builder.serve_connection(TokioIo::new(connection), service));
    let served = tokio::select! {
        served = served.as_mut() => served,
        () = until_old(retired) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection broke off");
    }
}

/// Resolves when a connection is to take no new calls.
async fn until_old(retired: CancellationToken) {
    tokio::select! {
        () = retired.cancelled() => {}
        () = sleep(MAX_CONNECTION_AGE) => {}
    }
}

fn builder() -> Builder<PolledAgain> {
    let mut builder = Builder::new(PolledAgain);
    // With a timer the head of a request over HTTP/1 has 30 s.
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_local_error_reset_streams(MAX_STREAM_ERRORS);
    builder
}
