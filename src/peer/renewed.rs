//! What follows from PEM files that are renewed while the server runs, as a mounted Secret is: new
//! connections use the latest, those that are open go on.
//!
//! Invariant: files that cannot be used are never used. At the start they are an error; later those
//! before stay in use, and the log says why (decision 0048).

use anyhow::{Context, anyhow, ensure};
use std::{fs, path::PathBuf, time::Duration};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// Interval between looks at the files.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// What the files hold, in their order.
pub(super) type Texts = Vec<Vec<u8>>;

/// What `make` makes of some files. Clones share the latest.
#[derive(Clone)]
pub(super) struct Renewed<T> {
    latest: watch::Sender<(Texts, T)>,
    make: fn(&[Vec<u8>]) -> anyhow::Result<T>,
    /// `None`: the texts were given, and stay as they are.
    files: Option<Files>,
}

/// Files, and whose certificates they hold.
#[derive(Clone)]
pub(super) struct Files {
    pub paths: Vec<PathBuf>,
    pub whose: &'static str,
    /// What a person reads.
    pub shown: String,
}

impl<T: Clone> Renewed<T> {
    /// Reads the files. Fails with the name of the one that cannot be used.
    pub(super) fn read(
        files: Files,
        make: fn(&[Vec<u8>]) -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let texts = files.read()?;
        let made = make(&texts).with_context(|| files.shown.clone())?;
        Ok(Renewed {
            latest: watch::Sender::new((texts, made)),
            make,
            files: Some(files),
        })
    }

    /// From texts that stay as they are.
    pub(super) fn fixed(
        texts: Texts,
        make: fn(&[Vec<u8>]) -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let made = make(&texts)?;
        Ok(Renewed {
            latest: watch::Sender::new((texts, made)),
            make,
            files: None,
        })
    }

    /// What counts now.
    pub(super) fn latest(&self) -> T {
        self.latest.borrow().1.clone()
    }

    /// Tells when something else counts, from now on.
    pub(super) fn changes(&self) -> watch::Receiver<(Texts, T)> {
        self.latest.subscribe()
    }

    /// Reads the files again whenever they have changed, for ever.
    pub(super) async fn keep_reading(self) {
        let mut refused = None;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if let Err((texts, error)) = self.read_again()
                && refused != texts
            {
                let whose = self.files.as_ref().map_or("", |files| files.whose);
                let error = format!("{error:#}");
                tracing::error!(
                    %error,
                    "the renewed certificates of {whose} cannot be used: \
                     the ones before stay in use"
                );
                refused = texts;
            }
        }
    }

    /// Uses what the files hold now. The error comes with what they held, if that can be read.
    pub(super) fn read_again(&self) -> Result<(), (Option<Texts>, anyhow::Error)> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        let texts = files.read().map_err(|error| (None, error))?;
        if self.latest.borrow().0 == texts {
            return Ok(());
        }
        let made = (self.make)(&texts).with_context(|| files.shown.clone());
        match made {
            Ok(made) => {
                self.latest.send_replace((texts, made));
                let (whose, files) = (files.whose, &files.shown);
                tracing::info!(%files, "the certificates of {whose} were renewed");
                Ok(())
            }
            Err(error) => Err((Some(texts), error)),
        }
    }
}

impl Files {
    fn read(&self) -> anyhow::Result<Texts> {
        let read = |path: &PathBuf| {
            fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        self.paths.iter().map(read).collect()
    }
}

/// The certificates of a PEM file, at least one.
pub(super) fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| anyhow!("{error}"))?;
    ensure!(!found.is_empty(), "there is no certificate in it (PEM)");
    Ok(found)
}

/// The key of a PEM file. Nothing of it is in the error.
pub(super) fn private_key(pem: &[u8]) -> anyhow::Result<PrivateKeyDer<'static>> {
    let key = PrivateKeyDer::from_pem_slice(pem);
    key.map_err(|_| anyhow!("the key is no PEM of a key"))
}
