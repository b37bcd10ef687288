//! The servers a client may use: one at a time, and the next one when the present one cannot be
//! reached or shuts down. Any replica accepts any call, so it does not matter which.

use crate::{
    error::{Error, Result},
    tls::Tls,
};
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tonic::{
    codegen::http::uri::{Scheme, Uri},
    transport::{self, Channel, Endpoint},
};
use tower::service_fn;

/// How long connecting to one server may take, unless the caller says otherwise.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE: Duration = Duration::from_secs(20);
/// After what silence a server is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// How long it may take to answer: long enough for a large call that is sent before it on a slow
/// connection, and short enough that a hold outlives the loss of the server. The same with several
/// servers: where a living connection is given up, the large call is sent anew to the next one, as
/// slowly.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Channels to the servers, and which one is in use. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    channels: Arc<[Channel]>,
    present: Arc<AtomicUsize>,
    /// How long a connection may take to be made.
    within: Duration,
    /// An address off this machine that is reached in plain text, if there is one.
    readable: Option<Arc<str>>,
}

/// The server that a call was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick(usize);

impl Servers {
    /// Connects to the first of `addresses` (separated by commas) that answers `within` this time.
    pub(crate) async fn connect(addresses: &str, within: Duration, tls: &Tls) -> Result<Servers> {
        let endpoints = addresses_of(addresses, within, tls)?;
        let mut failure = None;
        for (index, endpoint) in endpoints.iter().enumerate() {
            match endpoint.connect().await {
                Ok(channel) => {
                    let others = endpoints.iter().map(Address::connect_lazy).enumerate();
                    let channels =
                        others.map(|(at, lazy)| if at == index { channel.clone() } else { lazy });
                    return Ok(Servers {
                        channels: channels.collect(),
                        present: Arc::new(AtomicUsize::new(index)),
                        within,
                        readable: readable(&endpoints),
                    });
                }
                Err(error) => failure = Some(Error::from(error)),
            }
        }
        Err(failure.unwrap_or_else(no_address))
    }

    /// As [`Servers::connect`], but connects at the first call.
    pub(crate) fn connect_lazy(addresses: &str, tls: &Tls) -> Result<Servers> {
        let endpoints = addresses_of(addresses, CONNECT_TIMEOUT, tls)?;
        Ok(Servers {
            channels: endpoints.iter().map(Address::connect_lazy).collect(),
            present: Arc::default(),
            within: CONNECT_TIMEOUT,
            readable: readable(&endpoints),
        })
    }

    /// Fails when others could read what is sent to one of them.
    pub(crate) fn check_unreadable(&self) -> Result<()> {
        match &self.readable {
            None => Ok(()),
            Some(address) => Err(tonic::Status::invalid_argument(format!(
                "a token would be sent to {address} in plain text, for others to read: write \
                 https://, or allow it where the network itself encrypts \
                 (Client::with_plain_text_tokens, --plain-text-token)"
            ))
            .into()),
        }
    }

    /// The server in use.
    pub(crate) fn pick(&self) -> (Pick, Channel) {
        let index = self.present.load(Ordering::Relaxed) % self.channels.len();
        (Pick(index), self.channels[index].clone())
    }

    /// A call that has lasted longer than this was made to a server that was there: one that does
    /// not answer is given up before.
    pub(crate) fn longest_silence(&self) -> Duration {
        let given_up = PING_TIMEOUT.saturating_add(self.within);
        let silence = given_up.max(2 * (PING_INTERVAL + PING_TIMEOUT));
        match self.channels.len() > 1 {
            true => silence,
            // What stands before the only one gives up after a minute, usually, whether that is
            // there or not.
            false => silence.max(Duration::from_secs(120)),
        }
    }

    /// Uses the next server, unless another call has switched already. Returns whether there is
    /// another server.
    pub(crate) fn switch_from(&self, pick: Pick) -> bool {
        let next = (pick.0 + 1) % self.channels.len();
        // A failed exchange means that another call has switched already.
        let _ = self
            .present
            .compare_exchange(pick.0, next, Ordering::Relaxed, Ordering::Relaxed);
        self.channels.len() > 1
    }
}

/// Where a server is, and how it is reached.
struct Address {
    endpoint: Endpoint,
    /// `None`: plain text.
    tls: Option<Tls>,
}

impl Address {
    async fn connect(&self) -> std::result::Result<Channel, transport::Error> {
        match self.tls.clone() {
            None => self.endpoint.connect().await,
            Some(tls) => {
                let dial = service_fn(move |to| tls.clone().connect(to));
                self.endpoint.connect_with_connector(dial).await
            }
        }
    }

    /// What is sent there stays on this machine.
    fn is_here(&self) -> bool {
        let host = self.endpoint.uri().host().unwrap_or_default();
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
    }

    fn connect_lazy(&self) -> Channel {
        match self.tls.clone() {
            None => self.endpoint.connect_lazy(),
            Some(tls) => {
                let dial = service_fn(move |to| tls.clone().connect(to));
                self.endpoint.connect_with_connector_lazy(dial)
            }
        }
    }
}

/// The first that others could read what is sent to.
fn readable(addresses: &[Address]) -> Option<Arc<str>> {
    let is_readable = |address: &&Address| address.tls.is_none() && !address.is_here();
    let found = addresses.iter().find(is_readable);
    found.map(|address| address.endpoint.uri().to_string().into())
}

fn addresses_of(addresses: &str, within: Duration, tls: &Tls) -> Result<Vec<Address>> {
    let addresses: Vec<&str> = addresses
        .split(',')
        .map(str::trim)
        .filter(|address| !address.is_empty())
        .collect();
    if addresses.is_empty() {
        return Err(no_address());
    }
    addresses
        .iter()
        .map(|address| endpoint(address, within, tls))
        .collect()
}

fn no_address() -> Error {
    tonic::Status::invalid_argument("no address of a server").into()
}

fn endpoint(address: &str, within: Duration, tls: &Tls) -> Result<Address> {
    let url = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    let endpoint = Endpoint::from_shared(url)?;
    let is_tls = endpoint.uri().scheme_str() == Some("https");
    let endpoint = if is_tls {
        tls.check()?;
        dialed_by_us(endpoint.uri().clone())
    } else {
        endpoint
    };
    let endpoint = endpoint
        .connect_timeout(within)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    Ok(Address {
        endpoint,
        tls: is_tls.then(|| tls.clone()),
    })
}

/// Where [`Tls::connect`] connects to. Where any crate of a program turns on tonic's own TLS, tonic
/// refuses an `https` address that it has not been given certificates for. So it connects to one
/// of `http`, while requests say which scheme it is.
fn dialed_by_us(url: Uri) -> Endpoint {
    let mut dialed = url.clone().into_parts();
    dialed.scheme = Some(Scheme::HTTP);
    // An address with its authority and path is one whatever its scheme is.
    let dialed = Uri::from_parts(dialed).unwrap_or_else(|_| url.clone());
    Endpoint::from(dialed).origin(url)
}

#[cfg(test)]
mod tests {
    use super::{Duration, PING_INTERVAL, PING_TIMEOUT, Servers};
    use crate::{Client, Tls, lease::Renewal};
    use tokio::time::Instant;

    #[test]
    fn the_loss_of_a_server_is_noticed_before_a_hold_of_the_default_lease_is_lost() {
        let renewal = Renewal {
            sent: Instant::now(),
            lease: Duration::from_secs(15),
            left: None,
        };
        let (lost, _) = renewal.until("limit");
        let noticed = renewal.next() + PING_INTERVAL + PING_TIMEOUT;
        let left = lost.saturating_duration_since(noticed);
        // It is renewed once more on another connection.
        assert!(left >= Duration::from_secs(1), "{left:?}");
    }

    #[tokio::test]
    async fn a_connection_may_take_as_long_as_can_be_said() {
        let servers = Servers {
            within: Duration::MAX,
            ..Servers::connect_lazy("127.0.0.1:1", &Tls::new()).expect("an address")
        };
        assert_eq!(servers.longest_silence(), Duration::MAX);
    }

    #[tokio::test]
    async fn a_token_is_not_sent_where_others_can_read_it() {
        let token = "secret".to_owned().into();
        let plain = "127.0.0.1:1,http://db.example:50051";
        for (address, is_refused) in [
            ("http://127.0.0.1:1", false),
            ("localhost:1", false),
            ("http://[::1]:1", false),
            ("https://db.example:1", false),
            ("http://db.example:1", true),
            ("http://10.0.0.1:1", true),
            (plain, true),
        ] {
            let client = Client::connect_lazy(address).expect("an address");
            let refused = client.with_token(&token).map(drop).err();
            assert_eq!(refused.is_some(), is_refused, "{address}: {refused:?}");
        }
        let client = Client::connect_lazy(plain).expect("addresses");
        let allowed = client.with_plain_text_tokens().with_token(&token);
        assert!(allowed.is_ok(), "{allowed:?}");
    }
}
