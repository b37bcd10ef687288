//! What is wrong with a call about resources is said by field, and what cannot be done by reason.

use super::{create, exclusive, reason, used};
use crate::harness::server::{Server, Setup};
use rallypoint_client::{
    Client,
    api::{
        AcquireRequest, CreateResourceRequest, ListResourcesRequest, ResourceMode,
        ResourceSettings, ResourceUse, UpdateResourceRequest,
    },
};

async fn refused(client: &Client, request: AcquireRequest) -> (String, Vec<String>) {
    let error = client.claim(request).await.expect_err("refused");
    let fields = error.violations.iter().map(|(field, _)| field.clone());
    (reason(&error).to_owned(), fields.collect())
}

#[tokio::test]
async fn every_field_at_fault_is_named() {
    let server = Server::start().await;
    let client = &server.client;
    let shared = |permits| ResourceUse {
        permits,
        ..used("a", ResourceMode::Shared)
    };
    let wrong_use = ResourceUse {
        permits: 2,
        ..used("b/*", ResourceMode::Exclusive)
    };
    let second = prost_types::Duration {
        seconds: 0,
        nanos: 1,
    };
    let request = AcquireRequest {
        resources: vec![shared(-1), wrong_use, shared(1)],
        request_id: "no".into(),
        owner: "x".repeat(256),
        lease: Some(second),
        ..AcquireRequest::default()
    };
    let (_, mut fields) = refused(client, request).await;
    fields.sort();
    let expected = [
        "lease",
        "owner",
        "request_id",
        "resources[0].permits",
        "resources[1].name",
        "resources[1].permits",
        "resources[2].name",
    ];
    assert_eq!(fields, expected);
    let none = refused(client, AcquireRequest::default()).await;
    assert_eq!(none.0, "RESOURCES_INVALID");
    for name in ["", "a*", "*", "a/*/b", "a\nb"] {
        let request = CreateResourceRequest {
            name: name.into(),
            settings: None,
        };
        let error = client.create_resource(request).await.unwrap_err();
        assert_eq!(reason(&error), "RESOURCE_NAME_INVALID", "{name:?}");
    }
    let request = UpdateResourceRequest {
        name: "a".into(),
        ..UpdateResourceRequest::default()
    };
    let error = client.update_resource(request).await.unwrap_err();
    assert_eq!(reason(&error), "MASK_EMPTY");
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_for_its_reason() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "a", 2).await;
    create(client, "b", 1).await;
    let owned = |names: &[&str]| AcquireRequest {
        owner: "ann".into(),
        ..exclusive(names)
    };
    assert_eq!(refused(client, owned(&["c"])).await.0, "RESOURCE_NOT_FOUND");
    let many = AcquireRequest {
        resources: vec![ResourceUse {
            permits: 3,
            ..used("a", ResourceMode::Shared)
        }],
        ..AcquireRequest::default()
    };
    assert_eq!(refused(client, many).await.0, "PERMITS_EXCEED_CAPACITY");
    let hold = client.acquire_as(owned(&["a"])).await.expect("free");
    assert_eq!(refused(client, owned(&["a"])).await.0, "CIRCULAR_WAIT");
    let request = CreateResourceRequest {
        name: "a".into(),
        settings: Some(ResourceSettings::default()),
    };
    let error = client.create_resource(request).await.unwrap_err();
    assert_eq!(reason(&error), "RESOURCE_EXISTS");
    let error = client.delete_resource("a").await.unwrap_err();
    assert_eq!(reason(&error), "RESOURCE_IN_USE");
    let claim = hold.claim().claim;
    for token in [0, 77] {
        let error = client.release_claim(claim, token).await.unwrap_err();
        assert_eq!(reason(&error), "TOKEN_MISMATCH");
    }
    for unknown in [0, -1, 99] {
        let error = client.renew(unknown, 1).await.unwrap_err();
        assert_eq!(reason(&error), "CLAIM_NOT_FOUND");
    }
    hold.release().await.expect("held");
    client.delete_resource("a").await.expect("idle");
    let error = client.delete_resource("a").await.unwrap_err();
    assert_eq!(reason(&error), "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn another_namespace_sees_neither_resources_nor_claims() {
    let setup = Setup {
        trusted: true,
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let [one, other] = ["one", "other"].map(|name| {
        let client = server.client.clone().with_namespace(name);
        client.expect("a name")
    });
    create(&one, "orders", 1).await;
    let hold = one.acquire("orders").await.expect("free");
    let (claim, token) = (hold.claim().claim, hold.token());
    let errors = [
        other.get_claim(claim).await.err(),
        other.renew(claim, token).await.err(),
        other.release_claim(claim, token).await.err(),
        other.force_release(claim, "why").await.err(),
    ];
    for error in errors {
        assert_eq!(reason(&error.expect("refused")), "CLAIM_NOT_FOUND");
    }
    assert_eq!(
        refused(&other, exclusive(&["orders"])).await.0,
        "RESOURCE_NOT_FOUND"
    );
    let request = ListResourcesRequest::default();
    let listed = other.resources(request).await.expect("a page");
    assert!(listed.resources.is_empty());
    create(&other, "orders", 1).await;
    drop(other.acquire("orders").await.expect("its own"));
}

#[tokio::test]
async fn resources_are_listed_by_name_page_by_page() {
    let server = Server::start().await;
    let client = &server.client;
    for name in ["c", "a", "b/*"] {
        create(client, name, 1).await;
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let request = ListResourcesRequest {
            page_size: 2,
            page_token: token,
        };
        let page = client.resources(request).await.expect("a page");
        names.extend(page.resources.into_iter().map(|one| one.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["a", "b/*", "c"]);
}
