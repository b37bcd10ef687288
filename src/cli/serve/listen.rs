//! Options of `serve` about callers: the address, the certificates, and how safe it must be.
//!
//! Off the own machine callers must say who they are, over TLS, unless the operator says that
//! something else sees to that.

use crate::{
    cli::{error::CliError, variables},
    peer::{ANOTHER_KEY, CallerTls, CallerTlsFiles, PeerConfig},
    server::AdminPort,
};
use clap::Args;
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

/// The port in advice on addresses: that of the default.
const EXAMPLE_PORT: u16 = 50_051;

/// How callers reach this server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Callers")]
pub(super) struct Listen {
    /// Address to listen on (port 0: any free one)
    #[arg(
        long,
        env = "RALLYPOINT_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:50051",
        value_name = "ADDRESS",
        value_parser = address
    )]
    pub(super) listen: SocketAddr,
    /// Certificate of this server (PEM); with it callers come by TLS, without it in plain text
    #[arg(
        long,
        env = "RALLYPOINT_LISTEN_CERT",
        hide_env_values = true,
        requires = "listen_key",
        value_name = "FILE"
    )]
    listen_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_LISTEN_KEY",
        hide_env_values = true,
        requires = "listen_cert",
        value_name = "FILE"
    )]
    listen_key: Option<PathBuf>,
    /// Authorities that sign certificates of callers (PEM), by which rallypoint.toml knows them
    #[arg(
        long,
        env = "RALLYPOINT_LISTEN_CLIENT_CA",
        hide_env_values = true,
        requires = "listen_cert",
        value_name = "FILE"
    )]
    listen_client_ca: Option<PathBuf>,
    /// Address for metrics (/metrics) and probes (/livez, /readyz), in plain text and for whoever
    /// reaches it: they show counts and names of targets [default: none]
    #[arg(
        long,
        env = "RALLYPOINT_ADMIN_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS",
        value_parser = address
    )]
    admin_listen: Option<SocketAddr>,
    /// Listen off this machine although anybody there may then do anything, or read what is said
    #[arg(
        long,
        env = "RALLYPOINT_INSECURE",
        hide_env_values = true,
        value_parser = variables::flag
    )]
    insecure: bool,
    /// A name by which callers over HTTP (the page, curl) reach a server that does not know its
    /// callers; may be repeated. localhost and addresses need none
    #[arg(
        long = "http-host",
        env = "RALLYPOINT_HTTP_HOSTS",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "NAME"
    )]
    pub(super) http_hosts: Vec<String>,
}

impl Listen {
    /// Callers may present certificates.
    pub(super) fn takes_certificates(&self) -> bool {
        self.listen_client_ca.is_some()
    }

    /// The port for metrics and probes, if there is to be one.
    pub(super) fn admin(&self) -> Result<Option<AdminPort>, CliError> {
        let Some(address) = self.admin_listen else {
            return Ok(None);
        };
        let bound = AdminPort::bind(address).map_err(|error| {
            CliError::new(format!("cannot listen on {address}"))
                .why(error)
                .next("choose another address with --admin-listen")
        });
        bound.map(Some)
    }

    /// The certificates of the port for callers, if it has some.
    pub(super) fn tls(&self) -> Result<Option<CallerTls>, CliError> {
        let (Some(cert), Some(key)) = (&self.listen_cert, &self.listen_key) else {
            return Ok(None);
        };
        let files = CallerTlsFiles {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: self.listen_client_ca.clone(),
        };
        let read = CallerTls::read(&files);
        read.map(Some)
            .map_err(|error| unusable("the port for callers", &error))
    }

    /// Refuses to be reached from elsewhere without TLS and without knowing callers.
    pub(super) fn check(&self, identifies_callers: bool) -> Result<(), CliError> {
        if self.insecure || self.listen.ip().is_loopback() {
            return Ok(());
        }
        let mut error = CliError::usage(format!("{} is not safe to listen on", self.listen));
        if !identifies_callers {
            error = error.why(
                "anybody who reaches it may run anything on every target: say in rallypoint.toml \
                 who may do what ([identity] and [[access]])",
            );
        }
        if self.listen_cert.is_none() {
            error = error.why(
                "what is said, tokens included, can be read on the way: \
                 set --listen-cert and --listen-key",
            );
        }
        if identifies_callers && self.listen_cert.is_some() {
            return Ok(());
        }
        Err(error.next(
            "see docs/security.md; --insecure listens there all the same, \
             where the network or a proxy sees to it",
        ))
    }

    /// Refuses a port for replicas at which somebody who is none may say that it is one: off this
    /// machine, and where callers are known also on it.
    pub(super) fn check_peers(
        &self,
        peer: &PeerConfig,
        identifies_callers: bool,
    ) -> Result<(), CliError> {
        let listen = peer.listen;
        if self.insecure {
            return Ok(());
        }
        if peer.tls.is_some() {
            if self.takes_certificates() && peer.names.is_empty() {
                let what = "certificates of callers could open the port for replicas";
                return Err(CliError::usage(what)
                    .why("with --listen-client-ca callers have certificates, too")
                    .next("say with --peer-name which names only replicas have"));
            }
            return Ok(());
        }
        if listen.ip().is_loopback() && !identifies_callers {
            return Ok(());
        }
        Err(
            CliError::usage(format!("{listen} is not safe for replicas"))
                .why("anybody who reaches it is taken for a replica, and believed")
                .next("set --peer-cert, --peer-key and --peer-ca; --insecure does without"),
        )
    }
}

/// Reads an address to listen on, with its port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        if let Ok(address) = text.parse::<IpAddr>() {
            let whole = SocketAddr::new(address, EXAMPLE_PORT);
            return format!("the port is missing: write {whole}");
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        match port.parse::<u16>() {
            // What has more colons is meant as an address of IPv6, of which this is no port.
            Ok(port) if !host.contains(':') => {
                let wrong = match host {
                    "" => "the address is missing".to_owned(),
                    host => format!("`{host}` is no IP address"),
                };
                format!(
                    "{wrong}: write 127.0.0.1:{port} for this machine alone, or 0.0.0.0:{port} \
                     for all that reach it"
                )
            }
            _ => format!(
                "write an address and a port, like 127.0.0.1:{EXAMPLE_PORT} or \
                 [::1]:{EXAMPLE_PORT}"
            ),
        }
    })
}

/// Certificates cannot be used; `whose`: of what.
pub(super) fn unusable(whose: &str, error: &anyhow::Error) -> CliError {
    let why = format!("{error:#}");
    let next = match why.contains(ANOTHER_KEY) {
        true => "name the key of that certificate, or the certificate of that key",
        false => "name files of PEM that the account of the server may read",
    };
    CliError::new(format!("the certificates of {whose} cannot be used"))
        .why(why)
        .next(next)
}

#[cfg(test)]
mod tests {
    use super::{ANOTHER_KEY, address, unusable};

    #[test]
    fn a_port_alone_is_answered_by_an_address_with_it() {
        for text in ["50951", ":50951", "localhost:50951"] {
            let said = address(text).expect_err(text);
            assert!(said.contains("127.0.0.1:50951") && said.contains("0.0.0.0:50951"));
        }
        assert!(address("[::1]:1").is_ok());
    }

    #[test]
    fn a_key_of_another_certificate_is_answered_by_what_belongs_together() {
        let error = anyhow::anyhow!(ANOTHER_KEY).context("certificate a, key b");
        let error = unusable("the replicas", &error);
        let next = error.next_step().expect("a next step");
        assert!(next.contains("the key of that certificate"), "{next}");
    }

    #[test]
    fn a_bad_address_is_answered_by_what_is_wrong_with_it() {
        for (text, expected) in [
            ("here", "write an address and a port"),
            ("[::1:80", "write an address and a port"),
            ("::g:80", "write an address and a port"),
            ("127.0.0.1:65536", "write an address and a port"),
            ("::1", "the port is missing: write [::1]:50051"),
            ("127.0.0.1", "the port is missing: write 127.0.0.1:50051"),
            (
                "300.1.1.1:80",
                "`300.1.1.1` is no IP address: write 127.0.0.1:80",
            ),
            (
                "localhost:80",
                "`localhost` is no IP address: write 127.0.0.1:80",
            ),
            (":80", "the address is missing: write 127.0.0.1:80"),
        ] {
            let said = address(text).expect_err(text);
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }
}
