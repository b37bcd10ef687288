//! One channel to each other replica, created on first use. A channel connects and reconnects by
//! itself.

use super::Tls;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tonic::transport::{Channel, Endpoint, Error};

/// Within one network a connection is established at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between pings, and how long a replica may take to answer one.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// Bytes of a forwarded stream that may wait here until its caller reads them.
const STREAM_WINDOW: u32 = 128 << 10;
/// The largest window there is: with a smaller one, streams that callers do not read would use it
/// up and block all others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// When there are more, all are dropped, and with them those to replicas that are gone.
const MAX_CHANNELS: usize = 64;

/// The other replicas, by address. Clones share the channels.
#[derive(Clone, Debug)]
pub struct Peers {
    tls: Option<Tls>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
}

impl Peers {
    /// Channels that use these certificates; `None`: plain text.
    pub fn new(tls: Option<Tls>) -> Peers {
        Peers {
            tls,
            channels: Arc::default(),
        }
    }

    /// The channel to the replica at `address` (`host:port`). Fails when the address is malformed;
    /// connects on first use.
    pub fn channel(&self, address: &str) -> Result<Channel, Error> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.connect(address)?;
        if channels.len() >= MAX_CHANNELS {
            channels.clear();
        }
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    fn connect(&self, address: &str) -> Result<Channel, Error> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if let Some(tls) = &self.tls {
            endpoint = endpoint.tls_config(tls.client())?;
        }
        Ok(endpoint.connect_lazy())
    }
}
