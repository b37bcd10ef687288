//! Connections of callers and replicas: accepting, dialling, TLS (`caller_tls`, `certified`,
//! `tls`); and the port of the replicas, with mutual TLS.
//!
//! Whoever gets through that port is trusted as a replica: what it says about the caller of a
//! forwarded call is believed. So it must never be exposed to callers, and without certificates it
//! must be protected by other means.

mod admission;
mod caller_tls;
mod certified;
mod channels;
mod connect_probe;
mod connection;
mod incoming;
mod renewed;
mod strangers;
mod tls;
mod turns;
mod usefulness;
mod write_timeout;

pub use caller_tls::{CallerTls, CallerTlsFiles};
pub use certified::{Certified, validity};
pub use channels::Peers;
pub(crate) use connect_probe::refuses;
pub use connection::{Connection, ConnectionInfo};
pub use incoming::{Accept, connections};
pub(crate) use strangers::network;
pub use strangers::{Stranger, Strangers};
pub(crate) use tls::ANOTHER_KEY;
pub use tls::{Tls, TlsFiles};
pub use turns::Turns;
pub use usefulness::{Use, Usefulness};

use channels::LARGE_PING_TIMEOUT;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::Server};

/// Each replica opens a few.
const MAX_CONNECTIONS: usize = 256;
const STREAMS_PER_CONNECTION: u32 = 65_536;
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
const MAX_HEADER_BYTES: u32 = 32 << 10;
/// Interval between pings.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// How other replicas reach this one.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Address that other replicas use, as `host:port`; `None`: the one it listens on.
    pub advertise: Option<String>,
    /// Certificates for mutual TLS; `None`: plain text, and any peer is trusted.
    pub tls: Option<Tls>,
    /// Names of which a replica's certificate must have one (`*.` stands for one label in front);
    /// none: every certificate of the authority is a replica's.
    pub names: Vec<String>,
}

/// The peer port, bound and not yet served.
pub struct Port {
    listener: TcpListener,
    tls: Option<Tls>,
    names: Arc<[String]>,
    address: String,
}

impl Port {
    /// Binds the port. Fails when the address is taken.
    pub async fn bind(config: PeerConfig) -> std::io::Result<Port> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = match config.advertise {
            Some(address) => address,
            None => listener.local_addr()?.to_string(),
        };
        if config.tls.is_none() {
            tracing::warn!(
                %address,
                "the peer port accepts any connection: \
                 set certificates with --peer-cert, --peer-key and --peer-ca"
            );
        }
        Ok(Port {
            listener,
            tls: config.tls,
            names: config.names.into(),
            address,
        })
    }

    /// Address that other replicas use, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Channels to the other replicas, with the same certificates.
    pub fn peers(&self) -> Peers {
        Peers::new(self.tls.clone())
    }

    /// Serves `routes` to the other replicas until `stopping`, then drops their connections.
    pub async fn serve(self, routes: Routes, stopping: CancellationToken) -> anyhow::Result<()> {
        let accept = match self.tls.clone() {
            Some(tls) => Accept::Replicas(tls, self.names),
            None => Accept::Plain,
        };
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let served = Server::builder()
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Callers that vanish together are reset together, and nobody else is to suffer for it.
            .http2_max_pending_accept_reset_streams(Some(STREAMS_PER_CONNECTION as usize))
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(LARGE_PING_TIMEOUT))
            .add_routes(routes)
            .serve_with_incoming(connections(self.listener, permits, accept, None, None));
        let renewed = async {
            match self.tls {
                Some(tls) => tls.keep_reading().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            served = served => Ok(served?),
            () = renewed => Ok(()),
            () = stopping.cancelled() => Ok(()),
        }
    }
}
