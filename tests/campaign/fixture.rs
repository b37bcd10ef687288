//! What the faults attack: a real Postgres on a small disk, and server processes that reach it only
//! through their proxies.

use crate::{clock::Clock, disk::Disk, history::History, server::Server};
use rallypoint::postgres::{Options, PrivatePostgres, SUPERUSER, TARGET};
use sqlx::{Connection, PgConnection};
use std::{path::Path, sync::Arc, time::Duration};

/// Interval between checks for servers that have ended.
const RESTART_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Fixture {
    pub servers: Vec<Server>,
    pub postgres: PrivatePostgres,
    /// `None`: we are not root. The last field: it is unmounted after Postgres has stopped.
    pub disk: Option<Disk>,
    pub history: Arc<History>,
}

impl Fixture {
    /// Starts everything; with `clocks`, those of the servers can be set.
    pub(crate) async fn start(
        replicas: usize,
        minutes: f64,
        clocks: bool,
        folder: &Path,
        history: Arc<History>,
    ) -> Fixture {
        let disk = Disk::mount(600 + (minutes * 60.0) as u64);
        let settings = [
            ("max_connections", (40 + 30 * replicas).to_string()),
            ("max_wal_size", "64MB".into()),
            ("min_wal_size", "32MB".into()),
            ("shared_buffers", "64MB".into()),
        ];
        let options = Options {
            data_dir: disk.as_ref().map(Disk::data),
            durable: true,
            settings: settings
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            ..Options::default()
        };
        let postgres = tokio::task::spawn_blocking(|| PrivatePostgres::start(options))
            .await
            .expect("it runs")
            .expect("a Postgres");
        witnesses(&postgres).await;
        let mut servers = Vec::new();
        for number in 0..replicas {
            let clock = clocks
                .then(|| Clock::new(folder.join(format!("clock-{number}"))))
                .flatten();
            servers.push(Server::new(number, replicas == 1, clock, &postgres, folder).await);
        }
        Fixture {
            servers,
            postgres,
            disk,
            history,
        }
    }

    /// Starts servers again that have ended, for ever.
    pub(crate) async fn restart_ended_servers(&self) {
        loop {
            tokio::time::sleep(RESTART_INTERVAL).await;
            self.servers.iter().for_each(Server::restart_if_ended);
        }
    }

    /// A session that passes no proxy, if Postgres runs.
    pub(crate) async fn session(&self, database: &str) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect_with(&self.postgres.options_for(database, SUPERUSER)).await
    }

    pub(crate) fn server(&self, number: usize) -> &Server {
        &self.servers[number % self.servers.len()]
    }

    /// Starts Postgres again if it does not serve.
    pub(crate) async fn revive_postgres(self: &Arc<Self>) {
        for _ in 0..60 {
            if self.session("postgres").await.is_ok() {
                return;
            }
            let fixture = self.clone();
            let started = tokio::task::spawn_blocking(move || fixture.postgres.restart())
                .await
                .expect("it returns");
            if let Err(error) = started {
                eprintln!("Postgres does not start: {error:#}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("Postgres does not come back");
    }
}

/// Makes the table in which tasks leave marks. It has no unique key, so that a second run shows.
async fn witnesses(postgres: &PrivatePostgres) {
    let mut session = PgConnection::connect_with(&postgres.options_for(TARGET, TARGET))
        .await
        .expect("a session");
    let table = "create table witness (
        token int8 not null,
        start boolean not null,
        at timestamptz not null default clock_timestamp(),
        pid int4 not null default pg_backend_pid(),
        server int4 not null default current_setting('campaign.server')::int4
    )";
    sqlx::raw_sql(table)
        .execute(&mut session)
        .await
        .expect("a table");
    session.close().await.expect("closed");
}
