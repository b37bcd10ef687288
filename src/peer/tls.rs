//! Certificates of the replicas: each presents its own and trusts only what the shared authority
//! has signed. The files are renewed as `renewed` says.

use super::renewed::{Files, Renewed, certificates, private_key};
use anyhow::Context;
use std::{fmt, io, path::PathBuf, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor, TlsConnector, client,
    rustls::{
        self, ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, ServerName},
        server::{NoServerSessionStorage, WebPkiClientVerifier},
    },
    server,
};

/// What is said of a key and a certificate that do not belong together.
pub(crate) const ANOTHER_KEY: &str = "the key is of another certificate";

/// What both sides speak.
pub(super) const ALPN: &[u8] = b"h2";

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
pub struct Tls(Renewed<Identity>);

/// What follows from the certificates.
#[derive(Clone)]
struct Identity {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the files. Fails with the name of the one that cannot be used.
    pub fn read(files: &TlsFiles) -> anyhow::Result<Tls> {
        let shown = files.to_string();
        let TlsFiles { cert, key, ca } = files.clone();
        let files = Files {
            paths: vec![cert, key, ca],
            whose: "the replicas",
            shown,
        };
        Ok(Tls(Renewed::read(files, Identity::new)?))
    }

    /// From PEM text.
    pub fn new(
        cert: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
        ca: impl AsRef<[u8]>,
    ) -> anyhow::Result<Tls> {
        let texts = [cert.as_ref(), key.as_ref(), ca.as_ref()];
        let texts = texts.map(<[u8]>::to_vec).to_vec();
        Ok(Tls(Renewed::fixed(texts, Identity::new)?))
    }

    /// Reads the files again whenever they have changed, for ever.
    pub(super) async fn keep_reading(self) {
        self.0.keep_reading().await;
    }

    /// Uses what the files hold now. The error comes with what they held, if that can be read.
    pub fn read_again(&self) -> Result<(), (Option<Vec<Vec<u8>>>, anyhow::Error)> {
        self.0.read_again()
    }

    /// Finds out which replica has connected.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        TlsAcceptor::from(self.server()).accept(stream).await
    }

    /// How connections are accepted from now on.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.0.latest().server
    }

    /// Makes sure that the replica `name` was reached, and says who this one is.
    pub async fn connect(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.0.latest().client);
        connector.connect(name, stream).await
    }
}

impl Identity {
    /// Fails unless the certificate and its key belong together and the authority is one.
    fn new(pems: &[Vec<u8>]) -> anyhow::Result<Identity> {
        let [cert, key, ca] = pems else {
            anyhow::bail!("three files are needed");
        };
        let chain = certificates(cert).context("the certificate")?;
        let roots = Arc::new(authorities(ca)?);
        let verifier = WebPkiClientVerifier::builder(roots.clone()).build()?;
        let mut server = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private_key(key)?)
            .map_err(of_pair)?;
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private_key(key)?)
            .map_err(of_pair)?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        client.alpn_protocols = vec![ALPN.to_vec()];
        forget_sessions(&mut server);
        Ok(Identity {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

/// Why a certificate and a key cannot be used together.
pub(super) fn of_pair(error: rustls::Error) -> anyhow::Error {
    match error {
        rustls::Error::InconsistentKeys(_) => anyhow::anyhow!(ANOTHER_KEY),
        other => anyhow::Error::from(other).context("the certificate and its key"),
    }
}

/// Has every connection show its certificate: one that has expired, or is not trusted any more,
/// must not go on by a session from before.
pub(super) fn forget_sessions(config: &mut ServerConfig) {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
}

/// Those of a PEM file, at least one.
pub(super) fn authorities(ca: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in certificates(ca).context("the authority")? {
        roots.add(root).context("the authority")?;
    }
    Ok(roots)
}

/// Whether a certificate is for one of these names; `*.` stands for one label in front, here as in
/// certificates.
pub(super) fn has_name(certificate: &CertificateDer<'_>, names: &[String]) -> bool {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
        return false;
    };
    let is_one = |named: &str| names.iter().any(|name| is_named(named, name));
    certificate.valid_dns_names().any(is_one)
}

fn is_named(named: &str, name: &str) -> bool {
    let label = name
        .strip_prefix('*')
        .and_then(|domain| named.strip_suffix(domain));
    named == name || label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
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
