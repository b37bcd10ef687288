//! Options of the port of the replicas.

use crate::{
    cli::error::CliError,
    peer::{PeerConfig, Tls, TlsFiles},
    server::DEFAULT_LEASE,
};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Where other replicas reach this one, and how they know each other.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replicas")]
pub(super) struct Peers {
    /// Address to listen on for other replicas (port 0: any free one); without it this server is
    /// alone
    #[arg(
        long,
        env = "RALLYPOINT_PEER_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS"
    )]
    peer_listen: Option<SocketAddr>,
    /// Where other replicas reach this one, as HOST:PORT [default: where it listens]
    #[arg(
        long,
        env = "RALLYPOINT_PEER_ADVERTISE",
        hide_env_values = true,
        requires = "peer_listen",
        value_name = "HOST:PORT"
    )]
    peer_advertise: Option<String>,
    /// Certificate of this replica for the others (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_CERT",
        hide_env_values = true,
        requires_all = ["peer_listen", "peer_key", "peer_ca"],
        value_name = "FILE"
    )]
    peer_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_KEY",
        hide_env_values = true,
        requires = "peer_cert",
        value_name = "FILE"
    )]
    peer_key: Option<PathBuf>,
    /// The authority that signs the certificates of all replicas (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_CA",
        hide_env_values = true,
        requires = "peer_cert",
        value_name = "FILE"
    )]
    peer_ca: Option<PathBuf>,
    /// Seconds after which another replica takes over from one that is not heard of; the same for
    /// all replicas
    #[arg(
        long,
        env = "RALLYPOINT_LEASE",
        hide_env_values = true,
        default_value_t = DEFAULT_LEASE.as_secs_f64(),
        value_parser = lease,
        value_name = "SECONDS"
    )]
    lease: f64,
}

impl Peers {
    /// How long an ownership lasts without a heartbeat.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs_f64(self.lease)
    }

    /// The port, when there is to be one; its certificates are read.
    pub(super) fn config(self) -> Result<Option<PeerConfig>, CliError> {
        let Some(listen) = self.peer_listen else {
            return Ok(None);
        };
        if listen.ip().is_unspecified() && self.peer_advertise.is_none() {
            let next = "say with --peer-advertise HOST:PORT where the others reach this replica";
            return Err(CliError::new(format!("{listen} is no address to call back")).next(next));
        }
        let tls = match (self.peer_cert, self.peer_key, self.peer_ca) {
            (Some(cert), Some(key), Some(ca)) => {
                Some(Tls::read(&TlsFiles { cert, key, ca }).map_err(unreadable)?)
            }
            _ => None,
        };
        Ok(Some(PeerConfig {
            listen,
            advertise: self.peer_advertise,
            tls,
        }))
    }
}

fn lease(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.5..=60.0).contains(seconds));
    seconds.ok_or_else(|| "from 0.5 to 60 seconds".to_owned())
}

fn unreadable(error: anyhow::Error) -> CliError {
    CliError::new("the certificates of the replicas cannot be used").why(format!("{error:#}"))
}
