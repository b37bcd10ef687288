//! The certificate that callers see, and the authority whose certificates they may present. The
//! files are renewed as `renewed` says.
//!
//! A caller may come without a certificate: who it is then is for the calls to say. One that is
//! presented is signed by the authority, or there is no connection.

use super::{
    renewed::{Files, Renewed, certificates, private_key},
    tls::{ALPN, authorities, forget_sessions},
};
use anyhow::Context;
use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio_rustls::rustls::{ServerConfig, pki_types::CertificateDer, server::WebPkiClientVerifier};
use x509_parser::prelude::{FromDer, X509Certificate};

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
pub struct CallerTls(Renewed<Arc<ServerConfig>>);

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
        self.0.latest()
    }
}

/// Fails unless the certificate and its key belong together and the authorities are some.
fn server_config(pems: &[Vec<u8>]) -> anyhow::Result<Arc<ServerConfig>> {
    let (cert, key, client_ca) = match pems {
        [cert, key] => (cert, key, None),
        [cert, key, client_ca] => (cert, key, Some(client_ca)),
        _ => anyhow::bail!("two files or three are needed"),
    };
    let chain = certificates(cert).context("the certificate")?;
    let builder = match client_ca {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(ca) => {
            let roots = Arc::new(authorities(ca)?);
            let verifier = WebPkiClientVerifier::builder(roots);
            let verifier = verifier.allow_unauthenticated().build()?;
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain, private_key(key)?);
    let mut config = config.context("the certificate and its key")?;
    // curl and browsers may prefer the older one.
    config.alpn_protocols = vec![ALPN.to_vec(), b"http/1.1".to_vec()];
    forget_sessions(&mut config);
    Ok(Arc::new(config))
}

/// What the certificate of a caller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The name of its owner.
    pub name: Arc<str>,
    /// Until when it is valid.
    pub not_after: SystemTime,
}

impl Certified {
    /// Of a certificate whose signature was checked. `None`: it names nobody.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Certified> {
        Some(Certified {
            name: certified_name(certificate)?,
            not_after: not_after(certificate)?,
        })
    }
}

/// Until when a certificate is valid.
pub fn not_after(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = certificate
        .validity()
        .not_after
        .timestamp()
        .try_into()
        .ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The name that a certificate gives its owner: its one URI (as SPIFFE has it), else its first DNS
/// name. `None`: it has neither, or several URIs, of which none can be preferred.
fn certified_name(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut uris = certificate.valid_uri_names();
    match (uris.next(), uris.next()) {
        (Some(uri), None) => Some(uri.into()),
        (Some(_), Some(_)) => None,
        (None, _) => certificate.valid_dns_names().next().map(Arc::from),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    fn named(uris: &[&str], dns: &[&str]) -> Option<String> {
        let key = KeyPair::generate().expect("a key");
        let dns: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(dns).expect("names");
        for uri in uris {
            let uri = SanType::URI((*uri).try_into().expect("a URI"));
            params.subject_alt_names.push(uri);
        }
        let certificate = params.self_signed(&key).expect("a certificate");
        certified_name(certificate.der()).map(|name| name.to_string())
    }

    #[test]
    fn what_a_certificate_says_of_its_end_is_known() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["etl.example".to_owned()]).expect("names");
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let certificate = params.self_signed(&key).expect("a certificate");
        let certified = Certified::of(certificate.der()).expect("it names somebody");
        let ends = certified.not_after.duration_since(SystemTime::UNIX_EPOCH);
        assert_eq!(ends.expect("later").as_secs(), 1_893_456_000);
        assert_eq!(&*certified.name, "etl.example");
    }

    #[test]
    fn a_certificate_names_its_owner_by_one_uri_or_by_its_first_dns_name() {
        assert_eq!(
            named(&["spiffe://prod/etl"], &["etl.example"]),
            Some("spiffe://prod/etl".into())
        );
        assert_eq!(
            named(&[], &["etl.example", "b.example"]),
            Some("etl.example".into())
        );
        assert_eq!(
            named(&["spiffe://a/b", "spiffe://a/c"], &["d.example"]),
            None
        );
        assert_eq!(named(&[], &[]), None);
    }
}
