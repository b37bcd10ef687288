//! Options of `serve` about other replicas.

use super::listen::{self, unusable};
use crate::{
    cli::{error::CliError, peer_files::PeerFiles, time_text},
    peer::{PeerConfig, Tls},
};
use clap::Args;
use http::uri::Authority;
use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

/// How long an ownership may last without a heartbeat.
const LEASES: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(60);

/// How replicas reach and authenticate each other.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replicas", mut_arg("peer_cert", |cert| cert.requires("peer_listen")))]
pub(super) struct Peers {
    /// Address to listen on for other replicas (port 0: any free one); without it there are none
    #[arg(
        long,
        env = "RALLYPOINT_PEER_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS",
        value_parser = listen::address
    )]
    peer_listen: Option<SocketAddr>,
    /// Address that other replicas use, as HOST:PORT [default: the one it listens on]
    #[arg(
        long,
        env = "RALLYPOINT_PEER_ADVERTISE",
        hide_env_values = true,
        requires = "peer_listen",
        value_name = "HOST:PORT",
        value_parser = advertised
    )]
    peer_advertise: Option<String>,
    #[command(flatten)]
    files: PeerFiles,
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
    /// How long without a heartbeat before another replica takes over; the same for all replicas
    #[arg(
        long,
        env = "RALLYPOINT_LEASE",
        hide_env_values = true,
        default_value = "5s",
        value_parser = time_text::within(LEASES),
        value_name = "TIME"
    )]
    lease: Duration,
}

/// An address by which others connect.
fn advertised(text: &str) -> Result<String, &'static str> {
    let address = text.parse::<Authority>().ok();
    let is_whole = |one: &Authority| one.port_u16().is_some_and(|port| port > 0);
    match address.filter(is_whole) {
        Some(address) if !address.host().is_empty() && !text.contains('@') => Ok(text.to_owned()),
        _ => Err("write a host and a port, such as replica-0.peers:50052"),
    }
}

#[test]
fn what_others_connect_to_has_a_host_and_a_port() {
    for good in ["a.example:50052", "10.0.0.1:1", "[::1]:50052"] {
        assert!(advertised(good).is_ok(), "{good}");
    }
    for wrong in [
        "a.example",
        "a.example:",
        "a.example:0",
        ":50052",
        "a b:1",
        "u@a:1",
        "::1",
    ] {
        assert!(advertised(wrong).is_err(), "{wrong}");
    }
}

impl Peers {
    /// How long an ownership lasts without a heartbeat.
    pub(super) fn lease(&self) -> Duration {
        self.lease
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
        let files = self.files.files();
        let read = |files| Tls::read(&files).map_err(|error| unusable("the replicas", &error));
        let tls = files.map(read);
        Ok(Some(PeerConfig {
            listen,
            advertise: self.peer_advertise,
            tls: tls.transpose()?,
            names: self.peer_names,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Serve {
        #[command(flatten)]
        peers: Peers,
    }

    #[test]
    fn certificates_of_replicas_come_together_and_with_a_port() {
        let taken = |options: &[&str]| Serve::try_parse_from([&["serve"], options].concat());
        let files = ["--peer-cert=a", "--peer-key=b", "--peer-ca=c"];
        let listen = "--peer-listen=127.0.0.1:0";
        assert!(taken(&files).is_err());
        assert!(taken(&[listen, files[0], files[1]]).is_err());
        assert!(taken(&[listen, files[1]]).is_err());
        let all = taken(&[&[listen], &files[..]].concat()).expect("all of it");
        let ca = all.peers.files.files().map(|files| files.ca);
        assert_eq!(ca, Some("c".into()));
        assert!(taken(&[listen]).is_ok());
    }
}
