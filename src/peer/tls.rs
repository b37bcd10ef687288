//! Certificates of the replicas: each presents its own and trusts only what the shared authority
//! has signed.
//!
//! The files are read again when they change, as a Secret does that is renewed: new connections use
//! the new ones, those that are open go on. Files that make no identity are never used: at the
//! start they are an error, later the ones before stay in use and the log says why.

use anyhow::{Context, anyhow, ensure};
use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor, TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::WebPkiClientVerifier,
    },
    server,
};

/// Interval between looks at the files.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// What both sides speak.
const ALPN: &[u8] = b"h2";

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

/// A replica's identity and the authority it trusts. Clones share the latest.
#[derive(Clone)]
pub struct Tls {
    latest: Arc<RwLock<Identity>>,
    files: Option<TlsFiles>,
}

/// What follows from the certificates.
#[derive(Clone)]
struct Identity {
    pems: [Vec<u8>; 3],
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the files. Fails with the name of the one that cannot be used.
    pub fn read(files: &TlsFiles) -> anyhow::Result<Tls> {
        let identity = Identity::new(files.read()?).with_context(|| files.to_string())?;
        Ok(Tls {
            latest: Arc::new(RwLock::new(identity)),
            files: Some(files.clone()),
        })
    }

    /// From PEM text.
    pub fn new(
        cert: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
        ca: impl AsRef<[u8]>,
    ) -> anyhow::Result<Tls> {
        let pems = [cert.as_ref(), key.as_ref(), ca.as_ref()].map(<[u8]>::to_vec);
        Ok(Tls {
            latest: Arc::new(RwLock::new(Identity::new(pems)?)),
            files: None,
        })
    }

    /// Reads the files again whenever they have changed, for ever.
    pub(super) async fn keep_reading(self) {
        let mut refused = None;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Err((pems, error)) = self.read_again()
                && refused != pems
            {
                let error = format!("{error:#}");
                tracing::error!(%error, "the renewed certificates of the replicas cannot be used: \
                     the ones before stay in use");
                refused = pems;
            }
        }
    }

    /// Uses what the files hold now. The error comes with what they held, if that can be read.
    pub fn read_again(&self) -> Result<(), (Option<[Vec<u8>; 3]>, anyhow::Error)> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        let pems = files.read().map_err(|error| (None, error))?;
        if pems == self.latest().pems {
            return Ok(());
        }
        let identity = Identity::new(pems.clone()).with_context(|| files.to_string());
        let identity = identity.map_err(|error| (Some(pems), error))?;
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = identity;
        tracing::info!(%files, "the certificates of the replicas were renewed");
        Ok(())
    }

    /// Finds out which replica has connected.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        TlsAcceptor::from(self.latest().server).accept(stream).await
    }

    /// Makes sure that the replica `name` was reached, and says who this one is.
    pub async fn connect(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.latest().client);
        connector.connect(name, stream).await
    }

    fn latest(&self) -> Identity {
        let latest = self.latest.read();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Identity {
    /// Fails unless the certificate and its key belong together and the authority is one.
    fn new(pems: [Vec<u8>; 3]) -> anyhow::Result<Identity> {
        let [cert, key, ca] = &pems;
        let chain = certificates(cert).context("the certificate")?;
        let key = || PrivateKeyDer::from_pem_slice(key).context("the key is no PEM of a key");
        let mut roots = RootCertStore::empty();
        for root in certificates(ca).context("the authority")? {
            roots.add(root).context("the authority")?;
        }
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder(roots.clone()).build()?;
        let mut server = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key()?)
            .context("the certificate and its key")?;
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key()?)
            .context("the certificate and its key")?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        client.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Identity {
            pems,
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| anyhow!("{error}"))?;
    ensure!(!found.is_empty(), "there is no certificate in it (PEM)");
    Ok(found)
}

impl TlsFiles {
    fn read(&self) -> anyhow::Result<[Vec<u8>; 3]> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        Ok([read(&self.cert)?, read(&self.key)?, read(&self.ca)?])
    }
}

impl fmt::Display for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cert, key, ca] = [&self.cert, &self.key, &self.ca].map(|path| path.display());
        write!(f, "certificate {cert}, key {key}, authority {ca}")
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
