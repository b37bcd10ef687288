//! A grant that is noticed late is no hold: by then others may have had the same.

use super::*;
use std::future::ready;

/// Makes a resource that nobody holds for longer.
async fn limit(client: &Client, name: &str, longest: Duration) {
    let settings = ResourceSettings {
        capacity: 1,
        max_hold: seconds(longest),
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: name.into(),
        settings: Some(settings),
    };
    client.create_resource(request).await.expect("created");
}

#[tokio::test]
async fn a_hold_is_known_to_be_over_when_its_resource_allows_no_more() {
    let server = Standalone::start();
    let client = Client::connect_lazy(&server.url).expect("an address");
    limit(&client, "orders", Duration::from_secs(2)).await;
    let hold = client.acquire_as(of_an_hour()).await.expect("it is free");
    let left = hold.claim().hold_left.expect("it is limited");
    assert!((0..=2).contains(&left.seconds), "{left:?}");
    // Nobody says so: this process knows it by its own clock.
    server.freeze();
    let why = in_time(hold.lost()).await;
    assert_eq!(why, "it was held for as long as the resource allows");
}

#[tokio::test]
async fn a_grant_that_is_noticed_after_its_end_is_no_hold() {
    let server = Server::start().await;
    let client = &server.client;
    limit(client, "orders", Duration::from_secs(3)).await;
    let granted = client.claim(of_an_hour()).await.expect("it is free");
    assert!(granted.is_granted());
    let next = in_time(client.acquire("orders")).await.expect("granted");
    let error = Hold::of(granted).await.expect_err("another one has it");
    assert_eq!(reason(&error), "CLAIM_ENDED");
    next.release().await.expect("it was held all the time");
}

#[tokio::test]
async fn a_grant_that_nobody_confirms_in_time_is_no_hold() {
    let server = Standalone::start();
    let client = Client::connect_lazy(&server.url).expect("an address");
    limit(&client, "orders", Duration::from_secs(2)).await;
    let granted = client.claim(of_an_hour()).await.expect("it is free");
    server.freeze();
    let error = in_time(Hold::of(granted)).await.expect_err("it is over");
    assert_eq!(reason(&error), "CLAIM_ENDED");
    assert!(error.is_unknown(), "the server may have it still: {error}");
}

#[tokio::test]
async fn a_claim_that_somebody_else_may_have_ended_is_no_hold() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let request = AcquireRequest {
        request_id: Uuid::now_v7().to_string(),
        ..of_an_hour()
    };
    let mut first = client.claim(request.clone()).await.expect("it is free");
    let again = client.claim(request).await.expect("the same");
    let ended = client.force_release(again.claim().claim, "it hangs").await;
    assert!(!ended.expect("answered").already_ended);
    while !first.has_ended() {
        in_time(first.next()).await.expect("told");
    }
    assert!(again.is_granted(), "as it was told");
    let error = Hold::of(again).await.expect_err("it has ended");
    assert_eq!(reason(&error), "CLAIM_ENDED");
}

#[tokio::test]
async fn a_grant_is_given_back_if_nobody_waits_until_it_is_confirmed() {
    let server = Server::start().await;
    let client = &server.client;
    limit(client, "orders", Duration::from_secs(3_600)).await;
    let granted = client.claim(of_an_hour()).await.expect("it is free");
    tokio::select! {
        biased;
        _ = Hold::of(granted) => panic!("no answer comes at once"),
        () = ready(()) => {}
    }
    drop(in_time(client.acquire("orders")).await.expect("granted"));
}

#[tokio::test]
async fn a_claim_that_is_given_up_before_its_first_answer_is_withdrawn() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "orders", 1).await;
    let mut stall = connect(&server.journal).await;
    sqlx::raw_sql("begin; lock table batch in exclusive mode")
        .execute(&mut stall)
        .await
        .expect("locked");
    let claiming = client.clone();
    let claiming = tokio::spawn(async move { claiming.acquire_as(of_an_hour()).await });
    // Its grant is on the way to the journal.
    let waits = "select count(*)::text
        from pg_locks
        where relation = 'batch'::regclass and not granted
            and database = (select oid from pg_database where datname = current_database())";
    while value(&mut stall, waits).await == "0" {
        sleep(Duration::from_millis(5)).await;
    }
    claiming.abort();
    sqlx::raw_sql("rollback")
        .execute(&mut stall)
        .await
        .expect("unlocked");
    let next = in_time(client.acquire("orders")).await.expect("granted");
    next.release().await.expect("held");
}
