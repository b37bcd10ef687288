//! While the database of the journal is away, callers learn so and when to come back, and what runs
//! goes on. Afterwards everything resumes without a restart of the server.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    gate::Gate,
    postgres::durable,
    server::{Server, Setup},
    work::noop,
};
use rallypoint_client::{
    Error,
    api::{ListSchedulersRequest, SchedulerSettings},
};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

#[tokio::test]
async fn callers_learn_when_to_come_back_and_everything_resumes() {
    let postgres = durable(Vec::new());
    let server = Server::with(Setup {
        postgres: Some(&postgres),
        others: &["other"],
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = Gate::close(&server.others[0]).await;
    scheduler
        .submit([gate.task().on("other").order(1), noop().order(2)])
        .await;
    gate.reached_by(1).await;
    postgres.immediate_stop();

    every_call_says_when_to_come_back(&server, scheduler.handle()).await;
    let status = server.client.status().await;
    let status = status.expect("it answers without its database");
    assert!(
        status.unreachable.contains(&"journal".to_owned()),
        "{status:?}"
    );

    let patient = server
        .client
        .clone()
        .with_retry_timeout(WAIT_TIMEOUT)
        .scheduler(scheduler.handle());
    let waiting = tokio::spawn(async move { patient.exec(vec![noop().order(4).into()]).await });
    postgres.restart().expect("it is back");
    waiting.await.expect("no panic").expect("accepted at last");
    gate.open().await;
    let done = scheduler.all_done().await;
    let ended: Vec<_> = done
        .iter()
        .filter(|done| done.effective_order != Some(3))
        .map(|done| (done.effective_order, done.attempt))
        .collect();
    assert_eq!(ended, [(Some(1), 1), (Some(2), 1), (Some(4), 1)]);
    assert_eq!(scheduler.log().await.overlaps(), []);
}

async fn every_call_says_when_to_come_back(server: &Server, handle: &str) {
    let client = server.client.clone().with_retry_timeout(Duration::ZERO);
    let scheduler = client.scheduler(handle);
    let tasks = vec![noop().order(3).into()];
    let (submit, open, list, task) = tokio::join!(
        scheduler.exec(tasks),
        client.open(SchedulerSettings::default()),
        client.schedulers(ListSchedulersRequest::default()),
        scheduler.task(1),
    );
    says_when_to_come_back("submit", submit.err());
    says_when_to_come_back("open", open.err());
    says_when_to_come_back("list", list.err());
    says_when_to_come_back("task", task.err());
}

#[tokio::test]
async fn what_ends_while_the_database_is_away_is_remembered_when_it_is_back() {
    let postgres = durable(Vec::new());
    let server = Server::with(Setup {
        postgres: Some(&postgres),
        others: &["other"],
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = Gate::close(&server.others[0]).await;
    scheduler.submit(gate.task().on("other").times(3)).await;
    gate.reached_by(3).await;
    let mut stream = scheduler
        .scheduler
        .synchronize(0, None)
        .await
        .expect("a stream");
    postgres.immediate_stop();
    gate.open().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    postgres.restart().expect("it is back");
    let mut attempts = Vec::new();
    while let Some(done) = stream.next().await.expect("the stream goes on") {
        attempts.extend(done.iter().map(|done| (done.done_no, done.attempt)));
    }
    assert_eq!(attempts, [(1, 1), (2, 1), (3, 1)]);
}

#[tokio::test]
async fn health_says_whether_callers_are_served() {
    let postgres = durable(Vec::new());
    let server = Server::with(Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    })
    .await;
    until_health_is(&server, ServingStatus::Serving).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    postgres.immediate_stop();
    let waiting = tokio::spawn(async move { scheduler.submit([noop()]).await });
    until_health_is(&server, ServingStatus::NotServing).await;
    postgres.restart().expect("it is back");
    until_health_is(&server, ServingStatus::Serving).await;
    assert_eq!(waiting.await.expect("accepted at last"), 1);
}

async fn until_health_is(server: &Server, wanted: ServingStatus) {
    let channel = Channel::from_shared(server.url.clone())
        .expect("a URL")
        .connect_lazy();
    let mut health = HealthClient::new(channel);
    let wait = async {
        while health
            .check(HealthCheckRequest::default())
            .await
            .expect("it answers")
            .into_inner()
            .status()
            != wanted
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, wait)
        .await
        .expect("it says so in time");
}

fn says_when_to_come_back(call: &str, error: Option<Error>) {
    let error = error.unwrap_or_else(|| panic!("{call} was answered without a database"));
    assert!(
        matches!(error.code, Code::Unavailable | Code::ResourceExhausted),
        "{call}: {error}"
    );
    assert!(
        error.retry_after.is_some() && error.reason.is_some(),
        "{call}: {error:?}"
    );
}
