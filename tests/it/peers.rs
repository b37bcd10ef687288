//! The port for replicas accepts clients with a certificate of their common authority, and no
//! others.

use rallypoint::peer::{PeerConfig, Peers, Port, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_util::sync::CancellationToken;
use tonic::{Code, service::Routes};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Signs the certificates of replicas.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
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
    fn replica(&self, other: &Authority) -> Tls {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        let cert = params.signed_by(&key, &self.issuer).expect("signed");
        Tls::new(cert.pem(), key.serialize_pem(), &other.pem)
    }
}

/// Serves health checks on a port for replicas; returns its address.
async fn serve(tls: Tls) -> String {
    let config = PeerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        tls: Some(tls),
    };
    let port = Port::bind(config).await.expect("a port");
    let address = port.address().to_owned();
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(port.serve(Routes::new(health), CancellationToken::new()));
    address
}

async fn ask(tls: Option<Tls>, address: &str) -> Result<(), Code> {
    let channel = Peers::new(tls).channel(address).expect("an address");
    let asked = HealthClient::new(channel)
        .check(HealthCheckRequest::default())
        .await;
    asked.map(drop).map_err(|status| status.code())
}

#[tokio::test]
async fn a_replica_with_a_certificate_of_the_same_authority_gets_through() {
    let ours = Authority::new();
    let address = serve(ours.replica(&ours)).await;
    assert_eq!(ask(Some(ours.replica(&ours)), &address).await, Ok(()));
}

#[tokio::test]
async fn nobody_else_gets_through() {
    let (ours, others) = (Authority::new(), Authority::new());
    let address = serve(ours.replica(&ours)).await;
    assert!(ask(None, &address).await.is_err(), "without a certificate");
    assert!(
        ask(Some(others.replica(&ours)), &address).await.is_err(),
        "with a certificate of somebody else"
    );
    assert!(
        ask(Some(ours.replica(&others)), &address).await.is_err(),
        "it trusts somebody else"
    );
}
