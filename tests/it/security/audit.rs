//! Who changed what, and who tried to: rows that are there when an operator's call is answered, and
//! a moment later of everybody else.

use super::{Grant, Secured, token};
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{connect, value},
    work::noop,
};
use hyper_util::{client::legacy, rt::TokioExecutor};
use rallypoint_client::{
    Client,
    api::{
        CreateResourceRequest, ReleaseMode, ResourceSettings, SchedulerSettings, Task,
        resource_service_client::ResourceServiceClient,
    },
};
use sqlx::{Connection, Executor};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request, body::Body};

const fn grant(name: &'static str, role: &'static str) -> Grant {
    Grant {
        name,
        namespaces: &["etl"],
        role,
    }
}

const GRANTS: &[Grant] = &[
    grant("bob", "reader"),
    grant("ada", "submitter"),
    grant("olga", "operator"),
];

/// What is written, in the order of the calls.
const ROWS: &str =
    "select string_agg(concat_ws(' ', caller, namespace, method, split_part(object, ' ', 1),
        outcome, reason), e'\\n' order by at, method)
    from rallypoint_log.audit";

async fn rows(server: &Secured) -> String {
    let mut psql = connect(&server.journal).await;
    value(&mut psql, ROWS).await
}

async fn rows_until(server: &Secured, last: &str) -> String {
    let begun = Instant::now();
    loop {
        let rows = rows(server).await;
        if rows.contains(last) || begun.elapsed() > WAIT_TIMEOUT {
            return rows;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn disk() -> CreateResourceRequest {
    CreateResourceRequest {
        name: "disk".into(),
        settings: Some(ResourceSettings {
            capacity: 1,
            ..ResourceSettings::default()
        }),
    }
}

#[tokio::test]
async fn everything_that_changes_and_everything_refused_is_on_record() {
    let server = Secured::start(GRANTS, "", None);
    let (ada, olga, bob) = (
        server.client("ada"),
        server.client("olga"),
        server.client("bob"),
    );
    let stranger = Client::connect_lazy(&server.server.url()).expect("a URL");
    stranger
        .create_resource(disk())
        .await
        .expect_err("a stranger");
    bob.create_resource(disk()).await.expect_err("a reader");
    olga.create_resource(disk()).await.expect("an operator");
    let at_once = rows(&server).await;
    let operators = "token:olga etl ResourceService/CreateResource resource OK";
    assert!(at_once.contains(operators), "{at_once}");
    let hold = ada.acquire("disk").await.expect("it is free");
    let claim = hold.claim().claim;
    olga.force_release(claim, "it hangs").await.expect("ended");
    assert!(rows(&server).await.ends_with("claim OK it hangs"));
    let scheduler = ada.open(SchedulerSettings::default()).await.expect("open");
    scheduler
        .exec(vec![Task::from(noop())])
        .await
        .expect("submitted");
    scheduler.pause().await.expect("paused");
    scheduler
        .cancel(77)
        .await
        .expect_err("there is no such task");
    scheduler
        .release(ReleaseMode::Cancel, false)
        .await
        .expect("released");
    let rows = rows_until(&server, "ReleaseScheduler").await;
    let expected = [
        "ResourceService/CreateResource  IDENTITY_MISSING",
        "token:bob  ResourceService/CreateResource  ROLE_MISSING",
        operators,
        "token:olga etl ResourceService/ForceRelease claim OK it hangs",
        "token:ada etl SchedulerService/GetScheduler scheduler OK",
        "token:ada etl SchedulerService/PauseScheduler scheduler OK",
        "token:ada etl SchedulerService/CancelTask task TASK_NOT_FOUND",
        "token:ada etl SchedulerService/ReleaseScheduler scheduler OK",
    ];
    let lines: Vec<&str> = rows.lines().map(str::trim).collect();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn an_operator_is_answered_when_the_row_is_durable_and_others_before() {
    let server = Secured::start(GRANTS, "", None);
    let (ada, olga) = (server.client("ada"), server.client("olga"));
    let scheduler = ada.open(SchedulerSettings::default()).await.expect("open");
    let mut holder = connect(&server.journal).await;
    let mut lock = holder.begin().await.expect("begun");
    lock.execute("lock table audit in exclusive mode")
        .await
        .expect("locked");
    scheduler.pause().await.expect("answered without its row");
    let create = tokio::spawn(async move { olga.create_resource(disk()).await });
    let mut psql = connect(&server.journal).await;
    let made = "select count(*)::text from resource";
    while value(&mut psql, made).await != "1" {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!create.is_finished(), "it is made, and its row is not");
    lock.rollback().await.expect("released");
    create.await.expect("no panic").expect("created");
    assert!(rows(&server).await.contains("CreateResource resource OK"));
}

#[tokio::test]
async fn an_operator_whose_row_waits_is_answered_at_the_deadline_and_the_row_follows() {
    let server = Secured::start(GRANTS, "", None);
    let ada = server.client("ada");
    let opened = ada.open(SchedulerSettings::default()).await;
    opened.expect("there is an owner");
    let mut holder = connect(&server.journal).await;
    let mut lock = holder.begin().await.expect("begun");
    lock.execute("lock table audit in exclusive mode")
        .await
        .expect("locked");
    // It does not watch the deadline itself: the server has to.
    let client = legacy::Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http::<Body>();
    let url = server.server.url().parse().expect("a URL");
    let mut late = Request::new(disk());
    late.set_timeout(Duration::from_secs(2));
    let bearer = format!("Bearer {}", token("olga"))
        .parse()
        .expect("a token");
    late.metadata_mut().insert("authorization", bearer);
    let mut resources = ResourceServiceClient::with_origin(client, url);
    let late = resources.create_resource(late).await;
    let late = late.expect_err("its row is not written").code();
    assert_eq!(late, Code::DeadlineExceeded);
    lock.rollback().await.expect("released");
    let method = "ResourceService/CreateResource";
    let rows = rows_until(&server, method).await;
    assert!(rows.contains(method), "{rows}");
}
