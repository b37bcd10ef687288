//! A name in the network that leads to one server now and to another one later, as after a failover
//! by DNS, or to none.

use rallypoint::postgres::TARGET;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Notify,
};

pub(crate) struct Network {
    /// Where the name is.
    port: u16,
    /// Where it leads.
    to: Arc<AtomicU16>,
    /// Connections are cut when that changes.
    changed: Arc<Notify>,
}

impl Network {
    pub(crate) async fn to(port: u16) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let network = Network {
            port: listener.local_addr().expect("an address").port(),
            to: Arc::new(AtomicU16::new(port)),
            changed: Arc::default(),
        };
        let (to, changed) = (Arc::clone(&network.to), Arc::clone(&network.changed));
        tokio::spawn(pass(listener, to, changed));
        network
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on the name leads elsewhere.
    pub(crate) fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The default target under this name.
    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .ssl_mode(PgSslMode::Disable)
            .username(TARGET)
            .database(TARGET)
    }
}

async fn pass(listener: TcpListener, to: Arc<AtomicU16>, changed: Arc<Notify>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (to, changed) = (Arc::clone(&to), Arc::clone(&changed));
        tokio::spawn(async move {
            // From before it is known where the name leads, so that no change is missed.
            let cut = changed.notified();
            let to = to.load(Ordering::Acquire);
            let Ok(mut far) = TcpStream::connect(("127.0.0.1", to)).await else {
                return;
            };
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                () = cut => {}
            }
        });
    }
}
