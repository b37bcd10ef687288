//! One channel to each other replica, made when it is first asked for. A channel connects by itself, and again.

use super::Tls;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tonic::transport::{Channel, Endpoint, Error};

/// A connection within one network is there at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A replica that is stopped, or cut off, does not answer a ping.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// What a forwarded stream may hold here that its caller does not read.
const STREAM_WINDOW: u32 = 128 << 10;
/// The most there can be: what callers do not read would use up a smaller one, and everybody else would wait for them.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// Channels kept; addresses of replicas that are no more go with the rest when there are more.
const CHANNELS: usize = 64;

/// The other replicas, by address. Clones share the channels.
#[derive(Clone, Debug)]
pub struct Peers {
    tls: Option<Tls>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
}

impl Peers {
    /// With these certificates; `None`: without any.
    pub fn new(tls: Option<Tls>) -> Peers {
        Peers {
            tls,
            channels: Arc::default(),
        }
    }

    /// The channel to the replica at `address` (`host:port`). Fails when that is no address; connects only when used.
    pub fn channel(&self, address: &str) -> Result<Channel, Error> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.connect(address)?;
        if channels.len() >= CHANNELS {
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
