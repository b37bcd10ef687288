//! A real server in the process of the tests, on databases of its own, and callers of it. It stops
//! with the value.

use super::{
    conversation::{Conversation, WAIT_TIMEOUT},
    gate::Gate,
    in_process::{InProcess, config},
    log::Log,
    postgres::{self, POSTGRES},
};
use rallypoint::{
    core::model::limits::Limits,
    postgres::{COORDINATION, PrivatePostgres, TARGET},
    server::{AdminPort, Config, Target, TraceConfig},
};
use rallypoint_client::{
    Client,
    api::{self, scheduler_service_client::SchedulerServiceClient},
};
use sqlx::postgres::PgConnectOptions;
use std::net::SocketAddr;
use tonic::transport::Channel;

/// How a test wants its server.
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
    /// Holds the journal and `app`; `None`: new databases on the shared Postgres.
    pub postgres: Option<&'a PrivatePostgres>,
    /// Holds a target `far`.
    pub far: Option<&'a PrivatePostgres>,
    /// Targets besides `app`: each a new database on the shared Postgres.
    pub others: &'a [&'a str],
    /// Where traces are sent.
    pub traces: Option<TraceConfig>,
    /// Roles that tasks of `app` may name.
    pub roles: &'a [&'a str],
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
    /// Where its metrics and probes are.
    pub admin: SocketAddr,
    /// Keeps the server running.
    _running: InProcess,
}

/// A target of a server, and how a test connects to it.
struct TargetDatabase {
    target: Target,
    options: PgConnectOptions,
}

impl Server {
    /// Starts a server with five slots.
    pub(crate) async fn start() -> Server {
        Server::with(Setup::default()).await
    }

    /// Starts a server and waits until it serves.
    pub(crate) async fn with(setup: Setup<'_>) -> Server {
        let (home, journal, app) = match setup.postgres {
            Some(own) => (own, COORDINATION.to_owned(), TARGET.to_owned()),
            None => (
                &*POSTGRES,
                postgres::database(COORDINATION),
                postgres::database(TARGET),
            ),
        };
        let mut app = TargetDatabase::new(home, TARGET, &app, setup.slots());
        app.target.roles = setup.roles.iter().map(ToString::to_string).collect();
        let other = |name: &&str| {
            let database = postgres::database(TARGET);
            TargetDatabase::new(&POSTGRES, name, &database, setup.slots())
        };
        let others: Vec<TargetDatabase> = setup.others.iter().map(other).collect();
        let targets = [&app].into_iter().chain(&others);
        let far = setup
            .far
            .map(|far| TargetDatabase::new(far, "far", TARGET, setup.slots()));
        let targets = targets.chain(&far).map(|database| database.target.clone());
        let targets = targets.collect();
        let database = home.url_for(&journal, COORDINATION);
        let port = AdminPort::bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let admin = port.address().expect("an address");
        let running = InProcess::start(Config {
            admin: Some(port),
            ..setup.config(database, targets)
        });
        let url = running.url();
        let server = Server {
            client: Client::connect_lazy(&url)
                .expect("a URL")
                .with_retry_timeout(WAIT_TIMEOUT),
            url,
            journal: home.options_for(&journal, COORDINATION),
            app: app.options,
            others: others
                .into_iter()
                .map(|database| database.options)
                .collect(),
            admin,
            _running: running,
        };
        server
            .client
            .schedulers(api::ListSchedulersRequest::default())
            .await
            .expect("it serves");
        server
    }

    /// Opens a scheduler.
    pub(crate) async fn open(&self, settings: api::SchedulerSettings) -> Conversation {
        self.open_as(&self.client, settings).await
    }

    /// Opens a scheduler in the name of another caller.
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

    /// The calls as they are, without the repetitions of the client.
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

impl Setup<'_> {
    fn slots(&self) -> u32 {
        if self.slots == 0 { 5 } else { self.slots }
    }

    fn config(&self, database: String, targets: Vec<Target>) -> Config {
        let usual = config(database, targets);
        Config {
            body_bytes: if self.body_bytes == 0 {
                usual.body_bytes
            } else {
                self.body_bytes
            },
            trusted_namespace_metadata: self.trusted,
            limits: self.limits,
            traces: self.traces.clone(),
            // A Postgres that a test brings along keeps what it has acknowledged.
            allow_unsafe_database: self.postgres.is_none(),
            ..usual
        }
    }
}

impl TargetDatabase {
    fn new(postgres: &PrivatePostgres, name: &str, database: &str, slots: u32) -> TargetDatabase {
        TargetDatabase {
            target: Target::new(
                name,
                postgres.url_for(database, TARGET).parse().expect("a login"),
                slots,
            ),
            options: postgres.options_for(database, TARGET),
        }
    }
}
