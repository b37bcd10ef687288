//! Connections of callers, with the limits of the transport: HTTP/2 for gRPC, and HTTP/1 for what
//! the gateway takes.
//!
//! tonic's server is not used: it has a timer of its own for each deadline (see `deadline`), and
//! leaves no choice of how the tasks of answers run (see `polled_again`).
//!
//! Connections are retired after some time, and when other authorities may sign the certificates of
//! callers: they take no new calls, and calls that go on, go on. The next calls come by new
//! connections, on which callers show the certificates that they have then.

use super::polled_again::PolledAgain;
use crate::peer::{CallerTls, Connection};
use futures_util::{Stream, StreamExt};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use std::{convert::Infallible, io, pin::pin, time::Duration};
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    body::Body,
    codegen::http::{Request, Response},
    transport::server::Connected,
};
use tower::{Service, ServiceExt};

const STREAMS_PER_CONNECTION: u32 = 1_024;
/// Errors of HTTP/2 on a connection, over its whole life: each takes some memory until its reset is
/// written, which somebody who reads nothing can put off. Honest callers make some as well: each
/// frame of a call that was refused long before it, and each stream beyond the limit.
const MAX_STREAM_ERRORS: usize = 8 * STREAMS_PER_CONNECTION as usize;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const MAX_FRAME_BYTES: u32 = 128 << 10;
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this time a connection takes no new call, so that callers come to replicas that are new,
/// and present certificates that are still valid. Calls that go on, go on.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(1_800);
/// How long a retired connection goes on as before: one on which nothing was said yet would be
/// closed, and the call that comes would fail.
const OPENING_GRACE: Duration = Duration::from_secs(1);

/// Serves connections until `stopping`. Those that are open take no new calls then, and it returns
/// when the calls on them have ended. If it is dropped before, they end without it.
pub(super) async fn serve<S>(
    service: S,
    connections: impl Stream<Item = io::Result<Connection>>,
    tls: Option<&CallerTls>,
    stopping: &CancellationToken,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let (open, ending) = (TaskTracker::new(), stopping.child_token());
    let end = ending.clone().drop_guard();
    accept(connections, tls, &ending, |connection, retired| {
        let old = until_old(retired, ending.clone());
        open.spawn(answer(service.clone(), connection, old));
    })
    .await;
    drop(end);
    open.close();
    open.wait().await;
}

/// Hands on new connections, each with what says that it is retired, until all of them are ending.
async fn accept(
    connections: impl Stream<Item = io::Result<Connection>>,
    tls: Option<&CallerTls>,
    ending: &CancellationToken,
    accepted: impl Fn(Connection, CancellationToken),
) {
    let mut connections = pin!(connections);
    loop {
        let retired = ending.child_token();
        let mut others_sign = pin!(others_sign(tls));
        loop {
            let connection = tokio::select! {
                () = ending.cancelled() => return,
                () = &mut others_sign => {
                    tracing::info!("callers come by new connections: others sign certificates");
                    retired.cancel();
                    break;
                }
                connection = connections.next() => connection,
            };
            match connection {
                // Signed by somebody who may not do so any more.
                Some(Ok(connection)) if connection.is_withdrawn() => {}
                Some(Ok(connection)) => accepted(connection, retired.clone()),
                Some(Err(error)) => tracing::debug!(%error, "a connection was not accepted"),
                None => return,
            }
        }
    }
}

/// Resolves when others may sign the certificates of callers than now.
async fn others_sign(tls: Option<&CallerTls>) {
    match tls {
        Some(tls) => tls.other_authorities().await,
        None => std::future::pending().await,
    }
}

/// Answers the calls of a connection, from when it is `old` only those that have begun.
async fn answer<S>(service: S, connection: Connection, old: impl Future<Output = ()>)
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
        () = old => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection broke off");
    }
}

/// Resolves when a connection is to take no new calls.
async fn until_old(retired: CancellationToken, ending: CancellationToken) {
    tokio::select! {
        () = retired.cancelled() => {
            let _ = timeout(OPENING_GRACE, ending.cancelled()).await;
        }
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
