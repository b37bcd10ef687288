//! TLS to a target: whose certificates count, by the mode that its URL names.
//!
//! Files are read at every connection, so a renewed certificate is used by the next session.

use super::{
    error::Error,
    login::{Ssl, SslMode},
};
use crate::database_url::{UNTRUSTED, by_default};
use std::{io, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
        SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    },
};

pub(super) async fn connect(
    ssl: &Ssl,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Error> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Login("TLS needs a host name or an address in the URL".into()))?;
    let connector = TlsConnector::from(Arc::new(config(ssl).await?));
    Ok(connector
        .connect(name, stream)
        .await
        .map_err(|error| of_handshake(error, ssl.mode))?)
}

/// Fails when a file that the URL names cannot be read, also where the server takes no TLS: what
/// was given is not ignored.
pub(super) async fn check_files(ssl: &Ssl) -> Result<(), Error> {
    for (option, file) in ssl.files() {
        read(option, file).await?;
    }
    Ok(())
}

/// What is wrong with a certificate, and what to do about it.
fn of_handshake(error: io::Error, mode: SslMode) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => {
            let default = by_default(mode == SslMode::VerifyFull);
            io::Error::new(error.kind(), format!("{error}: {UNTRUSTED}{default}"))
        }
        _ => error,
    }
}

async fn config(ssl: &Ssl) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = Arc::new(roots(ssl.root_cert.as_deref()).await?);
    let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| Error::Login(format!("sslrootcert: {error}")))?;
    let verifier = Verifier {
        chain,
        provider: Arc::clone(&provider),
        mode: ssl.verified(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Login(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some((cert, key)) = &ssl.client else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificates("sslcert", cert).await?;
    let key = PrivateKeyDer::from_pem_slice(&read("sslkey", key).await?)
        .map_err(|_| Error::Login(format!("sslkey: {} holds no key (PEM)", key.display())))?;
    config
        .with_client_auth_cert(chain, key)
        .map_err(|error| Error::Login(format!("sslcert and sslkey: {error}")))
}

/// The authorities that count: those of the URL alone, or the public ones when it names none.
async fn roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let Some(file) = file else {
        let public = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
        return Ok(RootCertStore::from_iter(public));
    };
    let mut roots = RootCertStore::empty();
    for root in certificates("sslrootcert", file).await? {
        roots
            .add(root)
            .map_err(|error| Error::Login(format!("sslrootcert: {error}")))?;
    }
    Ok(roots)
}

async fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(option, file).await?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Error::Login(format!(
            "{option}: {} holds no certificate (PEM)",
            file.display()
        ))),
    }
}

async fn read(option: &str, file: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(file)
        .await
        .map_err(|error| Error::Login(format!("{option}: cannot read {}: {error}", file.display())))
}

/// Looks at the certificate of a server as closely as the mode says.
#[derive(Debug)]
struct Verifier {
    chain: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
    mode: SslMode,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        if !matches!(self.mode, SslMode::VerifyCa | SslMode::VerifyFull) {
            return Ok(ServerCertVerified::assertion());
        }
        let chain = &self.chain;
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last.
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if self.mode == SslMode::VerifyCa => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
