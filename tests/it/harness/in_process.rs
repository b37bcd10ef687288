//! A server in the process of the tests, in a thread and a runtime of its own, on a port of its
//! own. It takes no part in what the server is asked: [`super::server::Server`] does.

use rallypoint::server::{
    Config, DEFAULT_LEASE, DEFAULT_SESSION_IDLE, DEFAULT_SHUTDOWN_GRACE, Target, serve,
};
use std::{
    net::{SocketAddr, TcpListener},
    thread,
};
use tokio::{runtime::Runtime, sync::oneshot};

/// A server that stops when this value is dropped.
pub(crate) struct InProcess {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
}

impl InProcess {
    /// Starts a server; it may not be ready yet. The port in `config` is replaced.
    pub(crate) fn start(config: Config) -> InProcess {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let config = Config {
            listen: address,
            ..config
        };
        let (stop, stopped) = oneshot::channel();
        thread::spawn(move || {
            let serving = async {
                let shutdown = async { drop(stopped.await) };
                serve(config, listener.try_into()?, shutdown, |_| {}).await
            };
            if let Err(error) = Runtime::new().expect("a runtime").block_on(serving) {
                eprintln!("the server ended: {error:#}");
            }
        });
        InProcess {
            address,
            stop: Some(stop),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

/// What the servers of tests have in common, on the database of a journal.
pub(crate) fn config(database: String, targets: Vec<Target>) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        database: Some(database),
        data_dir: None,
        slots: targets.first().map_or(0, |target| target.slots),
        targets,
        config_file: None,
        noop_slots: 256,
        retention_days: 30,
        body_bytes: 192 << 20,
        replica_name: "test".into(),
        peer: None,
        tls: None,
        authenticator: None,
        admin: None,
        traces: None,
        lease: DEFAULT_LEASE,
        shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
        session_idle: DEFAULT_SESSION_IDLE,
        trusted_namespace_metadata: false,
        http_hosts: Vec::new(),
        limits: Default::default(),
        allow_unsafe_database: true,
    }
}
