//! Where a bench runs: a durable private Postgres in a temporary folder, and server processes on
//! it.

use crate::usage::Usage;
use anyhow::{Context, Result};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use rallypoint::{
    core::ShardId,
    journal::{Journal, JournalConfig},
    postgres::{COORDINATION, Options, PrivatePostgres, SUPERUSER},
};
use rallypoint_client::Client;
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{path::PathBuf, process::Stdio, str::FromStr, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Settings of Postgres, the same as for the systems Rallypoint is compared with.
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "1GB"), ("max_wal_size", "4GB")];

/// A private Postgres, stopped when dropped.
pub(crate) struct Environment {
    postgres: PrivatePostgres,
}

/// A server process, killed when dropped.
pub(crate) struct Server {
    process: Child,
    /// URL at which it listens.
    pub address: String,
}

impl Environment {
    /// Starts Postgres.
    pub(crate) async fn new() -> Result<Self> {
        Self::with(&[]).await
    }

    /// Starts Postgres with additional settings.
    pub(crate) async fn with(more: &[(&str, &str)]) -> Result<Self> {
        let settings = SETTINGS
            .iter()
            .chain(more)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let options = Options {
            data_dir: None,
            durable: true,
            settings,
            ..Options::default()
        };
        let postgres = tokio::task::spawn_blocking(|| PrivatePostgres::start(options)).await??;
        Ok(Environment { postgres })
    }

    /// Creates a database for one run, owned by the service's role.
    pub(crate) async fn database(&self, name: &str) -> Result<String> {
        self.postgres.create_database(name, COORDINATION)?;
        self.checkpoint().await?;
        Ok(self.postgres.url_for(name, COORDINATION))
    }

    /// A server on `database`.
    pub(crate) async fn server(&self, database: &str) -> Result<Server> {
        self.server_with(database, &[]).await
    }

    /// A server on `database` with additional options of `serve`.
    pub(crate) async fn server_with(&self, database: &str, more: &[&str]) -> Result<Server> {
        Server::start(database, &self.postgres.target_url(), more).await
    }

    /// A server that knows its callers, and may not be ready yet.
    pub(crate) async fn secured_server(&self, database: &str, more: &[&str]) -> Result<Server> {
        Server::start_unasked(database, &self.postgres.target_url(), more).await
    }

    /// URL of the target database.
    pub(crate) fn target(&self) -> String {
        self.postgres.target_url()
    }

    /// The socket on which Postgres listens.
    pub(crate) fn socket(&self) -> String {
        let socket = self.postgres.socket_dir().join(".s.PGSQL.5432");
        socket.to_string_lossy().into_owned()
    }

    /// How `role` connects to `database`.
    pub(crate) fn options(&self, database: &str, role: &str) -> PgConnectOptions {
        self.postgres.options_for(database, role)
    }

    /// The journal in `database`.
    pub(crate) async fn journal(&self, database: &str) -> Result<Journal> {
        let options = PgConnectOptions::from_str(database)?;
        Ok(Journal::open(JournalConfig {
            options,
            shard: ShardId(0),
            allow_unsafe: false,
            readers: 1,
            retention_days: 30,
        })
        .await?)
    }

    /// A connection for baselines.
    pub(crate) async fn connect(&self, database: &str) -> Result<PgConnection> {
        Ok(PgConnection::connect(database).await?)
    }

    /// Bytes of WAL written so far.
    pub(crate) async fn wal_bytes(&self) -> Result<f64> {
        let mut connection = self.admin().await?;
        let bytes = "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8";
        let bytes: f64 = sqlx::query_scalar(bytes).fetch_one(&mut connection).await?;
        Ok(bytes)
    }

    /// Forces a checkpoint, so that none begins during a measurement.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        sqlx::query("checkpoint")
            .execute(&mut self.admin().await?)
            .await?;
        Ok(())
    }

    /// A superuser connection.
    pub(crate) async fn admin(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.postgres.options_for("postgres", SUPERUSER)).await?)
    }
}

/// The program that is measured: RALLYPOINT_BIN, or that of this build.
fn program() -> PathBuf {
    let named = std::env::var_os("RALLYPOINT_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_rallypoint").into())
}

impl Server {
    async fn start(database: &str, target: &str, more: &[&str]) -> Result<Self> {
        let server = Self::start_unasked(database, target, more).await?;
        server.ready().await?;
        Ok(server)
    }

    /// The same, and it may not be ready yet: only whoever says who it is can ask.
    async fn start_unasked(database: &str, target: &str, more: &[&str]) -> Result<Self> {
        let target = format!("app={target}");
        let usual = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database",
            database,
            "--target",
            &target,
        ];
        Self::with(&[&usual, more].concat()).await
    }

    /// Memory and processor time of its process.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.process.id().context("the server has ended")?)
    }

    /// A process that answers every call at once (see `null_server`).
    pub(crate) async fn null() -> Result<Self> {
        Self::spawn(std::env::current_exe()?, &["null-server"]).await
    }

    /// Kills the process.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Shuts the server down in order.
    pub(crate) async fn shut_down(mut self) -> Result<()> {
        let id = self.process.id().context("the server has ended")?;
        signal::kill(Pid::from_raw(id as i32), Signal::SIGTERM)?;
        self.process.wait().await?;
        Ok(())
    }

    /// Starts the program under test with these arguments.
    pub(crate) async fn with(arguments: &[&str]) -> Result<Self> {
        Self::spawn(program(), arguments).await
    }

    /// Starts a process and waits until it prints its address.
    async fn spawn(program: PathBuf, arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(program)
            .args(arguments)
            .env("RUST_LOG", "warn,h2=error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stderr = process.stderr.take().context("the server has no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut output = String::new();
        let address = loop {
            let line = lines.next_line().await?;
            let Some(line) = line else {
                anyhow::bail!("the server ended: {output}")
            };
            if let Some(address) = line.strip_prefix("listening on ") {
                break address.to_owned();
            }
            output.push_str(&line);
        };
        // Keep reading, since a full pipe would block the server.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{line}");
            }
        });
        Ok(Server { process, address })
    }

    async fn ready(&self) -> Result<()> {
        let client = Client::connect(&self.address)
            .await?
            .with_retry_timeout(Duration::from_secs(30));
        client.status().await?;
        Ok(())
    }
}
