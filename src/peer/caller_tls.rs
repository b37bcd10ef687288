//! The certificate that callers see, and the authority whose certificates they may present. The
//! files are renewed as `renewed` says.
//!
//! A caller may come without a certificate: who it is then is for the calls to say. One that is
//! presented is signed by the authority, or there is no connection. When other authorities are
//! trusted, `certified` says what becomes of the connections that are open.

use super::{
    renewed::{Files, Renewed, certificates, private_key},
    tls::{ALPN, authorities, forget_sessions, of_pair},
};
use anyhow::Context;
use std::{fmt, path::PathBuf, sync::Arc};
use tokio::{sync::watch, time::Instant};
use tokio_rustls::rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

/// Place of the authorities of callers among the files.
const CLIENT_CA: usize = 2;

/// PEM files.
#[derive(Clone, Debug)]
pub struct CallerTlsFiles {
    /// Certificate of the server.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities that sign the certificates of callers; `None`: callers present none.
    pub client_ca: Option<PathBuf>,
}

/// How callers reach this server by TLS. Clones share the latest.
#[derive(Clone)]
pub struct CallerTls(Renewed<Latest>);

/// What follows from the files.
#[derive(Clone)]
pub(super) struct Latest {
    server: Arc<ServerConfig>,
    pub(super) authorities: Option<Authorities>,
}

/// Whose certificates callers may present.
#[derive(Clone)]
pub(super) struct Authorities {
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// When they were read.
    pub since: Instant,
    /// The file.
    pub text: Arc<[u8]>,
}

impl CallerTls {
    /// Reads the files. Fails with the name of the one that cannot be used.
    pub fn read(files: &CallerTlsFiles) -> anyhow::Result<CallerTls> {
        let shown = files.to_string();
        let CallerTlsFiles {
            cert,
            key,
            client_ca,
        } = files.clone();
        let files = Files {
            paths: [cert, key].into_iter().chain(client_ca).collect(),
            whose: "the port for callers",
            shown,
        };
        Ok(CallerTls(Renewed::read(files, server_config)?))
    }

    /// Reads the files again whenever they have changed, for ever.
    pub(crate) async fn keep_reading(self) {
        self.0.keep_reading().await;
    }

    /// Uses what the files hold now. The error comes with what they held, if that can be read.
    pub fn read_again(&self) -> Result<(), (Option<Vec<Vec<u8>>>, anyhow::Error)> {
        self.0.read_again()
    }

    /// How connections are accepted from now on.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.0.latest().server
    }

    /// Whose certificates count now; `None`: callers present none.
    pub(super) fn authorities(&self) -> Option<Authorities> {
        self.0.latest().authorities
    }

    /// Tells when the files were renewed, from now on.
    pub(super) fn changes(&self) -> watch::Receiver<(Vec<Vec<u8>>, Latest)> {
        self.0.changes()
    }

    /// Resolves when callers may present certificates of others than at the time of the call.
    pub(crate) fn other_authorities(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changes();
        async move {
            let before = changes.borrow_and_update().0.get(CLIENT_CA).cloned();
            let changed = changes.wait_for(|(texts, _)| texts.get(CLIENT_CA) != before.as_ref());
            if changed.await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Fails unless the certificate and its key belong together and the authorities are some.
fn server_config(pems: &[Vec<u8>]) -> anyhow::Result<Latest> {
    let (cert, key, client_ca) = match pems {
        [cert, key] => (cert, key, None),
        [cert, key, client_ca] => (cert, key, Some(client_ca)),
        _ => anyhow::bail!("two files or three are needed"),
    };
    let chain = certificates(cert).context("the certificate")?;
    let (builder, authorities) = match client_ca {
        None => (ServerConfig::builder().with_no_client_auth(), None),
        Some(ca) => {
            let roots = Arc::new(authorities(ca)?);
            let verifier = WebPkiClientVerifier::builder(roots);
            let verifier = verifier.allow_unauthenticated().build()?;
            let builder = ServerConfig::builder().with_client_cert_verifier(verifier.clone());
            let since = Instant::now();
            let text = ca.as_slice().into();
            let authorities = Authorities {
                verifier,
                since,
                text,
            };
            (builder, Some(authorities))
        }
    };
    let config = builder.with_single_cert(chain, private_key(key)?);
    let mut config = config.map_err(of_pair)?;
    // curl and browsers may prefer the older one.
    config.alpn_protocols = vec![ALPN.to_vec(), b"http/1.1".to_vec()];
    forget_sessions(&mut config);
    Ok(Latest {
        server: Arc::new(config),
        authorities,
    })
}

impl fmt::Display for CallerTlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cert, key] = [&self.cert, &self.key].map(|path| path.display());
        write!(f, "certificate {cert}, key {key}")?;
        match &self.client_ca {
            Some(ca) => write!(f, ", authority of callers {}", ca.display()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CallerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerTls")
    }
}
