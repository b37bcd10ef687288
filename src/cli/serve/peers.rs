//! Options of `serve` about other replicas.

use crate::{
    cli::error::CliError,
    peer::{PeerConfig, Tls, TlsFiles},
    server::DEFAULT_LEASE,
};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// How replicas reach and authenticate each other.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replicas")]
pub(super) struct Peers {
    /// Address to listen on for other replicas (port 0: any free one); without it there are none
    #[arg(
        long,
        env = "RALLYPOINT_PEER_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS"
    )]
    peer_listen: Option<SocketAddr>,
    /// Address that other replicas use, as HOST:PORT [default: the one it listens on]
    #[arg(
        long,
        env = "RALLYPOINT_PEER_ADVERTISE",
        hide_env_values = true,
        requires = "peer_listen",
        value_name = "HOST:PORT"
    )]
    peer_advertise: Option<String>,
    /// Certificate of this replica (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_CERT",
        hide_env_values = true,
        requires_all = ["peer_listen", "peer_key", "peer_ca"],
        value_name = "FILE"
    )]
    peer_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_KEY",
        hide_env_values = true,
        requires = "peer_cert",
        value_name = "FILE"
    )]
    peer_key: Option<PathBuf>,
    /// Certificate of the authority that signs those of all replicas (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_CA",
        hide_env_values = true,
        requires = "peer_cert",
        value_name = "FILE"
    )]
    peer_ca: Option<PathBuf>,
    /// A name that the certificate of every replica has, like '*.rallypoint-peers.default.svc' (may
    /// be repeated: one of them) [default: every certificate of the authority is a replica's]
    #[arg(
        long = "peer-name",
        env = "RALLYPOINT_PEER_NAMES",
        hide_env_values = true,
        requires = "peer_cert",
        value_delimiter = ' ',
        value_name = "NAME"
    )]
    peer_names: Vec<String>,
    /// Seconds without a heartbeat after which another replica takes over; the same for all
    /// replicas
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

    /// The configuration of the peer port, if there is one. Reads the certificates.
    pub(super) fn config(self) -> Result<Option<PeerConfig>, CliError> {
        let Some(listen) = self.peer_listen else {
            return Ok(None);
        };
        if listen.ip().is_unspecified() && self.peer_advertise.is_none() {
            let next = "set --peer-advertise HOST:PORT to the address that other replicas use";
            return Err(CliError::new(format!(
                "{listen} is not an address that others can connect to"
            ))
            .next(next));
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
            names: self.peer_names,
        }))
    }
}

fn lease(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.5..=60.0).contains(seconds));
    seconds.ok_or_else(|| "must be 0.5 to 60 seconds".to_owned())
}

fn unreadable(error: anyhow::Error) -> CliError {
    CliError::new("the certificates of the replicas cannot be used").why(format!("{error:#}"))
}
