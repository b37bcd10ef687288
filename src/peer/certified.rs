//! Who has presented a certificate, and for how long that counts.
//!
//! A certificate counts until it expires, or none of the authorities that are trusted has signed it
//! any more: then what rests on it ends a moment later, so that whoever has a new certificate has
//! time to come back with it.

use super::caller_tls::CallerTls;
use std::{
    fmt,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::{
    prelude::{FromDer, X509Certificate},
    time::ASN1Time,
};

/// For how long a certificate counts that is not of a trusted authority any more. Its connection
/// takes no new calls at once, so the next ones come by another, with the certificate of then.
const WITHDRAWAL_GRACE: Duration = Duration::from_secs(5);

/// What the certificate of a caller says.
#[derive(Clone)]
pub struct Certified {
    /// The name of its owner.
    pub name: Arc<str>,
    /// Until when it is valid.
    pub not_after: SystemTime,
    shown: Arc<Shown>,
}

/// The certificates that were presented, and to whom.
struct Shown {
    chain: Vec<CertificateDer<'static>>,
    to: CallerTls,
    /// What was found out by the authorities that count: their file, and since when none of them
    /// has signed it.
    found: Mutex<(Option<Arc<[u8]>>, Option<Instant>)>,
}

impl Certified {
    /// Of certificates whose signatures were checked, the own one first. `None`: it names nobody.
    pub(super) fn of(chain: &[CertificateDer<'_>], to: CallerTls) -> Option<Certified> {
        let certificate = chain.first()?;
        Some(Certified {
            name: certified_name(certificate)?,
            not_after: not_after(certificate)?,
            shown: Arc::new(Shown {
                chain: chain
                    .iter()
                    .cloned()
                    .map(CertificateDer::into_owned)
                    .collect(),
                to,
                found: Mutex::default(),
            }),
        })
    }

    /// Since when none of the trusted authorities has signed it; `None`: one has.
    pub(super) fn withdrawn_since(&self) -> Option<Instant> {
        // The port does not go over to callers without certificates.
        let authorities = self.shown.to.authorities()?;
        let found = &self.shown.found;
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let (by, withdrawn) = &mut *found;
        if by.as_ref() != Some(&authorities.text) {
            *by = Some(authorities.text);
            let (own, others) = self.shown.chain.split_first()?;
            let verifier = authorities.verifier;
            let signed = verifier.verify_client_cert(own, others, UnixTime::now());
            *withdrawn = match signed {
                Ok(_) => None,
                Err(_) => Some(withdrawn.unwrap_or(authorities.since)),
            };
        }
        *withdrawn
    }

    /// It counts no more, although it may be valid.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let since = self.withdrawn_since();
        since.is_some_and(|since| since.elapsed() >= WITHDRAWAL_GRACE)
    }

    /// Resolves when it counts no more because of its authority.
    pub(crate) async fn withdrawn(&self) {
        let mut changes = self.shown.to.changes();
        loop {
            let ends = self.withdrawn_since().map(|since| since + WITHDRAWAL_GRACE);
            let over = async {
                match ends {
                    Some(ends) => sleep_until(ends).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                changed = changes.changed() => if changed.is_err() {
                    pending::<()>().await;
                }
            }
        }
    }
}

/// From when and until when a certificate is valid.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<(SystemTime, SystemTime)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let validity = certificate.validity();
    // One from before 1970 is as good as one of then.
    let time = |at: ASN1Time| {
        let seconds = at.timestamp().max(0).unsigned_abs();
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    Some((time(validity.not_before)?, time(validity.not_after)?))
}

fn not_after(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    validity(certificate).map(|(_, ends)| ends)
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

impl fmt::Debug for Certified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certified").field(&self.name).finish()
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
        let ends = not_after(certificate.der()).expect("an end");
        let ends = ends.duration_since(SystemTime::UNIX_EPOCH);
        assert_eq!(ends.expect("later").as_secs(), 1_893_456_000);
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
