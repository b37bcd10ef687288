//! Connections that go silent for good, as when a network drops packets and tells nobody: what
//! either side sends from then on is swallowed. Which connection does is decided by its purpose.
//!
//! The side of the service is never closed from here, so that its own limits are put to the test.
//! The other side is, after as long as a keep-alive would take.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::timeout,
};

/// When the keep-alives give up that the service asks Postgres for; a caller's last no longer.
const KEEPALIVE: Duration = Duration::from_secs(25);

/// What a connection is for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(crate) enum Purpose {
    /// The duties of the journal, by the names of its connections.
    Writer,
    Heartbeat,
    Ownership,
    Reader,
    Recovery,
    Batches,
    Maintenance,
    /// A task, or the control of what runs on a target.
    Target,
    /// Another server.
    Peer,
    /// A caller.
    Caller,
    /// A caller who has not said anything yet.
    Opening,
    #[default]
    Unknown,
}

/// By the `application_name` in the first message of a session.
const SESSIONS: [(&[u8], Purpose); 8] = [
    (b"rallypoint journal writer", Purpose::Writer),
    (b"rallypoint journal heartbeat", Purpose::Heartbeat),
    (b"rallypoint journal ownership", Purpose::Ownership),
    (b"rallypoint journal reader", Purpose::Reader),
    (b"rallypoint journal recovery", Purpose::Recovery),
    (b"rallypoint journal batches", Purpose::Batches),
    (b"rallypoint journal maintenance", Purpose::Maintenance),
    (b"rallypoint", Purpose::Target),
];

impl Purpose {
    /// Of a session of Postgres, by its first message.
    pub(super) fn of_session(first: &[u8]) -> Purpose {
        let mut fields = first.get(8..).unwrap_or_default().split(|byte| *byte == 0);
        fields.find(|field| *field == b"application_name");
        let name = fields.next().unwrap_or_default();
        let known = SESSIONS.iter().find(|(known, _)| *known == name);
        known.map_or(Purpose::Unknown, |(_, purpose)| *purpose)
    }
}

/// A connection that has gone silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silenced {
    pub purpose: Purpose,
    begun: Instant,
    given_up: Option<Instant>,
}

impl Silenced {
    /// How long the service kept it; true: until now.
    pub(crate) fn kept(&self) -> (Duration, bool) {
        match self.given_up {
            Some(at) => (at - self.begun, false),
            None => (self.begun.elapsed(), true),
        }
    }
}

/// Which connections are to go silent, and which have.
#[derive(Debug, Default)]
pub(crate) struct HalfOpens(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many more, each after how many messages.
    armed: BTreeMap<Purpose, (u32, u64)>,
    silenced: Vec<Silenced>,
}

impl HalfOpens {
    /// The next `connections` for a purpose go silent, as soon as `after` messages have passed.
    pub(crate) fn arm(&self, purpose: Purpose, connections: u32, after: u64) {
        self.state().armed.insert(purpose, (connections, after));
    }

    pub(crate) fn disarm(&self, purpose: Purpose) {
        self.state().armed.remove(&purpose);
    }

    pub(crate) fn silenced(&self) -> Vec<Silenced> {
        self.state().silenced.clone()
    }

    /// Whether a connection goes silent now, before its message after `passed` others; its number
    /// among those that did.
    pub(super) fn goes_silent(&self, purpose: Purpose, passed: u64) -> Option<usize> {
        let mut state = self.state();
        let (left, after) = state.armed.get_mut(&purpose)?;
        if *left == 0 || passed < *after {
            return None;
        }
        *left -= 1;
        let said_nothing = purpose == Purpose::Caller && passed == 0;
        state.silenced.push(Silenced {
            purpose: if said_nothing {
                Purpose::Opening
            } else {
                purpose
            },
            begun: Instant::now(),
            given_up: None,
        });
        Some(state.silenced.len() - 1)
    }

    /// Swallows what both sides send, until the service gives the connection up.
    pub(super) async fn swallow(
        &self,
        number: usize,
        client: (impl AsyncRead + Unpin, impl AsyncWrite),
        upstream: (impl AsyncRead + Unpin, impl AsyncWrite),
    ) {
        let purpose = self.state().silenced[number].purpose;
        let (client, upstream) = (drain(client), drain(upstream));
        match purpose {
            // Both sides are servers.
            Purpose::Peer => {
                tokio::join!(client, upstream);
                self.given_up(number);
            }
            Purpose::Caller | Purpose::Opening => {
                let service = async {
                    upstream.await;
                    self.given_up(number);
                };
                let _ = tokio::join!(timeout(KEEPALIVE, client), service);
            }
            _ => {
                let service = async {
                    client.await;
                    self.given_up(number);
                };
                let _ = tokio::join!(service, timeout(KEEPALIVE, upstream));
            }
        }
    }

    fn given_up(&self, number: usize) {
        self.state().silenced[number].given_up = Some(Instant::now());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads until the other side hangs up, and hangs up then.
async fn drain((mut from, _to): (impl AsyncRead + Unpin, impl AsyncWrite)) {
    let mut bytes = vec![0; 4096];
    while let Ok(1..) = from.read(&mut bytes).await {}
}

#[test]
fn a_session_is_known_by_its_name() {
    let first = |name: &str| {
        let fields = format!("user\0app\0application_name\0{name}\0options\0-c x=y\0\0");
        [b"\0\0\0\x40\0\x03\0\0", fields.as_bytes()].concat()
    };
    let purpose = |name| Purpose::of_session(&first(name));
    assert_eq!(purpose("rallypoint"), Purpose::Target);
    assert_eq!(purpose("rallypoint journal batches"), Purpose::Batches);
    assert_eq!(purpose("psql"), Purpose::Unknown);
    assert_eq!(Purpose::of_session(b"\0\0\0\x08"), Purpose::Unknown);
}
