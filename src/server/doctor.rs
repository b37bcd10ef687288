//! What `rallypoint doctor` finds out besides the coordination database: targets, by logging in as
//! their tasks would, other replicas, by a call as replicas make it, and certificates.

mod target;

pub(crate) use target::of_target;

use crate::{
    journal::{Finding, Verdict},
    peer::{Peers, Tls, TlsFiles, validity},
};
use std::{
    error::Error,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const CALL_TIMEOUT: Duration = Duration::from_secs(4);
const DAY: Duration = Duration::from_secs(86_400);
/// A certificate that is valid for less has to be renewed.
const SOON_DAYS: u64 = 14;

/// Whether this machine may call the replica at an address, `host:port`, with these certificates;
/// `None`: in plain text.
pub(crate) async fn of_peer(address: &str, tls: Option<&Tls>) -> Finding {
    let check = format!("peer {address}");
    let remedy = match tls {
        Some(_) => {
            "is it running, does a firewall or a policy let this machine through, and do the \
             certificates belong together? its log says whom it refuses"
        }
        None => {
            "is it running, and does a firewall or a policy let this machine through? if replicas \
             have certificates, name them: --peer-cert, --peer-key and --peer-ca"
        }
    };
    let bad = |found: String| Finding::wrong(&check, Verdict::Bad, found, remedy);
    let channel = match Peers::new(tls.cloned()).channel(address) {
        Ok(channel) => channel,
        Err(error) => return bad(causes(&error)),
    };
    let mut health = HealthClient::new(channel);
    let asked = health.check(HealthCheckRequest::default());
    match timeout(CALL_TIMEOUT, asked).await {
        // A replica does not serve this there, and whoever answers has taken the certificate.
        Ok(Err(status)) if status.source().is_some() => bad(causes(&status)),
        Ok(_) => Finding::good(
            &check,
            match tls {
                Some(_) => "it answers, and takes the certificate",
                None => "it answers in plain text",
            },
        ),
        Err(_) => bad("it does not answer".to_owned()),
    }
}

/// The certificates of replicas, or why they cannot be used.
pub(crate) fn of_peer_certificates(files: &TlsFiles) -> Result<Tls, Finding> {
    Tls::read(files).map_err(|error| {
        let remedy = "name a certificate, its key, and the authority of all replicas, in PEM";
        let found = format!("{error:#}");
        Finding::wrong("peer certificates", Verdict::Bad, found, remedy)
    })
}

/// What an error says, down to its first cause.
fn causes(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = next.source();
    }
    said
}

/// How long the certificates of a file are valid.
pub(crate) fn of_certificates(path: &Path) -> Finding {
    let check = format!("certificate {}", path.display());
    let remedy = "name a file with certificates in PEM that this account may read";
    let bad = |why: String| Finding::wrong(&check, Verdict::Bad, why, remedy);
    let pem = match fs::read(path) {
        Ok(pem) => pem,
        Err(error) => return bad(error.to_string()),
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let valid: Vec<_> = match chain {
        Ok(chain) => chain.iter().filter_map(validity).collect(),
        Err(error) => return bad(error.to_string()),
    };
    let begins = valid.iter().map(|(begins, _)| *begins).max();
    let ends = valid.iter().map(|(_, ends)| *ends).min();
    let (Some(begins), Some(ends)) = (begins, ends) else {
        return bad("there is no certificate in it".to_owned());
    };
    let now = SystemTime::now();
    if let Some(early) = begins.duration_since(now).ok().filter(|it| !it.is_zero()) {
        let found = format!("it is valid in {} only", in_words(early));
        let remedy = "correct the clock of this machine or of who issued it, or wait: until then \
                      connections that show it are refused";
        return Finding::wrong(&check, Verdict::Bad, found, remedy);
    }
    let Ok(left) = ends.duration_since(now) else {
        let remedy = "renew it: connections that show it are refused";
        return Finding::wrong(&check, Verdict::Bad, "it has expired", remedy);
    };
    let days = left.as_secs() / DAY.as_secs();
    let shown = format!("valid for {days} days");
    match days < SOON_DAYS {
        false => Finding::good(&check, shown),
        true => Finding::wrong(&check, Verdict::Doubtful, shown, "renew it soon"),
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() / DAY.as_secs() {
        0 => format!("{} minutes", time.as_secs().div_ceil(60)),
        days => format!("{days} days"),
    }
}
