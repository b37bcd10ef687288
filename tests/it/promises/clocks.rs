//! The clock of the database is set by days, forward and back, while servers run and between them:
//! nothing that was acknowledged is lost, and nobody is held up.

use crate::harness::{
    clock::Clock,
    cluster::Cluster,
    conversation::WAIT_TIMEOUT,
    server::{Server, Setup},
    work::{noop, slots_of, sql},
};
use rallypoint::postgres::{Options, PrivatePostgres};
use rallypoint_client::api::{
    ExecAsyncRequest, GetSchedulerRequest, SchedulerSettings,
    scheduler_service_client::SchedulerServiceClient,
};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::Code;
use uuid::Uuid;

const DAY_S: i64 = 86_400;

/// A Postgres whose clock can be set.
fn postgres(folder: &TempDir) -> (PrivatePostgres, Clock) {
    let clock = Clock::new(folder.path().join("clock"));
    let clock = clock.expect("libfaketime is missing: `make setup-test` installs it");
    let options = Options {
        environment: clock.environment(),
        ..Options::default()
    };
    (PrivatePostgres::start(options).expect("it starts"), clock)
}

/// A folder that the account of Postgres may enter.
fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    builder.permissions(open).tempdir().expect("a folder")
}

#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "clocks are set with libfaketime, as on Linux"
)]
async fn what_is_submitted_by_a_clock_that_is_days_off_is_not_lost() {
    let folder = folder();
    let (postgres, clock) = postgres(&folder);
    let setup = || Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let mut server = Server::with(setup()).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let handle = scheduler.handle().to_owned();
    scheduler.scheduler.pause().await.expect("paused");
    let mut submitted = 0;
    for days in [10, 0, -10, 40, 400, 0] {
        clock.set(days * DAY_S);
        for restarted in [false, true] {
            if restarted {
                drop(server);
                server = Server::with(setup()).await;
            }
            let scheduler = server.client.scheduler(&handle);
            let tasks = vec![noop().into(), sql("select 1").into()];
            let accepted = scheduler.exec(tasks).await.expect("accepted");
            assert_eq!(accepted.first_seq, submitted + 1, "{days} days off");
            submitted += 2;
        }
    }
    server
        .client
        .scheduler(&handle)
        .resume(false)
        .await
        .expect("resumed");
    let conversation = crate::harness::conversation::Conversation {
        scheduler: server.client.scheduler(&handle),
        journal: server.journal.clone(),
    };
    let done = conversation.all_done().await;
    let numbers: Vec<i64> = done.iter().map(|done| done.done_no).collect();
    assert_eq!(numbers, (1..=submitted).collect::<Vec<_>>());
    let log = conversation.log().await;
    assert_eq!(log.outcomes(), [("succeeded", submitted as usize)].into());
}

/// Request ids are remembered for fifteen minutes, by a time that a jump does not change.
#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "clocks are set with libfaketime, as on Linux"
)]
async fn a_call_is_not_repeated_after_a_takeover_by_a_replica_that_started_while_the_clock_was_off()
{
    let folder = folder();
    let (postgres, clock) = postgres(&folder);
    let mut cluster = Cluster::on(postgres, 2, &[]).await;
    let owner = cluster.owner().await;
    let other = 1 - owner;
    let client = cluster.client(owner);
    let conversation = cluster.open(&client, SchedulerSettings::default()).await;
    let request = ExecAsyncRequest {
        handle: conversation.handle().to_owned(),
        request_id: Uuid::now_v7().to_string(),
        tasks: vec![noop().into()],
    };
    let exec = async |url: String| {
        let client = SchedulerServiceClient::connect(url).await;
        let mut client = client.expect("it answers");
        let repeated = async {
            loop {
                match client.exec_async(request.clone()).await {
                    Ok(accepted) => return accepted.into_inner().first_seq,
                    Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let repeated = timeout(WAIT_TIMEOUT, repeated).await;
        repeated.expect("accepted in time")
    };
    assert_eq!(exec(cluster.url(owner)).await, 1);

    clock.set(DAY_S);
    cluster.kill_9(other);
    until_slots(&cluster, 4).await;
    cluster.restart(other);
    until_slots(&cluster, 8).await;
    cluster.wait_until_ready(other).await;
    cluster.kill_9(owner);
    cluster.wait_until_ready(other).await;
    assert_eq!(exec(cluster.url(other)).await, 1, "it was made again");
}

#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "clocks are set with libfaketime, as on Linux"
)]
async fn a_call_is_not_repeated_by_a_server_that_starts_while_the_clock_is_off() {
    let folder = folder();
    let (postgres, clock) = postgres(&folder);
    let setup = || Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let open = GetSchedulerRequest {
        request_id: Uuid::now_v7().to_string(),
        ..GetSchedulerRequest::default()
    };
    let request_id = Uuid::now_v7().to_string();
    let mut answers = Vec::new();
    for days in [0, 1, 1, -1, 30] {
        clock.set(days * DAY_S);
        let server = Server::with(setup()).await;
        let url = server.url.clone();
        let client = SchedulerServiceClient::connect(url).await;
        let mut client = client.expect("it answers");
        let opened = client.get_scheduler(open.clone()).await.expect("opened");
        let handle = opened.into_inner().scheduler.expect("a scheduler").handle;
        let request = ExecAsyncRequest {
            handle: handle.clone(),
            request_id: request_id.clone(),
            tasks: vec![noop().into()],
        };
        let accepted = client.exec_async(request).await.expect("accepted");
        answers.push((handle, accepted.into_inner().first_seq));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "it was made again: {answers:?}"
    );
}

/// Waits until the owner has so many slots for SQL tasks, its own and those of the other replica.
async fn until_slots(cluster: &Cluster, slots: i32) {
    cluster
        .until(|status| {
            let sql = status
                .slots
                .iter()
                .filter(|row| row.kind == slots_of("app"));
            sql.map(|row| row.total).sum::<i32>() == slots
        })
        .await;
}
