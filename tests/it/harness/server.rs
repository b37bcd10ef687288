//! A real server in this process, in a runtime of its own, on databases of its own. It stops with the value.

use super::{
    conversation::{Conversation, PATIENCE},
    gate::Gate,
    log::Log,
    postgres::{self, POSTGRES},
};
use rallypoint::{
    core::model::limits::Limits,
    postgres::{COORDINATION, PrivatePostgres, TARGET},
    server::{Config, DEFAULT_LEASE, Target, serve},
};
use rallypoint_client::{
    Client,
    api::{self, scheduler_service_client::SchedulerServiceClient},
};
use sqlx::postgres::PgConnectOptions;
use std::{
    net::{SocketAddr, TcpListener},
    thread,
};
use tokio::{runtime::Runtime, sync::oneshot};
use tonic::transport::Channel;

/// What a server of a test is like.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    /// Of the target `app`; 0: five.
    pub slots: u32,
    /// Takes namespaces from metadata.
    pub trusted: bool,
    /// What a namespace may have.
    pub limits: Limits,
    /// Memory for bodies; 0: as much as usual.
    pub body_bytes: usize,
    /// Where journal and `app` are; `None`: databases of their own on the shared one.
    pub postgres: Option<&'a PrivatePostgres>,
    /// Targets besides `app`: each a database of its own on the shared Postgres.
    pub others: &'a [&'a str],
}

/// A running server.
pub(crate) struct Server {
    pub url: String,
    pub client: Client,
    /// The coordination database.
    pub journal: PgConnectOptions,
    /// The target `app`.
    pub app: PgConnectOptions,
    /// The other targets.
    pub others: Vec<PgConnectOptions>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// One with five slots.
    pub(crate) async fn start() -> Server {
        Server::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup<'_>) -> Server {
        let (home, names) = match setup.postgres {
            Some(own) => (own, (COORDINATION.to_owned(), TARGET.to_owned())),
            None => (
                &*POSTGRES,
                (postgres::database(COORDINATION), postgres::database(TARGET)),
            ),
        };
        let slots = if setup.slots == 0 { 5 } else { setup.slots };
        let mut targets = vec![Target {
            name: TARGET.into(),
            url: home.url_for(&names.1, TARGET),
            slots,
        }];
        let mut others = Vec::new();
        for name in setup.others {
            let database = postgres::database(TARGET);
            targets.push(Target {
                name: name.to_string(),
                url: POSTGRES.url_for(&database, TARGET),
                slots,
            });
            others.push(POSTGRES.options_for(&database, TARGET));
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let config = Config {
            listen: address,
            database: Some(home.url_for(&names.0, COORDINATION)),
            data_dir: None,
            targets,
            slots,
            noop_slots: 256,
            retention_days: 30,
            body_bytes: if setup.body_bytes == 0 {
                192 << 20
            } else {
                setup.body_bytes
            },
            replica_name: "test".into(),
            peer: None,
            lease: DEFAULT_LEASE,
            trusted_namespace_metadata: setup.trusted,
            limits: setup.limits,
            allow_unsafe_database: setup.postgres.is_none(),
        };
        let url = format!("http://{address}");
        let client = Client::connect_lazy(&url)
            .expect("a URL")
            .with_patience(PATIENCE);
        let journal = home.options_for(&names.0, COORDINATION);
        let app = home.options_for(&names.1, TARGET);
        let server = Server {
            url,
            client,
            journal,
            app,
            others,
            stop: Some(run(config, listener)),
        };
        server
            .client
            .schedulers(api::ListSchedulersRequest::default())
            .await
            .expect("it serves");
        server
    }

    /// A scheduler with settings of its own.
    pub(crate) async fn open(&self, settings: api::SchedulerSettings) -> Conversation {
        self.open_as(&self.client, settings).await
    }

    /// The same, by another caller.
    pub(crate) async fn open_as(
        &self,
        client: &Client,
        settings: api::SchedulerSettings,
    ) -> Conversation {
        let scheduler = client.open(settings).await.expect("opened");
        Conversation {
            scheduler,
            journal: self.journal.clone(),
        }
    }

    /// A caller in a namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Client {
        self.client
            .clone()
            .with_namespace(namespace)
            .expect("a namespace")
    }

    /// The calls as they are, without repetition.
    pub(crate) fn raw(&self) -> SchedulerServiceClient<Channel> {
        let channel = Channel::from_shared(self.url.clone())
            .expect("a URL")
            .connect_lazy();
        SchedulerServiceClient::new(channel)
    }

    /// Closes the gate of the target `app`.
    pub(crate) async fn gate(&self) -> Gate {
        Gate::close(&self.app).await
    }

    /// The log of all schedulers.
    pub(crate) async fn log(&self) -> Log {
        Log::read(&self.journal, None).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

/// Serves in a thread until told to stop.
fn run(config: Config, listener: TcpListener) -> oneshot::Sender<()> {
    let (stop, stopped) = oneshot::channel();
    listener.set_nonblocking(true).expect("a socket");
    thread::spawn(move || {
        let serving = async {
            let shutdown = async { drop(stopped.await) };
            serve(config, listener.try_into()?, shutdown).await
        };
        if let Err(error) = Runtime::new().expect("a runtime").block_on(serving) {
            eprintln!("the server ended: {error:#}");
        }
    });
    stop
}

/// An address nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
}
