//! The options for the certificates of replicas, which `serve` and `doctor` have alike.

use crate::peer::TlsFiles;
use clap::Args;
use std::path::PathBuf;

/// What a replica shows others, and by what it knows them: all of it or nothing.
#[derive(Args, Debug)]
pub(super) struct PeerFiles {
    /// Certificate of this replica (PEM)
    #[arg(
        long,
        env = "RALLYPOINT_PEER_CERT",
        hide_env_values = true,
        requires_all = ["peer_key", "peer_ca"],
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
}

impl PeerFiles {
    /// The files; `None`: there are none.
    pub(super) fn files(self) -> Option<TlsFiles> {
        Some(TlsFiles {
            cert: self.peer_cert?,
            key: self.peer_key?,
            ca: self.peer_ca?,
        })
    }
}
