//! A call of somebody who is not known is answered once, and not made again and again.

use super::{Grant, Secured, token};
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
};
use rallypoint_client::{
    Client,
    api::{CreateResourceRequest, ListSchedulersRequest, ResourceSettings},
};
use std::{fs, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const GRANTS: &[Grant] = &[Grant {
    name: "ada",
    namespaces: &["etl"],
    role: "submitter",
}];

/// Waits until the server serves.
async fn serving(server: &Secured) {
    let listed = server
        .client("ada")
        .schedulers(ListSchedulersRequest::default())
        .await;
    listed.expect("it serves");
}

#[tokio::test]
async fn a_refused_call_is_not_repeated_though_the_server_before_was_away() {
    let server = Secured::start(GRANTS, "", None);
    serving(&server).await;
    // Whether a first attempt had its effect is not known, and this answer does not say it.
    let addresses = format!("http://127.0.0.1:1,{}", server.server.url());
    let stranger = Client::connect_lazy(&addresses).expect("addresses");
    let ada = stranger
        .clone()
        .with_token(&token("ada").into())
        .expect("a token");
    let request = CreateResourceRequest {
        name: "disk".into(),
        settings: Some(ResourceSettings {
            capacity: 1,
            ..ResourceSettings::default()
        }),
    };
    let refused = stranger.create_resource(request.clone()).await;
    let refused = refused.expect_err("a stranger");
    assert!(refused.is("IDENTITY_MISSING"), "{refused:?}");
    // The server in use answers, so no attempt was made elsewhere.
    let refused = ada.create_resource(request).await.expect_err("a submitter");
    assert!(refused.is("ROLE_MISSING"), "{refused:?}");
    let mut psql = connect(&server.journal).await;
    let rows = "select string_agg(outcome, ' ' order by at) from rallypoint_log.audit";
    let begun = Instant::now();
    loop {
        let rows = value(&mut psql, rows).await;
        if rows.ends_with("ROLE_MISSING") {
            assert_eq!(rows, "IDENTITY_MISSING ROLE_MISSING");
            return;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{rows}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_renewed_token_of_a_file_is_sent_at_once() {
    let server = Secured::start(GRANTS, "", None);
    serving(&server).await;
    let folder = TempDir::new().expect("a directory");
    let path = folder.path().join("token");
    fs::write(&path, "another\n").expect("written");
    let client = Client::connect_lazy(&server.server.url()).expect("a URL");
    let client = client.with_token_file(&path).expect("a token");
    let list = || client.schedulers(ListSchedulersRequest::default());
    let refused = list().await.expect_err("nobody has it");
    assert!(refused.is("IDENTITY_INVALID"), "{refused:?}");
    fs::write(&path, token("ada")).expect("written");
    list()
        .await
        .expect("it is read again when the one before is refused");
}
