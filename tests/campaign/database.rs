//! One Postgres of a campaign: that of the journal, or that on which tasks run. Each has a clock of
//! its own, which can be set wrong, and is reached here past all proxies.

use crate::{clock::Clock, process::PROGRAM};
use nix::{sys::signal::kill, unistd::Pid};
use rallypoint::postgres::{Options, PrivatePostgres, SUPERUSER};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// Attempts at starting it again.
const MAX_STARTS: u32 = 60;
/// How long it may take to serve again while it runs.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);
const START_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Database {
    postgres: Arc<PrivatePostgres>,
    log: PathBuf,
    /// The database that is used, which is also the login of the service.
    pub name: &'static str,
    /// `None`: it has the clock of the machine.
    pub clock: Option<Clock>,
}

impl Database {
    /// Starts one for a few servers.
    pub(crate) fn start(
        name: &'static str,
        data_dir: Option<PathBuf>,
        clock: Option<Clock>,
        replicas: usize,
    ) -> Database {
        let settings = [
            ("max_connections", (40 + 30 * replicas).to_string()),
            ("max_wal_size", "64MB".into()),
            ("min_wal_size", "32MB".into()),
            ("shared_buffers", "64MB".into()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let options = Options {
            data_dir: data_dir.clone(),
            durable: true,
            settings: settings.into(),
            environment: clock.as_ref().map(Clock::environment).unwrap_or_default(),
        };
        let postgres = PrivatePostgres::start(options).expect("a Postgres");
        let folder = data_dir.unwrap_or_else(|| postgres.socket_dir().to_owned());
        Database {
            postgres: Arc::new(postgres),
            log: folder.join("postgres.log"),
            name,
            clock,
        }
    }

    /// Makes it ready for exactly-once tasks and for claimed runs, as an operator does.
    pub(crate) fn prepare(&self) {
        let url = self.postgres.url_for(self.name, SUPERUSER);
        for verb in [&["prepare-target"][..], &["jobs", "install"]] {
            let mut command = Command::new(PROGRAM);
            let command = command
                .args(verb)
                .args(["--url", &url, "--login", self.name]);
            let output = command.output().expect("the program runs");
            assert!(output.status.success(), "{output:?}");
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        Path::new(self.postgres.socket_dir()).join(".s.PGSQL.5432")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// A session of a superuser, if Postgres runs.
    pub(crate) async fn session(&self) -> Result<PgConnection, sqlx::Error> {
        self.login(SUPERUSER).await
    }

    /// A session as the service has them.
    pub(crate) async fn login(&self, role: &str) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect_with(&self.postgres.options_for(self.name, role)).await
    }

    /// Runs a statement, if Postgres does.
    pub(crate) async fn run(&self, statement: String) {
        if let Ok(mut session) = self.session().await {
            let _ = sqlx::raw_sql(AssertSqlSafe(statement))
                .execute(&mut session)
                .await;
        }
    }

    /// Stops it as a crash does.
    pub(crate) async fn crash(&self) {
        let postgres = self.postgres.clone();
        spawn_blocking(move || postgres.immediate_stop())
            .await
            .expect("it stops");
    }

    /// Starts it again if it does not serve; returns whether it ran, and had to be stopped.
    pub(crate) async fn revive(&self) -> bool {
        let mut stopped = false;
        for _ in 0..MAX_STARTS {
            if self.serves().await {
                return stopped;
            }
            stopped |= self.runs();
            let postgres = self.postgres.clone();
            let started = spawn_blocking(move || postgres.restart())
                .await
                .expect("it returns");
            if let Err(error) = started {
                eprintln!("Postgres does not start: {error:#}");
            }
            sleep(START_INTERVAL).await;
        }
        panic!("Postgres does not come back");
    }

    /// Whether it serves, or does so in a while: it recovers from a crash by itself.
    async fn serves(&self) -> bool {
        let begun = Instant::now();
        while self.session().await.is_err() {
            if !self.runs() || begun.elapsed() > RECOVERY_TIMEOUT {
                return false;
            }
            sleep(START_INTERVAL).await;
        }
        true
    }

    /// Whether its first process runs.
    fn runs(&self) -> bool {
        let pid = self.postgres.pid().map(Pid::from_raw);
        pid.is_some_and(|pid| kill(pid, None).is_ok())
    }

    /// Backends of the service, without our own.
    pub(crate) async fn backends(&self) -> Vec<i32> {
        let Ok(mut session) = self.session().await else {
            return Vec::new();
        };
        let query = "select pid
            from pg_stat_activity
            where usename = $1
              and client_addr is null
              and application_name like 'rallypoint%'
            order by pid";
        sqlx::query_scalar(query)
            .bind(self.name)
            .fetch_all(&mut session)
            .await
            .unwrap_or_default()
    }

    pub(crate) async fn end_session(&self, pid: i32) {
        self.run(format!("select pg_terminate_backend({pid})"))
            .await;
    }
}
