//! TLS to a server. The files are read for each new connection, so certificates may be renewed
//! while a client runs.

use crate::error::{Error, Result};
use hyper_util::rt::TokioIo;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};
use tonic::{Status, codegen::http::Uri};

/// What both sides speak.
const ALPN: &[u8] = b"h2";
const DEFAULT_PORT: u16 = 443;

/// Whom a client trusts and who it is, on connections to `https://` addresses: files in PEM.
///
/// By default it trusts the public authorities and presents no certificate.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Trusts the public authorities, and presents no certificate.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts these authorities, and no others.
    pub fn with_ca(self, ca: impl Into<PathBuf>) -> Tls {
        Tls {
            ca: Some(ca.into()),
            ..self
        }
    }

    /// Presents this certificate, with its key.
    pub fn with_identity(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Tls {
        Tls {
            identity: Some((cert.into(), key.into())),
            ..self
        }
    }

    /// Whether the files can be used. The error names the one that cannot.
    pub(crate) fn check(&self) -> Result<()> {
        let checked = self.config().map(drop);
        checked.map_err(|error| Error::from(Status::invalid_argument(error.to_string())))
    }

    /// Connects to the host and port of an address.
    pub(crate) async fn connect(self, to: Uri) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let host = to.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = to.port_u16().unwrap_or(DEFAULT_PORT);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        // Files that are being renewed may not fit together for a moment.
        let config = self.config().or_else(|_| self.config())?;
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(TokioIo::new(connector.connect(name, stream).await?))
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(ca) => {
                for root in certificates(ca)? {
                    roots.add(root).map_err(|error| unusable(ca, error))?;
                }
            }
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                // Nothing of a key is in the error.
                let read = PrivateKeyDer::from_pem_slice(&read(key)?);
                let read = read.map_err(|_| unusable(key, "it is no PEM of a key"))?;
                let built = builder.with_client_auth_cert(certificates(cert)?, read);
                built.map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => unusable(
                        key,
                        format!(
                            "it is the key of another certificate than {}",
                            cert.display()
                        ),
                    ),
                    error => unusable(cert, error),
                })?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = read(path)?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unusable(path, "there is no certificate in it (PEM)")),
        Err(error) => Err(unusable(path, error)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{} cannot be used: {why}", path.display()))
}
