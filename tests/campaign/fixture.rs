//! What the faults attack: two real Postgres on a small disk, for the journal and for tasks, and
//! server processes that reach them only through their proxies.

use crate::{
    clock::Clock,
    database::Database,
    disk::Disk,
    history::{Entry, History, REVIVAL, now},
    server::Server,
};
use rallypoint::postgres::{COORDINATION, TARGET};
use sqlx::Connection;
use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

/// Interval between checks for servers that have ended.
const RESTART_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Fixture {
    pub servers: Vec<Server>,
    pub journal: Database,
    /// Where tasks run.
    pub target: Database,
    /// `None`: we are not root. It is unmounted after Postgres has stopped.
    pub disk: Option<Disk>,
    /// Holds the clocks of the databases, which the account of Postgres must be able to read.
    _clocks: TempDir,
    pub history: Arc<History>,
}

impl Fixture {
    /// Starts everything; with `clocks`, those of servers and databases can be set.
    pub(crate) async fn start(
        replicas: usize,
        minutes: f64,
        clocks: bool,
        folder: &Path,
        history: Arc<History>,
        program: &Path,
    ) -> Fixture {
        let disk = Disk::mount(700 + (minutes * 60.0) as u64);
        let readable = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let database = |name| {
            let data = disk.as_ref().map(|disk| disk.data(name));
            let clock = clock(clocks, readable.path(), name);
            spawn_blocking(move || Database::start(name, data, clock, replicas))
        };
        let (journal, target) = tokio::join!(database(COORDINATION), database(TARGET));
        let (journal, target) = (journal.expect("it runs"), target.expect("it runs"));
        witnesses(&target).await;
        target.prepare();
        let mut servers = Vec::new();
        for number in 0..replicas {
            let clock = clock(clocks, folder, &format!("clock-{number}"));
            let (alone, databases) = (replicas == 1, [&journal, &target]);
            servers.push(Server::new(number, alone, clock, databases, folder, program).await);
        }
        Fixture {
            servers,
            journal,
            target,
            disk,
            _clocks: readable,
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

    /// The number of the server that owns the shard.
    pub(crate) async fn owner(&self) -> Option<usize> {
        let mut session = self.journal.session().await.ok()?;
        let owner: Option<String> = sqlx::query_scalar("select owner from lease")
            .fetch_optional(&mut session)
            .await
            .ok()??;
        owner?.strip_prefix('r')?.parse().ok()
    }

    pub(crate) fn server(&self, number: usize) -> &Server {
        &self.servers[number % self.servers.len()]
    }

    pub(crate) fn databases(&self) -> [&Database; 2] {
        [&self.journal, &self.target]
    }

    /// Starts the databases again that do not serve.
    pub(crate) async fn revive_databases(&self) {
        for database in self.databases() {
            let begun = now();
            if database.revive().await {
                self.history.write(&Entry::Fault {
                    kind: REVIVAL.into(),
                    begun,
                    ended: now(),
                    bites: 1,
                    hurt: (0..self.servers.len()).collect(),
                    what: format!(
                        "{} did not serve: it was stopped and started",
                        database.name
                    ),
                });
            }
        }
    }
}

fn clock(wanted: bool, folder: &Path, name: &str) -> Option<Clock> {
    wanted.then(|| Clock::new(folder.join(name))).flatten()
}

/// Makes the table in which tasks leave marks. It has no unique key, so that a second run shows.
/// Marks are numbered in the order in which they are made, which no clock can change; the moments
/// between them, of which the recorder knows the time, take numbers from the same sequence, and so
/// do callers while they hold resources.
async fn witnesses(target: &Database) {
    let mut session = target.login(TARGET).await.expect("a session");
    let tables = r"create sequence witness_number;
        create table witness (
            token int8 not null,
            start boolean not null,
            number int8 not null default nextval('witness_number'),
            pid int4 not null default pg_backend_pid(),
            server int4 not null default current_setting('campaign.server')::int4,
            hold int8 default nullif(current_setting('rallypoint.token', true), '')::int8,
            seq int8 default substring(current_query() from '/\*task=''[0-9a-f-]{36}%2F([0-9]+)''\*/$')::int8
        );
        create table moment (number int8 not null default nextval('witness_number'));
        create table hold (
            claim int8 not null,
            number int8 not null default nextval('witness_number')
        );
        create table settled (job text not null, due int8 not null, token int8 not null);";
    sqlx::raw_sql(tables)
        .execute(&mut session)
        .await
        .expect("tables");
    session.close().await.expect("closed");
}
