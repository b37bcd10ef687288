//! A private Postgres for the zero-setup mode, the benches and the tests; not for production.
//!
//! It listens on a Unix socket in a directory closed to other accounts, never on the network, and
//! dies with this process. It holds two databases, `rallypoint` (coordination, role `rallypoint`)
//! and `app` (the default target, role `app`); neither role is a superuser or may connect to the
//! other's database. One service at a time owns a data directory. Every call blocks for
//! milliseconds up to seconds: use `spawn_blocking` from async code.

mod account;
mod binaries;
mod cluster;
mod data_dir;
mod process;
mod sql;
mod stale_server;

use account::Account;
use anyhow::{Context, Result, bail};
use binaries::Binaries;
use data_dir::DataDir;
pub use data_dir::default_data_dir;
use nix::sys::signal::Signal;
use process::Child;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::{
    fmt,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The role and the database of the service.
pub const COORDINATION: &str = "rallypoint";
/// The role and the database of the default target.
pub const TARGET: &str = "app";
/// Part of the name of its socket.
const PORT: u16 = 5432;
/// The superuser of the private server; for its own administration and for tests.
pub const SUPERUSER: &str = "postgres";

/// How long a server may take to stop before it gets a harder signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of a private Postgres.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where its data are stored; `None`: a temporary directory, removed at the end.
    pub data_dir: Option<PathBuf>,
    /// Committed means on disk. Only tests turn this off.
    pub durable: bool,
    /// Settings of the server, which override ours: `("shared_buffers", "1GB")`.
    pub settings: Vec<(String, String)>,
    /// Variables of its environment, besides ours: for tests that lend it a clock.
    pub environment: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            data_dir: None,
            durable: true,
            settings: Vec::new(),
            environment: Vec::new(),
        }
    }
}

/// A running private Postgres. Dropping it stops it.
pub struct PrivatePostgres {
    binaries: Binaries,
    account: Account,
    data_dir: DataDir,
    options: Options,
    server: Mutex<Option<Child>>,
}

impl PrivatePostgres {
    /// Starts a server; makes its data directory and databases when they do not exist.
    pub fn start(options: Options) -> Result<Self> {
        let binaries = Binaries::find()?;
        let account = Account::choose()?;
        let data_dir = match &options.data_dir {
            Some(dir) => DataDir::persistent(dir, &account)?,
            None => DataDir::temporary(&account)?,
        };
        cluster::prepare(&binaries, &account, &data_dir)?;
        let postgres = PrivatePostgres {
            binaries,
            account,
            data_dir,
            options,
            server: Mutex::new(None),
        };
        postgres.restart()?;
        Ok(postgres)
    }

    /// Starts the server again on the same data and socket; stops it first if it runs.
    pub fn restart(&self) -> Result<()> {
        let mut server = self.server();
        if let Some(child) = server.take() {
            child.stop(Signal::SIGINT, STOP_TIMEOUT);
        }
        *server = Some(cluster::start(
            &self.binaries,
            &self.account,
            &self.data_dir,
            &self.options,
        )?);
        Ok(())
    }

    /// Starts the server again if it has ended by itself; returns how it had ended.
    pub fn revive(&self) -> Result<Option<ExitStatus>> {
        let mut server = self.server();
        let Some(status) = server.as_ref().and_then(Child::ended) else {
            return Ok(None);
        };
        // What an ended postmaster leaves behind keeps its successor from starting.
        stale_server::end(&self.data_dir.data(), true);
        let started = cluster::start(&self.binaries, &self.account, &self.data_dir, &self.options);
        *server = Some(started?);
        Ok(Some(status))
    }

    /// Stops it cleanly: sessions are ended, nothing is lost. [`Self::restart`] starts it again.
    pub fn stop(&self) {
        self.stop_with(Signal::SIGINT);
    }

    /// Stops it as a crash would: at once, and the next start recovers.
    pub fn immediate_stop(&self) {
        self.stop_with(Signal::SIGQUIT);
    }

    fn stop_with(&self, signal: Signal) {
        if let Some(child) = self.server().take() {
            child.stop(signal, STOP_TIMEOUT);
        }
    }

    /// Process id of the running server.
    pub fn pid(&self) -> Option<i32> {
        self.server().as_ref().map(Child::pid)
    }

    /// For the service: database `rallypoint` as role `rallypoint`.
    pub fn coordination_url(&self) -> String {
        self.url_for(COORDINATION, COORDINATION)
    }

    /// For the default target: database `app` as role `app`.
    pub fn target_url(&self) -> String {
        self.url_for(TARGET, TARGET)
    }

    /// Any database as any role, as sqlx and psql read it.
    pub fn url_for(&self, database: &str, role: &str) -> String {
        let socket: String = self
            .socket_dir()
            .to_string_lossy()
            .bytes()
            .map(escaped)
            .collect();
        format!("postgres://{role}@localhost:{PORT}/{database}?host={socket}&sslmode=disable")
    }

    /// The same as options for sqlx.
    pub fn options_for(&self, database: &str, role: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(self.socket_dir())
            .port(PORT)
            .ssl_mode(PgSslMode::Disable)
            .username(role)
            .database(database)
    }

    /// A program for clients, like `psql`: that beside the server's, else that on the path.
    pub fn program(&self, name: &str) -> PathBuf {
        let beside = self.binaries.path(name);
        if beside.is_file() {
            beside
        } else {
            name.into()
        }
    }

    /// The directory of its socket.
    pub fn socket_dir(&self) -> &Path {
        self.data_dir.socket_dir()
    }

    /// Makes an empty database that `owner` ([`COORDINATION`] or [`TARGET`]) owns and nobody else
    /// may connect to.
    pub fn create_database(&self, name: &str, owner: &str) -> Result<()> {
        if !is_plain_name(name) || !is_plain_name(owner) {
            bail!(
                "a database name of lower-case letters, digits and underscores is needed, not {name:?} for {owner:?}"
            );
        }
        sql::run(
            self.options_for("postgres", SUPERUSER),
            cluster::create_database(name, owner),
        )
        .and_then(|()| {
            sql::run(
                self.options_for(name, SUPERUSER),
                cluster::close_database(name, owner),
            )
        })
        .with_context(|| format!("cannot create the database {name}"))
    }

    /// Removes a database and ends its sessions.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        if !is_plain_name(name) {
            bail!(
                "a database name of lower-case letters, digits and underscores is needed, not {name:?}"
            );
        }
        sql::run(
            self.options_for("postgres", SUPERUSER),
            vec![format!("drop database if exists {name} with (force)")],
        )
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PrivatePostgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivatePostgres")
            .field("base", &self.data_dir.base())
            .finish_non_exhaustive()
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // Temporary data need no checkpoint before they are removed.
        self.stop_with(if self.data_dir.is_temporary() {
            Signal::SIGQUIT
        } else {
            Signal::SIGINT
        });
    }
}

fn is_plain_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() < 64
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn escaped(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        char::from(byte).into()
    } else {
        format!("%{byte:02X}")
    }
}
