//! Streams end when what their caller has shown counts no more: the key of a token, or the
//! authority of a certificate.

use super::{
    Grant, Secured,
    certificates::{Mounted, RULE, https, serving},
    jwt::{Issuer, Key},
    token,
};
use crate::harness::{authority::Authority, conversation::WAIT_TIMEOUT};
use rallypoint_client::{
    Client, Result, SecretString, Tls,
    api::{
        ListSchedulersRequest, SchedulerSettings, SynchronizationRequest, SynchronizationResponse,
        Until, scheduler_service_client::SchedulerServiceClient, until::Kind,
    },
};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Streaming};

const GRANTS: &[Grant] = &[Grant {
    name: "etl",
    namespaces: &["etl"],
    role: "submitter",
}];

/// A stream of a new scheduler, which does not open itself again.
async fn stream(client: &Client, token: Option<&str>) -> Streaming<SynchronizationResponse> {
    let scheduler = client.open(SchedulerSettings::default()).await;
    let scheduler = scheduler.expect("opened");
    let mut request = Request::new(SynchronizationRequest {
        handle: scheduler.handle().to_owned(),
        until: Some(Until {
            kind: Some(Kind::Forever(())),
        }),
        ..Default::default()
    });
    if let Some(token) = token {
        let bearer = format!("Bearer {token}").parse().expect("ASCII");
        request.metadata_mut().insert("authorization", bearer);
    }
    let mut raw = SchedulerServiceClient::new(client.channel());
    raw.synchronization(request)
        .await
        .expect("opened")
        .into_inner()
}

/// Waits until a stream is ended by the server.
async fn ends(mut stream: Streaming<SynchronizationResponse>) {
    let ended = async {
        loop {
            match stream.message().await {
                Ok(message) => assert!(message.is_some(), "with a reason"),
                Err(status) => return status,
            }
        }
    };
    let status = timeout(WAIT_TIMEOUT, ended).await.expect("it ends");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
}

async fn list(client: &Client) -> Result<()> {
    let listed = client.schedulers(ListSchedulersRequest::default()).await;
    listed.map(drop)
}

#[tokio::test]
async fn a_stream_ends_with_the_authority_of_its_certificate() {
    let (before, after) = (Authority::new(), Authority::new());
    let mut mounted = Mounted::new(&[&before]);
    let tls = mounted.server();
    let server = Secured::start(GRANTS, RULE, Some(tls.clone()));
    serving(&server, &mounted.caller()).await;
    let connect = |tls: Tls| Client::connect_lazy_by(&tls, &https(&server)).expect("a URL");
    let certified = connect(mounted.caller());
    let bearer = token("etl");
    let by_token = connect(mounted.trusting());
    let by_token = by_token
        .with_token(&SecretString::from(bearer.clone()))
        .expect("a token");
    let (withdrawn, mut other) = (
        stream(&certified, None).await,
        stream(&by_token, Some(&bearer)).await,
    );
    mounted.renew(&[&after]);
    let renewed = tls.read_again();
    renewed.map_err(|(_, error)| error).expect("renewed");
    // What is open takes no new calls, so these come with the certificate of now.
    let impatient = certified.clone().with_retry_timeout(Duration::ZERO);
    list(&impatient).await.expect("of the new authority");
    ends(withdrawn).await;
    list(&impatient).await.expect("as before");
    let goes_on = timeout(Duration::from_millis(100), async {
        while let Ok(Some(_)) = other.message().await {}
    });
    assert!(goes_on.await.is_err(), "it does not rest on a certificate");
}

#[tokio::test]
async fn a_stream_ends_with_the_key_of_its_token() {
    let (issuer, old, new) = (Issuer::start().await, Key::new("old"), Key::new("new"));
    issuer.publish(&[&old]);
    let server = Secured::start(GRANTS, &issuer.rules(), None);
    let bearer = old.token(&["etl"]);
    let client = Client::connect_lazy(&server.server.url()).expect("a URL");
    let of = |token: &str| {
        client
            .clone()
            .with_token(&token.to_owned().into())
            .expect("a token")
    };
    let withdrawn = stream(&of(&bearer), Some(&bearer)).await;
    issuer.publish(&[&new]);
    // A call under the new key has the keys read again soon, and not in five minutes.
    let next = of(&new.token(&["etl"]));
    let read = async {
        while list(&next).await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(WAIT_TIMEOUT, read)
        .await
        .expect("the keys are read again");
    ends(withdrawn).await;
    let refused = list(&of(&bearer)).await.expect_err("nor may it call");
    assert!(refused.is("IDENTITY_INVALID"), "{refused}");
}
