//! Resources as their users meet them: whoever claims one waits in line, is told the place and gets
//! its turn; a hold outlives servers, and ends with whoever held it.

mod errors;
mod late_grants;
mod late_signals;
mod lock_run;
mod manage_claims;
mod tasks;
mod waiting;
mod watch;

use crate::harness::{
    cluster::Cluster,
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
    server::Server,
    standalone::Standalone,
};
use rallypoint_client::{
    Client, Error, Hold,
    api::{
        AcquireRequest, Claim, ClaimEnd, ClaimState, CreateResourceRequest, GetResourceRequest,
        ResourceMode, ResourceSettings, ResourceUse, TryAcquireRequest,
    },
};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(6);

async fn create(client: &Client, name: &str, capacity: i32) {
    let settings = ResourceSettings {
        capacity,
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: name.into(),
        settings: Some(settings),
    };
    let created = client.create_resource(request).await.expect("created");
    assert_eq!(created.resource.expect("it").name, name);
}

/// A claim of `orders` that needs no renewal.
fn of_an_hour() -> AcquireRequest {
    AcquireRequest {
        lease: seconds(Duration::from_secs(3600)),
        ..exclusive(&["orders"])
    }
}

fn used(name: &str, mode: ResourceMode) -> ResourceUse {
    ResourceUse {
        name: name.into(),
        mode: mode.into(),
        permits: 0,
    }
}

fn exclusive(names: &[&str]) -> AcquireRequest {
    let used = |name: &&str| used(name, ResourceMode::Exclusive);
    AcquireRequest {
        resources: names.iter().map(used).collect(),
        ..AcquireRequest::default()
    }
}

fn seconds(time: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(time).ok()
}

async fn in_time<T>(awaited: impl Future<Output = T>) -> T {
    timeout(WAIT_TIMEOUT, awaited).await.expect("in time")
}

#[tokio::test]
async fn whoever_waits_is_told_who_is_ahead_and_gets_the_resource_with_a_higher_token() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let request = AcquireRequest {
        owner: "ann".into(),
        reason: "the month's end".into(),
        ..exclusive(&["orders"])
    };
    let first = client.acquire_as(request).await.expect("it is free");
    let mut second = client.claim(exclusive(&["orders"])).await.expect("in line");
    let third = client.claim(exclusive(&["orders"])).await.expect("in line");
    let (next, last) = (second.claim().clone(), third.claim());
    assert_eq!((next.state(), next.position), (ClaimState::Waiting, 1));
    assert_eq!((last.state(), last.position), (ClaimState::Waiting, 2));
    let ahead = &next.in_the_way[0];
    assert_eq!((ahead.claim, &*ahead.owner), (first.claim().claim, "ann"));
    let counts = client.status().await.expect("a status").claims;
    let counts = counts.expect("the owner's part");
    assert_eq!((counts.holds, counts.waiting), (1, 2));
    let request = GetResourceRequest {
        name: "orders".into(),
        page_size: 0,
    };
    let queue = client.get_resource(request).await.expect("it is there");
    let numbers = |claims: &[Claim]| claims.iter().map(|one| one.claim).collect::<Vec<_>>();
    assert_eq!(numbers(&queue.holds), [first.claim().claim]);
    assert_eq!(numbers(&queue.queue), [next.claim, last.claim]);
    assert_eq!(queue.holds[0].reason, "the month's end");
    let token = first.token();
    first.release().await.expect("it was held");
    let granted = in_time(second.next())
        .await
        .expect("told")
        .expect("a change");
    assert_eq!(granted.state(), ClaimState::Held);
    assert!(granted.token > token);
}

#[tokio::test]
async fn a_claim_on_several_resources_and_patterns_is_granted_as_a_whole() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "tenant/*", 1).await;
    create(client, "disk", 1).await;
    let disk = client.acquire("disk").await.expect("it is free");
    let mut both = client
        .claim(exclusive(&["tenant/7", "disk"]))
        .await
        .expect("in line");
    let other = client.acquire("tenant/8").await.expect("another tenant");
    let at_once = TryAcquireRequest {
        resources: vec![used("tenant/7", ResourceMode::Shared)],
        ..TryAcquireRequest::default()
    };
    let refused = client.try_acquire(at_once).await.expect("answered");
    assert!(refused.claim.is_none(), "its place is kept: {refused:?}");
    disk.release().await.expect("held");
    in_time(both.next()).await.expect("told");
    assert!(both.is_granted());
    other.release().await.expect("held");
}

#[tokio::test]
async fn a_claim_that_nobody_renews_ends_and_one_that_is_renewed_goes_on() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let of = |lease| AcquireRequest {
        lease: seconds(lease),
        ..exclusive(&["orders"])
    };
    // Nobody reads this stream, so nobody renews the claim.
    let left = client
        .claim(of(Duration::from_secs(1)))
        .await
        .expect("granted");
    let next = in_time(client.acquire_as(of(LEASE)))
        .await
        .expect("granted");
    assert!(next.token() > left.claim().token);
    let ended = client.get_claim(left.claim().claim).await.expect("known");
    assert_eq!(ended.end(), ClaimEnd::Expired);
    let renewed = client.renew(left.claim().claim, left.claim().token).await;
    assert_eq!(reason(&renewed.unwrap_err()), "CLAIM_ENDED");
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    assert_eq!(next.is_lost(), None);
    next.release().await.expect("it was held all the time");
}

#[tokio::test]
async fn a_hold_that_an_operator_ends_is_known_to_be_lost() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let hold = client.acquire("orders").await.expect("it is free");
    let ended = client.force_release(hold.claim().claim, "it hangs").await;
    assert!(!ended.expect("answered").already_ended);
    let why = in_time(hold.lost()).await;
    assert!(why.contains("it hangs"), "{why}");
    assert_eq!(reason(&hold.release().await.unwrap_err()), "CLAIM_ENDED");
    let audit = "select ended || ': ' || reason from rallypoint_log.claims where claim = 1";
    let mut journal = connect(&server.journal).await;
    let audited = value(&mut journal, audit).await;
    assert_eq!(audited, "ended by an operator: it hangs");
    let who = "select concat_ws(' ', namespace, resources, owner = asks_for::json ->> 'owner')
               from rallypoint_log.claims where claim = 1";
    assert_eq!(value(&mut journal, who).await, "default {orders} t");
}

#[tokio::test]
async fn a_dropped_hold_is_given_back() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let token = client.acquire("orders").await.expect("it is free").token();
    let next = in_time(client.acquire("orders")).await.expect("granted");
    assert!(next.token() > token);
}

#[tokio::test]
async fn a_place_in_line_is_kept_for_longer_than_a_short_lease() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let holder = client.acquire("orders").await.expect("it is free");
    // A renewal may come late on a busy machine.
    let of_three_seconds = AcquireRequest {
        lease: seconds(Duration::from_secs(3)),
        ..exclusive(&["orders"])
    };
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.acquire_as(of_three_seconds).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    holder.release().await.expect("held");
    let hold = in_time(waits).await.expect("no panic").expect("granted");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(hold.is_lost(), None);
}

#[tokio::test]
async fn whoever_no_longer_waits_leaves_the_line() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let holder = client.acquire("orders").await.expect("it is free");
    let given_up = timeout(Duration::from_secs(1), client.acquire("orders")).await;
    assert!(given_up.is_err());
    let late = client.claim(exclusive(&["orders"])).await.expect("in line");
    let next = client.claim(exclusive(&["orders"])).await.expect("in line");
    holder.release().await.expect("held");
    // Granted meanwhile, which the stream has not been asked for.
    let no = late.claim().claim;
    while client.get_claim(no).await.expect("known").state() == ClaimState::Waiting {}
    late.withdraw().await.expect("given back");
    let mut next = next;
    in_time(next.next()).await.expect("told");
    assert!(next.is_granted());
}

#[tokio::test]
async fn a_call_made_again_under_its_request_id_has_one_claim() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 2).await;
    let request = AcquireRequest {
        request_id: Uuid::now_v7().to_string(),
        ..exclusive(&["orders"])
    };
    let first = client.claim(request.clone()).await.expect("granted");
    let again = client.claim(request.clone()).await.expect("the same");
    let known = (again.claim().claim, again.claim().token);
    assert_eq!(known, (first.claim().claim, first.claim().token));
    let other = AcquireRequest {
        reason: "another one".into(),
        ..request
    };
    let reused = client.claim(other).await.unwrap_err();
    assert_eq!(reason(&reused), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn holds_and_places_in_line_outlive_the_owner_and_tokens_go_on_rising() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let client = cluster.client_of_all();
    create(&client, "orders", 1).await;
    let request = AcquireRequest {
        lease: seconds(Duration::from_secs(20)),
        ..exclusive(&["orders"])
    };
    let hold = client.acquire_as(request.clone()).await.expect("granted");
    // By the other replica, which forwards.
    let standby = cluster.client(1 - owner);
    let mut second = standby.claim(request.clone()).await.expect("in line");
    let third = standby.claim(request).await.expect("in line");
    let line = [second.claim().claim, third.claim().claim];
    cluster.kill_9(owner);
    let waits = tokio::spawn(async move {
        while !second.is_granted() && second.next().await?.is_some() {}
        Ok::<_, Error>(second.claim().clone())
    });
    let request = GetResourceRequest {
        name: "orders".into(),
        page_size: 0,
    };
    let known = in_time(standby.get_resource(request))
        .await
        .expect("a new owner");
    assert_eq!(known.holds[0].claim, hold.claim().claim);
    assert_eq!(
        known.queue.iter().map(|one| one.claim).collect::<Vec<_>>(),
        line
    );
    assert_eq!(hold.is_lost(), None);
    let token = hold.token();
    hold.release().await.expect("it was held all the time");
    let granted = in_time(waits).await.expect("no panic").expect("granted");
    assert_eq!(granted.claim, line[0]);
    assert!(granted.token > token);
}

fn reason(error: &Error) -> &str {
    error.reason.as_deref().unwrap_or("none")
}
