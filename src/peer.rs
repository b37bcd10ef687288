//! The way between replicas: a port of its own with mutual authentication, and the channels to the other replicas' ports.
//!
//! Whoever gets through the port is a replica: what it says about who calls is believed. So it must never be the port of
//! callers, and without certificates it must be closed to everybody else by other means.

mod channels;
mod incoming;
mod tls;

pub use channels::Peers;
pub use incoming::connections;
pub use tls::{Tls, TlsFiles};

use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::Server};

/// Connections of other replicas: a few each.
const CONNECTIONS: usize = 256;
const STREAMS_PER_CONNECTION: u32 = 65_536;
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
const HEADER_BYTES: u32 = 32 << 10;
/// A replica that says nothing for so long, though asked, is gone.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// How a replica is reached by the others.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Where it listens for them.
    pub listen: SocketAddr,
    /// Where they reach it, as `host:port`; `None`: where it listens.
    pub advertise: Option<String>,
    /// Who it is and whom it believes; `None`: everybody.
    pub tls: Option<Tls>,
}

/// The port of the replicas, bound and not yet served.
pub struct Port {
    listener: TcpListener,
    tls: Option<Tls>,
    address: String,
}

impl Port {
    /// Binds it. Fails when the address is taken.
    pub async fn bind(config: PeerConfig) -> std::io::Result<Port> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = match config.advertise {
            Some(address) => address,
            None => listener.local_addr()?.to_string(),
        };
        if config.tls.is_none() {
            tracing::warn!(
                %address,
                "the port of the replicas is open to whoever reaches it: name certificates with --peer-cert, --peer-key, --peer-ca"
            );
        }
        Ok(Port {
            listener,
            tls: config.tls,
            address,
        })
    }

    /// Where the other replicas reach it, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The channels to the others, with the same certificates.
    pub fn peers(&self) -> Peers {
        Peers::new(self.tls.clone())
    }

    /// Serves `routes` to the other replicas until `stopping`, then drops their connections.
    pub async fn serve(self, routes: Routes, stopping: CancellationToken) -> anyhow::Result<()> {
        let mut server = Server::builder()
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(HEADER_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE));
        if let Some(tls) = &self.tls {
            server = server.tls_config(tls.server())?;
        }
        let served = server
            .add_routes(routes)
            .serve_with_incoming(connections(self.listener, CONNECTIONS));
        match stopping.run_until_cancelled(served).await {
            Some(served) => Ok(served?),
            None => Ok(()),
        }
    }
}
