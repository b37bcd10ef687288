//! The way to a server: one option, one connection.
//!
//! Connecting is tried once and fails at once: a person who mistyped an address must not wait.

use super::Failure;
use crate::api::{scheduler_service_client::SchedulerServiceClient, status_service_client::StatusServiceClient};
use clap::Args;
use std::{error::Error, net::SocketAddr, time::Duration};
use tonic::transport::{Channel, Endpoint};

/// Largest answer read: a page of a thousand tasks, or one task with its whole result.
const MESSAGE_BYTES: usize = 64 << 20;

/// Which server to talk to.
#[derive(Args, Clone, Debug)]
pub struct Server {
    /// Address of the server
    #[arg(
        long = "server",
        global = true,
        hide_env_values = true,
        help_heading = "Connection",
        env = "RALLYPOINT_SERVER",
        default_value = "http://127.0.0.1:50051",
        value_name = "URL"
    )]
    address: String,
}

impl Server {
    /// The server listening at this address.
    pub fn at(address: SocketAddr) -> Server {
        Server { address: format!("http://{address}") }
    }

    /// A connection, or why there is none.
    pub async fn channel(&self) -> Result<Channel, Failure> {
        let failure = || Failure::new(format!("cannot reach the server at {}", self.address));
        let url = if self.address.contains("://") { self.address.clone() } else { format!("http://{}", self.address) };
        let endpoint = Endpoint::from_shared(url)
            .map_err(|error| failure().why(error).next("an address looks like http://127.0.0.1:50051"))?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .tcp_nodelay(true);
        endpoint
            .connect()
            .await
            .map_err(|error| failure().why(root(&error)).next("start one with `rallypoint serve`, or name one with --server URL"))
    }

    /// The door for callers.
    pub async fn schedulers(&self) -> Result<SchedulerServiceClient<Channel>, Failure> {
        Ok(SchedulerServiceClient::new(self.channel().await?).max_decoding_message_size(MESSAGE_BYTES))
    }

    /// The door for those who watch.
    pub async fn statuses(&self) -> Result<StatusServiceClient<Channel>, Failure> {
        Ok(StatusServiceClient::new(self.channel().await?).max_decoding_message_size(MESSAGE_BYTES))
    }
}

/// The innermost cause: tonic's own text says only "transport error".
fn root(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
