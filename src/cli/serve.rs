//! `serve`: options become a `Config`, signals become the shutdown.
//!
//! The first SIGTERM or SIGINT shuts down in order; the second one exits at once.

mod listen;
mod peers;
mod quotas;
mod targets;
mod traces;

pub(super) use targets::{each as each_target, parse as parse_targets, place as place_of_target};

use super::{
    account,
    check_config::{self, CallersNamespaces},
    error::CliError,
    number::whole,
    output, postgres_url,
    signals::{self, Signals},
    time_text,
};
use crate::{
    database_url::options_of,
    identity::Authenticator,
    journal::{JournalError, refusal_remedy},
    server::{Config, ConfigFile},
};
use clap::{Args, ValueEnum};
use listen::Listen;
use peers::Peers;
use quotas::Quotas;
use std::{io::IsTerminal, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use tokio::net::TcpListener;
use traces::Traces;
use tracing_subscriber::EnvFilter;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    callers: Listen,
    /// URL of the coordination database, reached directly: PgBouncer cannot be used for it
    /// [default: a private Postgres]
    #[arg(
        long,
        alias = "database-url",
        env = "RALLYPOINT_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    database: Option<String>,
    /// Data directory of the private Postgres [default: of root /var/lib/rallypoint/postgres, else
    /// rallypoint/postgres in $XDG_STATE_HOME, which is ~/.local/state unless it is set]
    #[arg(
        long,
        env = "RALLYPOINT_DATA_DIR",
        hide_env_values = true,
        conflicts_with = "database",
        value_name = "FOLDER"
    )]
    data_dir: Option<PathBuf>,
    /// A database SQL tasks may run on, as NAME=URL or NAME:SLOTS=URL; may be repeated
    #[arg(
        long = "target",
        env = "RALLYPOINT_TARGETS",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "NAME=URL"
    )]
    targets: Vec<String>,
    /// Configuration file (rallypoint.toml) with targets, their secrets and options; SIGHUP has it
    /// read again
    #[arg(
        long = "config",
        env = "RALLYPOINT_CONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    config_file: Option<PathBuf>,
    /// Slots of a target that does not say how many; from four on a tenth, at least one, is kept
    /// for schedulers that run nothing
    #[arg(
        long,
        env = "RALLYPOINT_SLOTS",
        hide_env_values = true,
        default_value_t = 8,
        value_parser = whole::<u32>(1..=10_000),
        value_name = "N"
    )]
    slots: u32,
    /// Slots for no-op tasks
    #[arg(
        long,
        env = "RALLYPOINT_NOOP_SLOTS",
        hide_env_values = true,
        default_value_t = 8192,
        value_parser = whole::<u32>(1..),
        value_name = "N"
    )]
    noop_slots: u32,
    /// Days for which events and the log of ended tasks can be read; more than a month needs a
    /// larger max_locks_per_transaction on the coordination database, which the start checks
    #[arg(
        long,
        env = "RALLYPOINT_RETENTION",
        hide_env_values = true,
        default_value_t = 30,
        value_parser = whole::<u32>(1..=36_500),
        value_name = "DAYS"
    )]
    retention: u32,
    /// Memory for the bodies of waiting tasks, in MiB: others are read back shortly before they run
    #[arg(
        long,
        env = "RALLYPOINT_BODY_MEMORY",
        hide_env_values = true,
        default_value_t = 192,
        value_parser = whole::<u32>(1..=1_048_576),
        value_name = "MIB"
    )]
    body_memory: u32,
    /// Name of this replica [default: the host name]
    #[arg(
        long,
        env = "RALLYPOINT_REPLICA",
        hide_env_values = true,
        value_name = "NAME"
    )]
    replica_name: Option<String>,
    #[command(flatten)]
    namespaces: CallersNamespaces,
    /// How long running tasks may go on after a signal to stop; what is left then is stopped and
    /// runs again
    #[arg(
        long,
        env = "RALLYPOINT_SHUTDOWN_GRACE",
        hide_env_values = true,
        default_value = "10s",
        value_parser = time_text::within(Duration::ZERO..=DAY),
        value_name = "TIME"
    )]
    shutdown_grace: Duration,
    /// How long a session on a target may be idle before it is closed; one stays open
    #[arg(
        long,
        env = "RALLYPOINT_SESSION_IDLE",
        hide_env_values = true,
        default_value = "5m",
        value_parser = time_text::within(Duration::from_secs(1)..=DAY),
        value_name = "TIME"
    )]
    session_idle: Duration,
    #[command(flatten)]
    peers: Peers,
    #[command(flatten)]
    quotas: Quotas,
    #[command(flatten)]
    traces: Traces,
    /// Format of the log on stderr; RUST_LOG sets what is logged
    #[arg(
        long,
        env = "RALLYPOINT_LOG_FORMAT",
        hide_env_values = true,
        value_enum,
        default_value_t = LogFormat::Text
    )]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Serve {
    /// Serves until a signal.
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        log_to_stderr(self.log_format);
        let signals = Signals::new()?;
        let listen = self.callers.listen;
        let config = self.config(listen)?;
        if config.config_file.is_none() {
            outlive_hangups()?;
        }
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            CliError::new(format!("cannot listen on {listen}"))
                .why(error)
                .next(
                    "a server may be running there already: `rallypoint health` asks it; else \
                     choose another address with --listen",
                )
        })?;
        let listen = listener.local_addr().map_err(anyhow::Error::from)?;
        if let Some(admin) = &config.admin {
            let address = admin.address().map_err(anyhow::Error::from)?;
            output::note(format!("metrics and probes on http://{address}"));
        }
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let listening = |address| output::note(format!("listening on {scheme}://{address}"));
        let config = Config { listen, ..config };
        let is_named = config.database.is_some();
        let served = crate::server::serve(config, listener, stop(signals), listening).await;
        served.map_err(|error| with_doctor(error, is_named))?;
        Ok(ExitCode::SUCCESS)
    }

    fn config(self, listen: SocketAddr) -> Result<Config, CliError> {
        if let Some(database) = &self.database {
            postgres_url::read(postgres_url::DATABASE, database, options_of)?;
        }
        let session_idle = self.session_idle;
        let mut targets = targets::parse(&self.targets, self.slots, session_idle)?;
        let namespaces = self.namespaces.trusted_namespace_metadata;
        let certificates = self.callers.takes_certificates();
        let config_file = self.config_file.map(|path| ConfigFile {
            path,
            slots: self.slots,
            session_idle,
            others: targets.iter().map(|target| target.name.clone()).collect(),
            namespaces,
            certificates,
        });
        let mut sources = None;
        if let Some(file) = &config_file {
            let described = check_config::read(file)?;
            targets.extend(described.targets);
            sources = described.sources;
        }
        check_config::agree(certificates, namespaces, sources.as_ref())?;
        self.callers.check(sources.is_some())?;
        let lease = self.peers.lease();
        let peer = self.peers.config()?;
        if let Some(peer) = &peer {
            self.callers.check_peers(peer, sources.is_some())?;
        }
        Ok(Config {
            listen,
            database: self.database,
            data_dir: self.data_dir,
            targets,
            config_file,
            slots: self.slots,
            noop_slots: self.noop_slots,
            retention_days: self.retention,
            body_bytes: (self.body_memory as usize) << 20,
            replica_name: self.replica_name.unwrap_or_else(host_name),
            trusted_namespace_metadata: namespaces,
            http_hosts: self.callers.http_hosts.clone(),
            limits: self.quotas.limits(),
            lease,
            shutdown_grace: self.shutdown_grace,
            session_idle,
            peer,
            tls: self.callers.tls()?,
            admin: self.callers.admin()?,
            traces: self.traces.config()?,
            authenticator: sources.map(Authenticator::new),
            allow_unsafe_database: false,
        })
    }
}

fn host_name() -> String {
    match account::host() {
        name if name.is_empty() => "rallypoint".to_owned(),
        name => name,
    }
}

/// The longest time of the options.
const DAY: Duration = Duration::from_secs(86_400);

/// Parts of libraries that log what callers send, when they are debugged. They do not, whatever
/// RUST_LOG says.
const QUOTING: [&str; 1] = ["tonic::codec::decode=off"];

/// What is logged where RUST_LOG says nothing. HTTP/2 warns of each connection that it ends for its
/// abuse, by which anybody could fill the log (decision 0210).
const LOGGED: &str = "info,h2=error";

fn log_to_stderr(format: LogFormat) {
    let said = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let (filter, wrong) = match EnvFilter::try_new(&said) {
        Ok(filter) if !said.is_empty() => (filter, None),
        Ok(_) => (EnvFilter::new(LOGGED), None),
        Err(error) => (EnvFilter::new(LOGGED), Some(error)),
    };
    let quoting = QUOTING.iter().filter_map(|target| target.parse().ok());
    let filter = quoting.fold(filter, EnvFilter::add_directive);
    // What the log cannot be told is lost; an error of stderr would be written to stderr.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    if let Some(error) = wrong {
        tracing::warn!(%error, "RUST_LOG makes no sense, and counts as not set");
    }
}

/// The error; of a database that an operator has set up, `doctor` says what is wrong with it.
fn with_doctor(error: anyhow::Error, is_named: bool) -> CliError {
    use JournalError::{Database, NoPostgres, Schema, Unsafe};
    let journal = error.downcast_ref::<JournalError>();
    let is_examined = matches!(
        journal,
        Some(Database(_) | NoPostgres(_) | Schema(_) | Unsafe(_))
    );
    let remedy = journal.and_then(refusal_remedy);
    let error = CliError::from(error);
    let doctor = "`rallypoint doctor --database URL` says what is missing";
    match (is_named && is_examined, remedy) {
        (true, Some(remedy)) => error.next(remedy).then(doctor),
        (true, None) => error.next(doctor),
        (false, _) => error,
    }
}

/// With a configuration file the server takes this signal. Without one it would end the process at
/// once, and hang-ups also come from terminals that are closed.
fn outlive_hangups() -> Result<(), CliError> {
    let mut hangups = signals::hangups()?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::info!("SIGHUP: there is nothing to read again without --config");
        }
    });
    Ok(())
}

/// Resolves at the first signal; another one then exits the process.
async fn stop(mut signals: Signals) {
    signals.next().await;
    output::note("stopping (another signal, after a second, exits at once) …");
    tokio::spawn(async move {
        signals.next().await.now();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{DEFAULT_LEASE, DEFAULT_SESSION_IDLE, DEFAULT_SHUTDOWN_GRACE};
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    #[test]
    fn lengths_of_time_are_those_of_the_server_where_nothing_is_said() {
        let Line { serve } = Line::try_parse_from(["serve"]).expect("no option is required");
        assert_eq!(serve.shutdown_grace, DEFAULT_SHUTDOWN_GRACE);
        assert_eq!(serve.session_idle, DEFAULT_SESSION_IDLE);
        assert_eq!(serve.peers.lease(), DEFAULT_LEASE);
    }
}
