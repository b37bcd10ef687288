//! WatchResource: whoever follows a resource sees each state it comes to rest in, from any replica,
//! and an end when it is deleted.

use super::{create, exclusive, in_time};
use crate::harness::{cluster::Cluster, server::Server};
use rallypoint_client::{
    ResourceStream,
    api::{ResourceSettings, UpdateResourceRequest, WatchResourceResponse},
};
use std::time::Instant;

/// Reads on until the resource is held and waited for so often.
async fn until(stream: &mut ResourceStream, holds: i64, waiting: i64) -> WatchResourceResponse {
    loop {
        let state = in_time(stream.next()).await.expect("it goes on");
        let state = state.expect("it is not deleted");
        let resource = state.resource.as_ref().expect("it is told");
        if (resource.holds, resource.waiting) == (holds, waiting) {
            return state;
        }
    }
}

#[tokio::test]
async fn a_follower_sees_holds_and_waiting_claims_come_and_go_and_the_end() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let mut stream = client.watch_resource("orders").await.expect("followed");
    until(&mut stream, 0, 0).await;
    let hold = client.acquire("orders").await.expect("it is free");
    let next = client
        .claim(exclusive(&["orders"]))
        .await
        .expect("it waits");
    let state = until(&mut stream, 1, 1).await;
    assert_eq!(state.holds[0].token, hold.token());
    assert_eq!(state.queue[0].claim, next.claim().claim);
    hold.release().await.expect("released");
    let state = until(&mut stream, 1, 0).await;
    let held = &state.holds[0];
    assert_eq!(held.claim, next.claim().claim);
    client
        .release_claim(held.claim, held.token)
        .await
        .expect("given back");
    until(&mut stream, 0, 0).await;
    let wider = UpdateResourceRequest {
        name: "orders".into(),
        settings: Some(ResourceSettings {
            capacity: 5,
            ..ResourceSettings::default()
        }),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["capacity".into()],
        }),
    };
    client.update_resource(wider).await.expect("updated");
    let state = until(&mut stream, 0, 0).await;
    let settings = state.resource.and_then(|resource| resource.settings);
    assert_eq!(settings.map(|settings| settings.capacity), Some(5));
    client
        .delete_resource("orders")
        .await
        .expect("nobody uses it");
    let last = in_time(stream.next()).await.expect("it is told");
    assert!(last.expect("it is told").deleted);
    assert_eq!(in_time(stream.next()).await.expect("an end"), None);
    let unknown = client.watch_resource("orders").await.expect_err("deleted");
    assert!(unknown.is("RESOURCE_NOT_FOUND"), "{unknown:?}");
    let pattern = client.watch_resource("tenant/*").await;
    let pattern = pattern.expect_err("a pattern");
    assert_eq!(pattern.violations[0].0, "name");
}

#[tokio::test]
async fn a_slow_follower_gets_the_present_state_and_no_backlog() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let mut stream = client.watch_resource("orders").await.expect("followed");
    until(&mut stream, 0, 0).await;
    let begun = Instant::now();
    for _ in 0..200 {
        let hold = client.acquire("orders").await.expect("it is free");
        hold.release().await.expect("released");
    }
    let last = client.acquire("orders").await.expect("it is free");
    let mut messages = 0;
    loop {
        let state = in_time(stream.next()).await.expect("it goes on");
        messages += 1;
        let holds = state.expect("it is there").holds;
        if holds.first().is_some_and(|hold| hold.token == last.token()) {
            break;
        }
    }
    // There were 400 changes; a message comes in 100 ms at the soonest.
    let most = begun.elapsed().as_millis() / 100 + 2;
    assert!(messages <= most, "told {messages} times instead of {most}");
}

#[tokio::test]
async fn any_replica_follows_and_a_takeover_is_gone_through() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let client = cluster.client(1 - owner);
    create(&client, "orders", 1).await;
    let mut stream = client.watch_resource("orders").await.expect("followed");
    until(&mut stream, 0, 0).await;
    let hold = client.acquire("orders").await.expect("it is free");
    until(&mut stream, 1, 0).await;
    cluster.kill_9(owner);
    // The new owner says it once more; then it is followed there.
    until(&mut stream, 1, 0).await;
    hold.release().await.expect("released");
    until(&mut stream, 0, 0).await;
}
