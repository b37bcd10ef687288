//! What `rallypoint doctor` finds out besides the coordination database: targets, by logging in as
//! their tasks would, other replicas, by connecting, and certificates.

use super::Target;
use crate::{
    executor::Connection,
    journal::{Finding, Verdict},
    peer::not_after,
};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
const DAY: Duration = Duration::from_secs(86_400);
/// A certificate that is valid for less has to be renewed.
const SOON_DAYS: u64 = 14;

/// Whether tasks could log in to a target.
pub(crate) async fn of_target(target: &Target) -> Finding {
    let check = format!("target {}", target.name);
    match Connection::open(&target.login).await {
        Ok(connection) => {
            connection.close().await;
            Finding::good(&check, format!("{} can log in", target.login.user()))
        }
        Err(error) => {
            let remedy = "start it, or correct its URL and password: its tasks wait until then";
            Finding::wrong(&check, Verdict::Bad, error.to_string(), remedy)
        }
    }
}

/// Whether somebody listens at the address of a replica, `host:port`.
pub(crate) async fn of_peer(address: &str) -> Finding {
    let check = format!("peer {address}");
    let remedy = "is it running, and does a firewall or a policy let this machine through?";
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Finding::good(&check, "it takes connections"),
        Ok(Err(error)) => Finding::wrong(&check, Verdict::Bad, error.to_string(), remedy),
        Err(_) => Finding::wrong(&check, Verdict::Bad, "it does not answer", remedy),
    }
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
    let ends = match chain {
        Ok(chain) => chain.iter().filter_map(not_after).min(),
        Err(error) => return bad(error.to_string()),
    };
    let Some(ends) = ends else {
        return bad("there is no certificate in it".to_owned());
    };
    let Ok(left) = ends.duration_since(SystemTime::now()) else {
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
