//! An authority that signs certificates, and the files in which they are mounted.

use rallypoint::peer::{CallerTlsFiles, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// The certificate of a replica on this machine that trusts `other`.
    pub(crate) fn replica(&self, other: &Authority) -> Tls {
        let (cert, key) = self.certificate("127.0.0.1");
        Tls::new(cert, key, &other.pem).expect("an identity")
    }

    /// A certificate for `name` and its key.
    pub(crate) fn certificate(&self, name: &str) -> (String, String) {
        self.signed(CertificateParams::new([name.to_owned()]).expect("a name"))
    }

    /// A certificate that is valid until so many days from now.
    pub(crate) fn certificate_for(&self, days: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.expect("later").as_secs() as i64;
        let ends = Duration::from_secs((now + days * 86_400) as u64);
        let mut params = CertificateParams::new(["here".to_owned()]).expect("a name");
        params.not_after = date_time_ymd(1970, 1, 1) + ends;
        self.signed(params).0
    }

    /// A certificate that is valid from so many days from now.
    pub(crate) fn certificate_from(&self, days: u64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let begins = now.expect("later") + Duration::from_secs(days * 86_400);
        let mut params = CertificateParams::new(["here".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(1970, 1, 1) + begins;
        self.signed(params).0
    }

    /// A certificate that names a caller by a URI, and its key.
    pub(crate) fn of_caller(&self, uri: &str) -> (String, String) {
        let mut params = CertificateParams::default();
        let uri = SanType::URI(uri.try_into().expect("a URI"));
        params.subject_alt_names.push(uri);
        self.signed(params)
    }

    fn signed(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("signed");
        (cert.pem(), key.serialize_pem())
    }

    /// Writes a certificate for this machine as a Secret is mounted.
    pub(crate) fn write(&self, folder: &Path) -> TlsFiles {
        let (cert, key) = self.certificate("127.0.0.1");
        let files = TlsFiles {
            cert: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            ca: folder.join("ca.crt"),
        };
        let texts = [
            (&files.cert, &cert),
            (&files.key, &key),
            (&files.ca, &self.pem),
        ];
        for (path, text) in texts {
            fs::write(path, text).expect("written");
        }
        files
    }
}

/// The same files, for the port of callers.
pub(crate) fn for_callers(files: TlsFiles) -> CallerTlsFiles {
    CallerTlsFiles {
        cert: files.cert,
        key: files.key,
        client_ca: Some(files.ca),
    }
}
