//! The connection to a server, and the option that names it.
//!
//! Connecting is tried once: a person who mistyped an address must not wait.

use super::error::CliError;
use clap::Args;
use rallypoint_client::Client;
use std::net::SocketAddr;

/// Which server to talk to.
#[derive(Args, Clone, Debug)]
pub(super) struct Server {
    /// Address of the server, or those of several replicas, separated by commas
    #[arg(
        long = "server",
        global = true,
        hide_env_values = true,
        help_heading = "Connection",
        env = "RALLYPOINT_SERVER",
        default_value = "http://127.0.0.1:50051",
        value_name = "URL"
    )]
    pub address: String,
}

impl Server {
    /// The server that listens at this address.
    pub(super) fn at(address: SocketAddr) -> Server {
        Server {
            address: format!("http://{address}"),
        }
    }

    /// Connects. The caller in the log is the account that runs this command.
    pub(super) async fn client(&self) -> Result<Client, CliError> {
        let what = || format!("cannot reach the server at {}", self.address);
        let client = Client::connect(&self.address)
            .await
            .map_err(|error| CliError::call(what(), &error))?;
        let account = std::env::var("USER")
            .or_else(|_| std::env::var("LOGNAME"))
            .unwrap_or_default();
        let named = if account.is_empty() {
            Ok(client.clone())
        } else {
            client.clone().with_caller(&account)
        };
        Ok(named.unwrap_or(client))
    }
}
