//! The public keys of who issues JWTs: a JWKS document in a file or at a URL, read again regularly,
//! and soon when a token names a key that is not in it.
//!
//! Invariant: a document that cannot be had, or makes no sense, leaves the keys before in use.

use anyhow::{Context, bail};
use http::Uri;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

pub use jsonwebtoken::jwk::JwkSet;

/// Between two looks at a file, and at a URL.
const FILE_INTERVAL: Duration = Duration::from_secs(30);
const URL_INTERVAL: Duration = Duration::from_secs(300);
/// The same while there are no keys yet, or a token has named one that is not known: a caller must
/// not be able to have them fetched at its own rate.
const SOON: Duration = Duration::from_secs(5);
/// How long the answer may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At an address; with authorities (a PEM file) to trust in place of the public ones.
    Url { url: Uri, ca: Option<PathBuf> },
}

/// The latest keys. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Keys {
    latest: watch::Sender<Option<Arc<JwkSet>>>,
    wanted: Arc<Notify>,
}

impl KeySource {
    /// The keys that are there now.
    pub async fn load(&self) -> anyhow::Result<JwkSet> {
        match self {
            KeySource::File(path) => KeySource::read(path),
            KeySource::Url { url, ca } => {
                let fetched = timeout(FETCH_TIMEOUT, fetch(url.clone(), ca.as_deref())).await;
                parse(&fetched.context("no answer in time")??)
            }
        }
    }

    /// The keys in a file.
    pub fn read(path: &Path) -> anyhow::Result<JwkSet> {
        parse(&read(path)?)
    }

    fn interval(&self) -> Duration {
        match self {
            KeySource::File(_) => FILE_INTERVAL,
            KeySource::Url { .. } => URL_INTERVAL,
        }
    }
}

impl Keys {
    /// `None`: there are none yet.
    pub(super) fn latest(&self) -> Option<Arc<JwkSet>> {
        self.latest.borrow().clone()
    }

    /// Tells when there are others, from now on.
    pub(super) fn changes(&self) -> watch::Receiver<Option<Arc<JwkSet>>> {
        self.latest.subscribe()
    }

    pub(super) fn set(&self, keys: Option<JwkSet>) {
        self.latest.send_if_modified(|latest| {
            let is_changed = latest.as_deref() != keys.as_ref();
            if is_changed {
                *latest = keys.map(Arc::new);
            }
            is_changed
        });
    }

    /// A key is wanted that is not here: look again soon.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Reads them again and again, from where `source` says at that time; for ever.
    pub(super) async fn keep_fresh(self, latest: impl Fn() -> Option<KeySource>) {
        loop {
            let source = latest();
            if let Some(source) = &source {
                match source.load().await {
                    // Meanwhile others may have been put in charge.
                    Ok(keys) if latest().as_ref() == Some(source) => self.set(Some(keys)),
                    Ok(_) => {}
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(%error, "the keys of the issuer of tokens cannot be read");
                    }
                }
            }
            sleep(SOON).await;
            let interval = source.as_ref().map_or(URL_INTERVAL, KeySource::interval);
            if source.is_none() || self.latest().is_some() {
                // The notification says it sooner.
                let _ = timeout(interval.saturating_sub(SOON), self.wanted.notified()).await;
            }
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn parse(document: &[u8]) -> anyhow::Result<JwkSet> {
    let keys: JwkSet = serde_json::from_slice(document).context("it is no JWKS document")?;
    match keys.keys.is_empty() {
        true => bail!("it has no keys"),
        false => Ok(keys),
    }
}

async fn fetch(url: Uri, ca: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(ca) => {
            for root in CertificateDer::pem_slice_iter(&read(ca)?) {
                roots.add(root.context("an authority")?)?;
            }
        }
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new().with_tls_config(config);
    let connector = connector.https_or_http().enable_http1().build();
    let client = Client::builder(TokioExecutor::new()).build::<_, Empty<bytes::Bytes>>(connector);
    let response = client.get(url).await?;
    if !response.status().is_success() {
        bail!("the answer is {}", response.status());
    }
    let body = Limited::new(response.into_body(), MAX_DOCUMENT_BYTES).collect();
    let body = body.await.map_err(anyhow::Error::from_boxed)?;
    Ok(body.to_bytes().to_vec())
}
