//! The port for replicas accepts clients with a certificate of their common authority, and no
//! others, whoever else connects to it.

use crate::harness::authority::Authority;
use rallypoint::peer::{PeerConfig, Peers, Port, Tls};
use std::{fs, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, service::Routes};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Serves health checks on a port for replicas; returns its address.
async fn serve(tls: Tls) -> String {
    serve_to(tls, &[]).await
}

/// The same for replicas that have one of these names.
async fn serve_to(tls: Tls, names: &[&str]) -> String {
    let config = PeerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        tls: Some(tls),
        names: names.iter().map(ToString::to_string).collect(),
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

#[tokio::test]
async fn connections_that_say_nothing_block_no_replica() {
    let ours = Authority::new();
    let address = serve(ours.replica(&ours)).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(&address).await.expect("connected"));
    }
    assert_eq!(ask(Some(ours.replica(&ours)), &address).await, Ok(()));
    let mut said = [0];
    let ended = silent[0].read(&mut said);
    let ended = timeout(Duration::from_secs(60), ended).await;
    assert!(
        matches!(ended.expect("it is not kept"), Ok(0) | Err(_)),
        "it was told something"
    );
}

#[tokio::test]
async fn sessions_and_large_calls_share_no_connection_with_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let peers = Peers::new(None);
    let channels = [
        peers.channel(&address),
        peers.large_calls(&address),
        peers.session(&address),
        peers.session(&address),
    ];
    let mut connections = Vec::new();
    for channel in channels {
        let mut health = HealthClient::new(channel.expect("an address"));
        tokio::spawn(async move { health.check(HealthCheckRequest::default()).await });
        let connected = timeout(Duration::from_secs(60), listener.accept()).await;
        connections.push(connected.expect("one of its own").expect("accepted"));
    }
}

#[tokio::test]
async fn replicas_know_each_other_by_the_names_of_the_manifests() {
    let manifest = include_str!("../../deploy/base/replicas.yaml");
    let advertised = manifest
        .lines()
        .find_map(|line| line.trim().strip_prefix("- --peer-advertise="))
        .and_then(|address| address.rsplit_once(':'))
        .expect("an address")
        .0;
    let name = advertised
        .replace("$(POD_NAME)", "rallypoint-1")
        .replace("$(NAMESPACE)", "rallypoint");
    let (_, domain) = name.split_once('.').expect("a name of a pod");
    // cert-manager makes one for the same name.
    let issued = include_str!("../../deploy/components/tls/replicas.yaml");
    assert!(issued.contains(&format!("\"*.{domain}\"")), "{domain}");
    let ours = Authority::new();
    let (cert, key) = ours.certificate(&format!("*.{domain}"));
    let tls = Tls::new(cert, key, &ours.pem).expect("an identity");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let accepting = async {
        let (stream, _) = listener.accept().await.expect("accepted");
        tls.accept(stream).await
    };
    let connecting = async {
        let stream = TcpStream::connect(address).await.expect("connected");
        tls.connect(&name, stream).await
    };
    let (accepted, connected) = tokio::join!(accepting, connecting);
    connected.expect("the certificate is for this name");
    accepted.expect("both sides agree");
}

#[tokio::test]
async fn renewed_certificates_are_used_and_broken_ones_are_not() {
    let (before, after) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().expect("a folder");
    let files = before.write(folder.path());
    let tls = Tls::read(&files).expect("an identity");
    let address = serve(tls.clone()).await;
    assert_eq!(ask(Some(before.replica(&before)), &address).await, Ok(()));
    after.write(folder.path());
    tls.read_again()
        .map_err(|(_, error)| error)
        .expect("renewed");
    assert_eq!(ask(Some(after.replica(&after)), &address).await, Ok(()));
    assert!(ask(Some(before.replica(&before)), &address).await.is_err());
    fs::write(&files.cert, "no certificate").expect("written");
    let (_, error) = tls.read_again().expect_err("refused");
    assert!(format!("{error:#}").contains("tls.crt"), "{error:#}");
    assert!(Tls::read(&files).is_err(), "nor are they used at a start");
    assert_eq!(ask(Some(after.replica(&after)), &address).await, Ok(()));
}

#[tokio::test]
async fn certificates_of_replicas_are_renewed_under_load_without_a_failed_call() {
    let ours = Authority::new();
    let folder = tempfile::tempdir().expect("a folder");
    let files = ours.write(folder.path());
    let server = Tls::read(&files).expect("an identity");
    let address = serve(server.clone()).await;
    let client = Tls::read(&files).expect("an identity");
    let load = {
        let (client, address) = (client.clone(), address.clone());
        tokio::spawn(async move {
            // Each on a connection of its own.
            for call in 0..200 {
                assert_eq!(ask(Some(client.clone()), &address).await, Ok(()), "{call}");
            }
        })
    };
    let mut renewed = 0;
    while !load.is_finished() || renewed == 0 {
        ours.write(folder.path());
        for tls in [&server, &client] {
            tls.read_again()
                .map_err(|(_, error)| error)
                .expect("renewed");
        }
        renewed += 1;
        tokio::task::yield_now().await;
    }
    load.await.expect("no call failed");
}

#[tokio::test]
async fn not_every_certificate_of_the_authority_is_a_replicas() {
    let ours = Authority::new();
    let names = ["*.peers.svc", "b.example"];
    let address = serve_to(ours.replica(&ours), &names).await;
    for (name, is_replica) in [
        ("r0.peers.svc", true),
        ("*.peers.svc", true),
        ("b.example", true),
        ("a.r0.peers.svc", false),
        ("peers.svc", false),
        ("web.svc", false),
        ("127.0.0.1", false),
    ] {
        let (cert, key) = ours.certificate(name);
        let tls = Tls::new(cert, key, &ours.pem).expect("an identity");
        assert_eq!(ask(Some(tls), &address).await.is_ok(), is_replica, "{name}");
    }
}
