//! The port for operators: metrics, whether the process lives and serves, and how many executors
//! there should be (`scaler.rs`). Plain HTTP without identities, since the probes of Kubernetes and
//! many collectors know nothing else: it shows counts and the names of targets, changes nothing,
//! and is for an address that only they reach.
//!
//! It answers from the start on, also while the coordination database is waited for.

use super::{
    scaler::{self, Scaler},
    scrape::Scrape,
};
use crate::{metrics::Metrics, peer::network};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

/// Connections at a time; for another one the oldest is closed, so that a probe never waits.
const MAX_CONNECTIONS: usize = 64;
/// Of them, those from one address: a collector gone wild closes its own and not those of probes.
const MAX_PER_ADDRESS: usize = 16;
/// How long a connection may take to send the headers of its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Calls at a time on a connection, and bytes of their headers.
const MAX_STREAMS: u32 = 16;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const KEEPALIVE: Duration = Duration::from_secs(20);
/// The longest life of a connection.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Pause after an accept failed.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The loop runs each second. When it has not for so long it hangs, and a new process is better.
const MAX_LOOP_IDLE: Duration = Duration::from_secs(30);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A port that is bound and not served yet.
#[derive(Clone)]
pub struct AdminPort(Arc<std::net::TcpListener>);

impl AdminPort {
    /// Binds an address; port 0: any free one. Fails when it is taken.
    pub fn bind(address: SocketAddr) -> io::Result<AdminPort> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(AdminPort(Arc::new(listener)))
    }

    /// The address it is bound to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn listener(&self) -> io::Result<TcpListener> {
        self.0.try_clone()?.try_into()
    }
}

impl fmt::Debug for AdminPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdminPort").field(&self.address()).finish()
    }
}

/// What is shown there.
#[derive(Clone, Debug, Default)]
pub(super) struct Admin {
    pub metrics: Metrics,
    /// Where levels are read; not yet known while the database is waited for.
    source: Arc<OnceLock<Scrape>>,
    /// Likewise.
    scaler: scaler::Source,
}

impl Admin {
    /// From now on scrapes show what these parts say.
    pub(super) fn started(&self, source: Scrape, scaler: Scaler) {
        // A server starts once.
        let _ = self.source.set(source);
        let _ = self.scaler.set(scaler);
    }

    /// Serves until the handle is dropped.
    pub(super) fn start(self, port: AdminPort) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(self.serve(port)))
    }

    async fn serve(self, port: AdminPort) {
        let listener = match port.listener() {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the admin address cannot be served"),
        };
        let scaler = self.scaler.clone();
        let routes = Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .with_state(self)
            .merge(scaler::routes(scaler));
        let mut open = OpenConnections::default();
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the admin address failed");
                    sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let routes = routes.clone();
            let answered = tokio::spawn(answer(stream, routes));
            open.add(from.ip(), answered.abort_handle());
        }
    }
}

/// Connections in the order in which they came.
#[derive(Default)]
struct OpenConnections(Vec<(IpAddr, AbortHandle)>);

impl OpenConnections {
    /// Adds a connection, and closes the oldest of its address or of all if there are too many.
    fn add(&mut self, from: IpAddr, connection: AbortHandle) {
        let from = network(from);
        self.0.retain(|(_, connection)| !connection.is_finished());
        let of_address = self.0.iter().filter(|(address, _)| *address == from);
        let oldest = match of_address.count() >= MAX_PER_ADDRESS {
            true => self.0.iter().position(|(address, _)| *address == from),
            false => (self.0.len() >= MAX_CONNECTIONS).then_some(0),
        };
        if let Some(oldest) = oldest {
            self.0.remove(oldest).1.abort();
        }
        self.0.push((from, connection));
    }
}

async fn answer(stream: TcpStream, routes: Router) {
    // Which version of HTTP it is shows in the first bytes, which nothing else waits for.
    if timeout(HEADER_TIMEOUT, stream.readable()).await.is_err() {
        return;
    }
    let mut server = auto::Builder::new(TokioExecutor::new());
    let mut http1 = server.http1();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    let mut http2 = server.http2();
    http2.timer(TokioTimer::new());
    http2.max_concurrent_streams(MAX_STREAMS);
    http2.max_header_list_size(MAX_HEADER_BYTES);
    http2.keep_alive_interval(KEEPALIVE);
    let service = TowerToHyperService::new(routes);
    let mut served = pin!(server.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = served.as_mut() => served,
        // Whoever stays longer connects again; what is being answered is answered.
        () = sleep(MAX_CONNECTION_AGE) => {
            served.as_mut().graceful_shutdown();
            timeout(HEADER_TIMEOUT, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection to the admin address broke off");
    }
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    if let Some(source) = admin.source.get() {
        source.read_levels().await;
    }
    ([(CONTENT_TYPE, OPEN_METRICS)], admin.metrics.text())
}

/// Whether the process works, whatever the database does: a restart mends nothing there.
async fn livez(State(admin): State<Admin>) -> impl IntoResponse {
    let idle = admin.source.get().and_then(Scrape::loop_idle);
    match idle.is_some_and(|idle| idle > MAX_LOOP_IDLE) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "the loop hangs\n"),
        false => (StatusCode::OK, "ok\n"),
    }
}

/// Whether callers are served, as the health service says it.
async fn readyz(State(admin): State<Admin>) -> impl IntoResponse {
    match admin.metrics.replica.ready.get() > 0.0 {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn an_address_that_takes_more_than_its_share_loses_its_own() {
        let mut open = OpenConnections::default();
        let mut add = |address: [u8; 4]| {
            let connection = tokio::spawn(pending::<()>());
            open.add(address.into(), connection.abort_handle());
            connection
        };
        let probe = add([192, 0, 2, 1]);
        let mut flood: Vec<_> = (0..200).map(|_| add([192, 0, 2, 2])).collect();
        let kept = flood.split_off(flood.len() - MAX_PER_ADDRESS);
        for closed in flood {
            assert!(closed.await.expect_err("closed").is_cancelled());
        }
        assert!(!probe.is_finished() && kept.iter().all(|one| !one.is_finished()));
        let from_everywhere: Vec<_> = (3..200).map(|host| add([192, 0, 2, host])).collect();
        assert!(probe.await.is_err(), "the oldest of all");
        assert!(
            from_everywhere
                .iter()
                .rev()
                .take(MAX_CONNECTIONS)
                .all(|one| !one.is_finished())
        );
    }
}
