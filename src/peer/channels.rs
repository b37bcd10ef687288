//! Three channels to each other replica, created on first use: for calls, for large calls, behind
//! which others would wait, and for streams, of which so many may be open that no call would get
//! through beside them. A channel connects and reconnects by itself, with the latest certificates.
//! Each session of an executor has one more.

use super::{Tls, connection::Stream};
use crate::socket;
use hyper_util::rt::TokioIo;
use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpStream, time::Instant};
use tonic::{
    codegen::http::Uri,
    transport::{Channel, Endpoint, Error},
};
use tower::service_fn;

/// Within one network a connection is established, with TLS, at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// After a connection that was not made: as long as that, whoever waits is told so at once, and
/// not one after the other.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Interval between pings, and how long a replica may take to answer one.
const KEEPALIVE: Duration = Duration::from_secs(1);
/// How long it may take beside large messages, for either side: over a slow link a ping waits
/// behind what is on its way of them. That is 1 MiB of a call or a report (`STREAM_WINDOW` of the
/// port) and 4 MiB of many (what Linux buffers of a connection), so it takes a link of 70 KiB a
/// second for one at a time and of 280 KiB a second for many, however large they are.
///
/// A replica that has vanished holds the room of its callers until then, so it is well below the
/// half minute for which clients repeat a call. A session notices by itself when the other side is
/// silent, and a call when another replica owns the shard.
pub(super) const LARGE_PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of a forwarded stream that may wait here until its caller reads them.
const STREAM_WINDOW: u32 = 128 << 10;
/// The largest window there is: with a smaller one, streams that callers do not read would use it
/// up and block all others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;
/// When there are more, all are dropped, and with them those to replicas that are gone.
const MAX_CHANNELS: usize = 128;

/// The other replicas, by address. Clones share the channels.
#[derive(Clone, Debug)]
pub struct Peers {
    tls: Option<Tls>,
    channels: Arc<Mutex<HashMap<(String, Use), Channel>>>,
}

/// What a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    Calls,
    LargeCalls,
    Streams,
}

impl Peers {
    /// Channels that use these certificates; `None`: plain text.
    pub fn new(tls: Option<Tls>) -> Peers {
        Peers {
            tls,
            channels: Arc::default(),
        }
    }

    /// The channel for calls to the replica at `address` (`host:port`). Fails when the address is
    /// malformed; connects on first use.
    pub fn channel(&self, address: &str) -> Result<Channel, Error> {
        self.for_use(address, Use::Calls)
    }

    /// The same for calls with large messages: while one is on its way over a slow link, other
    /// calls go on, and the connection is not taken for one that is silent.
    pub fn large_calls(&self, address: &str) -> Result<Channel, Error> {
        self.for_use(address, Use::LargeCalls)
    }

    /// The same for what stays open: streams, and calls that wait for tasks.
    pub fn streams(&self, address: &str) -> Result<Channel, Error> {
        self.for_use(address, Use::Streams)
    }

    /// A channel for one session of an executor: it keeps no call waiting, and the next session is
    /// not on a connection on which this one heard nothing more.
    pub fn session(&self, address: &str) -> Result<Channel, Error> {
        self.connect(address, LARGE_PING_TIMEOUT)
    }

    fn for_use(&self, address: &str, used: Use) -> Result<Channel, Error> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.to_owned(), used);
        if let Some(channel) = channels.get(&key) {
            return Ok(channel.clone());
        }
        let ping_timeout = match used {
            Use::Calls | Use::Streams => KEEPALIVE,
            Use::LargeCalls => LARGE_PING_TIMEOUT,
        };
        let channel = self.connect(address, ping_timeout)?;
        if channels.len() >= MAX_CHANNELS {
            channels.clear();
        }
        channels.insert(key, channel.clone());
        Ok(channel)
    }

    fn connect(&self, address: &str, ping_timeout: Duration) -> Result<Channel, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(ping_timeout)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            // Callers who vanish leave much under way that is reset when it comes.
            .http2_max_local_error_reset_streams(None);
        let (tls, failed) = (self.tls.clone(), Failed::default());
        let connector = service_fn(move |uri| failed.clone().guard(dial(uri, tls.clone())));
        Ok(endpoint.connect_with_connector_lazy(connector))
    }
}

/// Until when a channel makes no connection, since the last one was not made, and why.
#[derive(Clone, Default)]
struct Failed(Arc<Mutex<Option<(Instant, String)>>>);

impl Failed {
    async fn guard<T>(self, dialled: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        if let Some(why) = self.why() {
            return Err(io::Error::new(io::ErrorKind::HostUnreachable, why));
        }
        // One that takes too long is dropped.
        let late = "no connection within a second".to_owned();
        self.set(Some((Instant::now() + CONNECT_TIMEOUT + RETRY_DELAY, late)));
        let made = dialled.await;
        let failed = made.as_ref().err();
        self.set(failed.map(|error| (Instant::now() + RETRY_DELAY, error.to_string())));
        made
    }

    fn why(&self) -> Option<String> {
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failed.as_ref().filter(|(until, _)| Instant::now() < *until);
        failed.map(|(_, why)| why.clone())
    }

    fn set(&self, failed: Option<(Instant, String)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }
}

async fn dial(uri: Uri, tls: Option<Tls>) -> io::Result<TokioIo<Box<dyn Stream>>> {
    let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err(io::Error::other("the address of a replica is HOST:PORT"));
    };
    let stream = TcpStream::connect((bare(host), port)).await?;
    socket::configure(&stream);
    let stream: Box<dyn Stream> = match tls {
        Some(tls) => Box::new(tls.connect(bare(host), stream).await?),
        None => Box::new(stream),
    };
    Ok(TokioIo::new(stream))
}

/// The host without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_behind_a_connection_that_is_not_made_is_told_so_at_once() {
        let failed = Failed::default();
        let never = || {
            failed
                .clone()
                .guard(std::future::pending::<io::Result<()>>())
        };
        let refused = || async { Err::<(), _>(io::Error::other("refused")) };
        let made = || failed.clone().guard(async { Ok(()) });
        assert!(made().await.is_ok() && made().await.is_ok());
        assert!(
            tokio::time::timeout(CONNECT_TIMEOUT, never())
                .await
                .is_err()
        );
        assert!(never().await.is_err(), "at once");
        tokio::time::advance(RETRY_DELAY).await;
        assert!(failed.clone().guard(refused()).await.is_err());
        assert!(made().await.is_err(), "at once");
        tokio::time::advance(RETRY_DELAY).await;
        assert!(made().await.is_ok() && made().await.is_ok());
    }
}
