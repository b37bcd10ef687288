//! The settings of a server, and what follows from them alone: the private Postgres when no
//! database is named, and the targets on which SQL tasks run. It opens no journal and starts no
//! task.

use super::target_setup::Installed;
use crate::{
    clock::Clock,
    core::{ShardId, Work, model::limits::Limits},
    database_url::options_of,
    identity::Authenticator,
    journal::JournalConfig,
    metrics::Metrics,
    peer::{CallerTls, PeerConfig},
    postgres::{self, PrivatePostgres},
    rpc,
    server::{AdminPort, ConfigFile, Target},
    traces::{TraceConfig, Traces},
};
use anyhow::Context;
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

/// Connections that read the journal for callers.
const JOURNAL_READERS: u32 = 8;
/// What is said where no database is named.
const PRIVATE: &str = "no --database is named: a private Postgres is started, for trials";
const URL_FORM: &str = "write it like postgres://user@host/database";

/// How long ownership of the shard lasts without a heartbeat, unless an operator says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(5);

/// How long running tasks may go on after a shutdown began, unless an operator says otherwise.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Address for callers.
    pub listen: SocketAddr,
    /// URL of the coordination database; `None`: a private Postgres.
    pub database: Option<String>,
    /// Data directory of the private Postgres; `None`: in the account's state directory.
    pub data_dir: Option<PathBuf>,
    /// Databases on which SQL tasks run; none: the private Postgres's `app`.
    pub targets: Vec<Target>,
    /// Where some of them are described, to be read again at SIGHUP; `None`: nowhere.
    pub config_file: Option<ConfigFile>,
    /// Slots of the private Postgres's `app`.
    pub slots: u32,
    /// No-op tasks that may run at a time.
    pub noop_slots: u32,
    /// Days for which events and the log are retained.
    pub retention_days: u32,
    /// Memory for the bodies of waiting tasks.
    pub body_bytes: usize,
    /// Name of this replica, the same after a restart.
    pub replica_name: String,
    /// The peer port; `None`: this server has no other replicas.
    pub peer: Option<PeerConfig>,
    /// Certificates of the port for callers; `None`: plain text.
    pub tls: Option<CallerTls>,
    /// Serves metrics and probes; `None`: nothing does.
    pub admin: Option<AdminPort>,
    /// Where traces are sent; `None`: nothing is traced.
    pub traces: Option<TraceConfig>,
    /// Knows callers and what they may do; `None`: everybody may do everything.
    pub authenticator: Option<Authenticator>,
    /// How long ownership lasts without a heartbeat; the same for all replicas.
    pub lease: Duration,
    /// How long running tasks may go on after a shutdown began.
    pub shutdown_grace: Duration,
    /// Takes namespaces from the metadata of calls. Safe only behind a proxy that sets them.
    pub trusted_namespace_metadata: bool,
    /// Names besides `localhost` and addresses by which a server that does not know callers is
    /// reached over HTTP.
    pub http_hosts: Vec<String>,
    /// Quotas of each namespace.
    pub limits: Limits,
    /// How long a session on the private Postgres's `app` may be idle.
    pub session_idle: Duration,
    /// Accepts a database that loses commits in a crash. For tests.
    pub allow_unsafe_database: bool,
}

impl Config {
    /// Starts the private Postgres, unless a coordination database is named.
    pub(super) async fn start_private(&self) -> anyhow::Result<Option<PrivatePostgres>> {
        if self.database.is_some() {
            return Ok(None);
        }
        let data_dir = self
            .data_dir
            .clone()
            .unwrap_or_else(postgres::default_data_dir);
        let (folder, what) = (data_dir.display(), PRIVATE);
        // Whoever names targets may have forgotten the database.
        match self.config_file.is_none() && self.targets.is_empty() {
            true => tracing::info!(%folder, "{what}"),
            false => tracing::warn!(%folder, "{what}"),
        }
        let options = postgres::Options {
            data_dir: Some(data_dir),
            ..postgres::Options::default()
        };
        let started = tokio::task::spawn_blocking(move || PrivatePostgres::start(options));
        let private = started.await??;
        let administrator = private.url_for(postgres::TARGET, postgres::SUPERUSER);
        let logins = [postgres::TARGET.to_owned()];
        for what in [Installed::Markers, Installed::Guard, Installed::Runs] {
            what.install(&administrator.parse()?, &logins).await?;
        }
        Ok(Some(private))
    }

    /// Begins to send traces, if that is wanted.
    pub(super) fn traces(
        &self,
        replica: &str,
        clock: &Clock,
        metrics: &Metrics,
    ) -> anyhow::Result<Traces> {
        match &self.traces {
            None => Ok(Traces::default()),
            Some(traces) => Traces::start(traces, replica, clock.clone(), metrics.clone()),
        }
    }

    /// How the journal is opened: in the named database, else in the private Postgres.
    pub(super) fn journal(
        &self,
        private: Option<&PrivatePostgres>,
    ) -> anyhow::Result<JournalConfig> {
        let url = self
            .database
            .clone()
            .or_else(|| private.map(PrivatePostgres::coordination_url))
            .unwrap_or_default();
        Ok(JournalConfig {
            options: options_of(&url)
                .with_context(|| format!("--database is malformed: {URL_FORM}"))?,
            shard: ShardId(0),
            allow_unsafe: self.allow_unsafe_database,
            readers: JOURNAL_READERS,
            retention_days: self.retention_days,
        })
    }

    /// The configured targets, and `app` of the private Postgres unless that name is taken.
    pub(super) fn targets(&self, private: Option<&PrivatePostgres>) -> anyhow::Result<Vec<Target>> {
        let mut targets = self.targets.clone();
        if let Some(private) = private
            && !targets
                .iter()
                .any(|target| &*target.name == postgres::TARGET)
        {
            let login = private.target_url().parse()?;
            targets.push(Target {
                session_idle: self.session_idle,
                ..Target::new(postgres::TARGET, login, self.slots)
            });
        }
        if targets.is_empty() {
            tracing::warn!(
                "no target is configured: only no-op tasks can run (add one with --target NAME=URL, or in a --config file)"
            );
        }
        Ok(targets)
    }
}

/// What the executor has slots for when its targets are there.
pub(super) fn capacity(targets: &[Target]) -> Vec<(Work, u32)> {
    let slots = |target: &Target| (work(target), target.slots);
    targets.iter().map(slots).collect()
}

/// What is run on a target.
fn work(target: &Target) -> Work {
    let target = Arc::clone(&target.name);
    Work::Sql { target }
}

/// The targets with what tasks may name there, and who may name them.
pub(super) fn allowed(targets: &[Target]) -> impl Iterator<Item = (&str, rpc::Allowed)> {
    targets.iter().map(|target| {
        let allowed = rpc::Allowed {
            roles: target.roles.clone(),
            namespaces: target.namespaces.clone(),
        };
        (&*target.name, allowed)
    })
}
