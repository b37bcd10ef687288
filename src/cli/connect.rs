//! The connection to a server, and the option that names it.
//!
//! Connecting is tried once: a person who mistyped an address must not wait.

use super::{
    account, credentials::Credentials, error::CliError, outage_note::OutageNote, output,
    server_address, time_text,
};
use crate::core::Handle;
use clap::Args;
use rallypoint_client::{Client, Error, Outage, Scheduler};
use std::{future::pending, net::SocketAddr, time::Duration};

/// How long a server may take to accept a connection, unless the command line says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to answer a call, repetitions included.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Which server to talk to.
#[derive(Args, Clone, Debug)]
pub(super) struct Server {
    /// Address of the server, or those of several replicas, separated by commas
    #[arg(
        long = "server",
        global = true,
        hide_env_values = true,
        help_heading = "Connection",
        env = server_address::VARIABLE,
        default_value = "http://127.0.0.1:50051",
        value_name = "URL"
    )]
    pub address: String,
    /// How long the server may take to accept the connection [default: 5s]
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        value_parser = time_text::parse,
        value_name = "TIME"
    )]
    connect_timeout: Option<Duration>,
    /// How long it may take to answer a call [default: 30s, of health 5s]; waiting for tasks is not
    /// limited
    #[arg(
        long,
        global = true,
        help_heading = "Connection",
        value_parser = time_text::parse,
        value_name = "TIME"
    )]
    request_timeout: Option<Duration>,
    #[command(flatten)]
    credentials: Credentials,
}

impl Server {
    /// The server that listens at this address.
    pub(super) fn at(address: SocketAddr) -> Server {
        Server {
            address: format!("http://{address}"),
            connect_timeout: None,
            request_timeout: None,
            credentials: Credentials::default(),
        }
    }

    /// Refuses what is for callers where a server is started.
    pub(super) fn refuse_for_server(&self) -> Result<(), CliError> {
        self.credentials.refuse_for_server()
    }

    /// The command line says in which namespace it calls.
    pub(super) fn names_namespace(&self) -> bool {
        self.credentials.names_namespace()
    }

    /// How long it may take to answer.
    pub(super) fn request_timeout(&self, default: Duration) -> Duration {
        self.request_timeout.unwrap_or(default)
    }

    /// Who says the address: the environment variable, or the option.
    fn from(&self) -> &'static str {
        let variable = std::env::var(server_address::VARIABLE);
        match variable.is_ok_and(|address| address == self.address) {
            true => server_address::VARIABLE,
            false => "--server",
        }
    }

    /// Connects, and says nothing of the caller but what proves who it is.
    pub(super) async fn connect(&self) -> Result<Client, CliError> {
        server_address::check(&self.address, self.from())?;
        let timeout = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
        let tls = self.credentials.tls(&self.address)?;
        let connected = Client::connect_by(&tls, &self.address, timeout).await;
        let client = connected.and_then(|client| self.credentials.of(client));
        let what = |error: &Error| match error.code {
            // What proves who calls is no file of its kind, and nobody was called.
            tonic::Code::InvalidArgument => format!("cannot call the server at {}", self.address),
            _ => format!("cannot reach the server at {}", self.address),
        };
        let client = client.map_err(|error| {
            let failed = CliError::call(what(&error), &error);
            match error.transport {
                true => {
                    let next = server_address::remedy(&self.address, self.from(), &error.message);
                    failed.next(next)
                }
                false => failed,
            }
        })?;
        Ok(client.with_time_limit(Some(self.request_timeout(REQUEST_TIMEOUT))))
    }

    /// Connects as [`Server::quiet_client`] does, and says on stderr while calls find no server.
    pub(super) async fn client(&self) -> Result<Client, CliError> {
        let client = self.quiet_client().await?;
        say_outages(client.outage());
        Ok(client)
    }

    /// Connects. The caller in the log is the account that runs this command, or where it runs if
    /// the environment does not name that.
    pub(super) async fn quiet_client(&self) -> Result<Client, CliError> {
        let client = self.connect().await?;
        let named = account::in_environment().map(|account| client.clone().with_caller(&account));
        Ok(named.and_then(|named| named.ok()).unwrap_or(client))
    }

    /// Connects, and finds a scheduler by its handle, or by its name: the one open under it, or the
    /// one opened last. Of what is neither, the server says that it is no handle.
    pub(super) async fn scheduler(&self, word: &str) -> Result<Scheduler, CliError> {
        let client = self.client().await?;
        let found = match word.parse::<Handle>() {
            Ok(_) => Ok(Some(client.scheduler(word))),
            Err(_) => client.find(word).await,
        };
        let found = found
            .map_err(|error| CliError::call(format!("cannot look for scheduler {word}"), &error))?;
        if let Some(scheduler) = &found {
            say_outages(scheduler.outage());
        }
        found.ok_or_else(|| {
            let error = CliError::new(format!("no scheduler has the name {word}"));
            let error = almost_handle(word).into_iter().fold(error, CliError::why);
            error
                .because_unknown("HANDLE_NOT_FOUND", word)
                .next("check the name: `rallypoint list` shows it, and the handles of all")
        })
    }
}

/// Says on stderr while calls find no server that takes them.
fn say_outages(outage: Outage) {
    let mut note = OutageNote::of(outage);
    tokio::spawn(async move { note.beside(pending::<()>(), output::note).await });
}

/// Why a word that looks like a handle is none.
fn almost_handle(word: &str) -> Option<String> {
    let is_of_handle = |c: char| c.is_ascii_hexdigit() || c == '-';
    let length = word.len();
    let is_almost = length >= 24 && word.contains('-') && word.chars().all(is_of_handle);
    is_almost.then(|| match length {
        36 if word.to_lowercase().parse::<Handle>().is_ok() => {
            "a handle is written in small letters".to_owned()
        }
        36 => "it is a UUID of another kind than handles are".to_owned(),
        _ => format!("it has {length} characters, and a handle has 36"),
    })
}
