//! Certificates of the replicas: each presents its own and trusts only what the shared authority
//! has signed.

use anyhow::Context;
use std::{fmt, fs, path::PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of this replica, valid for server and client authentication.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificate of the authority that signs those of all replicas.
    pub ca: PathBuf,
}

/// A replica's identity and the authority it trusts.
#[derive(Clone)]
pub struct Tls {
    identity: Identity,
    ca: Certificate,
}

impl Tls {
    /// Reads the files. Fails with the name of the one that cannot be read.
    pub fn read(files: &TlsFiles) -> anyhow::Result<Tls> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        Ok(Tls::new(
            read(&files.cert)?,
            read(&files.key)?,
            read(&files.ca)?,
        ))
    }

    /// From PEM text.
    pub fn new(cert: impl AsRef<[u8]>, key: impl AsRef<[u8]>, ca: impl AsRef<[u8]>) -> Tls {
        Tls {
            identity: Identity::from_pem(cert, key),
            ca: Certificate::from_pem(ca),
        }
    }

    pub(super) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.ca.clone())
    }

    pub(super) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity.clone())
            .ca_certificate(self.ca.clone())
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
