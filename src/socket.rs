//! What every connection over TCP has in common, accepted or dialled: no delay of small writes, and
//! keep-alive, so that one whose other side has vanished ends by itself.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

/// Silence after which the other side is probed, the interval of the probes, and how many may be
/// missed.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Sets the options of a new connection. One that cannot have them works all the same.
pub(crate) fn configure(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    let configured = stream
        .set_nodelay(true)
        .and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = configured {
        tracing::debug!(%error, "the options of a connection could not be set");
    }
}
