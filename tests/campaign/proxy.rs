//! A proxy in front of Postgres or a server, which delays, goes silent and breaks as networks do.
//! It understands where messages of Postgres begin and end, and can break exactly between a commit
//! and its acknowledgement.
//!
//! It never changes or invents a byte: it only passes on, withholds, or closes.

#[path = "proxy/connection.rs"]
mod connection;
#[path = "proxy/framing.rs"]
mod framing;
#[path = "proxy/half_open.rs"]
mod half_open;

use connection::Connection;
pub(crate) use half_open::{HalfOpens, Purpose};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, UnixStream, tcp, unix},
    sync::watch,
};

/// What happens to the connections of a proxy now. Connections are numbered in the order of their
/// opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Connections below this number are silent.
    pub silent_below: u64,
    /// Connections below this number are closed.
    pub closed_below: u64,
    /// New connections are closed at once.
    pub refused: bool,
    /// How long every piece waits.
    pub latency: Duration,
}

/// What has happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Commits whose acknowledgement was cut off.
    pub acknowledgements_cut: AtomicU64,
    /// Commits of exactly-once tasks whose answer was cut off.
    pub commits_cut: AtomicU64,
    /// Statements that were cut off before Postgres had them.
    pub statements_cut: AtomicU64,
    /// Pieces withheld by silence.
    pub withheld: AtomicU64,
    /// Pieces delayed.
    pub delayed: AtomicU64,
    /// Connections closed or refused by the proxy.
    pub closed: AtomicU64,
    /// Connections that Postgres closed.
    pub lost: AtomicU64,
    /// Connections that the server closed, or that ended with it.
    pub hung_up: AtomicU64,
}

/// Whether the next one of a kind is cut off.
#[derive(Debug, Default)]
pub(crate) struct ArmedCuts {
    /// A commit of the journal's writer that wrote a batch: Postgres is done, the server never
    /// hears of it.
    pub acknowledgement: AtomicBool,
    /// A commit of an exactly-once task: the target is done, the server never hears of it.
    pub commit: AtomicBool,
    /// A statement of the journal's writer: Postgres never hears of it.
    pub statement: AtomicBool,
}

/// A port in front of an upstream.
pub(crate) struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

/// What a proxy connects to.
#[derive(Clone, Debug)]
pub(crate) enum Upstream {
    /// The socket of a Postgres, whose protocol is understood.
    Postgres(PathBuf),
    /// Anything else, and what it is for.
    Address(SocketAddr, Purpose),
}

pub(crate) struct Shared {
    upstream: Upstream,
    next: AtomicU64,
    pub conditions: watch::Sender<Conditions>,
    pub counters: Counters,
    pub armed_cuts: ArmedCuts,
    pub half_opens: HalfOpens,
}

impl Proxy {
    /// Listens on a port of its own.
    pub(crate) async fn start(upstream: Upstream) -> std::io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            next: AtomicU64::new(1),
            conditions: watch::Sender::new(Conditions::default()),
            counters: Counters::default(),
            armed_cuts: ArmedCuts::default(),
            half_opens: HalfOpens::default(),
        });
        tokio::spawn(accept(listener, shared.clone()));
        Ok(Proxy { address, shared })
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    pub(crate) fn armed_cuts(&self) -> &ArmedCuts {
        &self.shared.armed_cuts
    }

    pub(crate) fn half_opens(&self) -> &HalfOpens {
        &self.shared.half_opens
    }

    /// Changes the conditions of all connections.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Conditions)) {
        self.shared.conditions.send_modify(change);
    }

    /// The number of the next connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.shared.next.load(Relaxed)
    }

    pub(crate) fn url(&self, database: &str, role: &str) -> String {
        format!(
            "postgres://{role}@{}/{database}?sslmode=disable",
            self.address
        )
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = shared.next.fetch_add(1, Relaxed);
        if shared.conditions.borrow().refused {
            shared.counters.closed.fetch_add(1, Relaxed);
            continue;
        }
        tokio::spawn(serve(client, number, shared.clone()));
    }
}

async fn serve(client: TcpStream, number: u64, shared: Arc<Shared>) {
    let _ = client.set_nodelay(true);
    let server = match &shared.upstream {
        Upstream::Postgres(socket) => UnixStream::connect(socket)
            .await
            .map(|server| server.into_split())
            .map(Halves::Unix),
        Upstream::Address(address, _) => TcpStream::connect(address)
            .await
            .map(|server| server.into_split())
            .map(Halves::Tcp),
    };
    let purpose = match shared.upstream {
        Upstream::Postgres(_) => None,
        Upstream::Address(_, purpose) => Some(purpose),
    };
    let counters = &shared.counters;
    let connection = Connection::new(number, purpose, shared.clone());
    match server {
        Ok(Halves::Unix((from, to))) => connection.run(client, from, to).await,
        Ok(Halves::Tcp((from, to))) => connection.run(client, from, to).await,
        // Nobody listens: the client sees its connection closed.
        Err(_) => _ = counters.lost.fetch_add(1, Relaxed),
    }
}

/// Both directions of a connection to the upstream.
enum Halves {
    Unix((unix::OwnedReadHalf, unix::OwnedWriteHalf)),
    Tcp((tcp::OwnedReadHalf, tcp::OwnedWriteHalf)),
}
