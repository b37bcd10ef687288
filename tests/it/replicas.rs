//! Several replicas of one shard: any of them takes any call, and another one takes over when the
//! owner is gone.

mod alike;
mod cut_off;
mod readiness;
mod stock_clients;

use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::connect,
    process::{Process, free_address},
    work::{noop, sql},
};
use nix::sys::signal::Signal;
use rallypoint::{postgres::COORDINATION, server::DEFAULT_SHUTDOWN_GRACE};
use rallypoint_client::api::{
    ExecAsyncRequest, ReleaseMode, SchedulerSettings, SchedulerState, SynchronizationRequest,
    Until, scheduler_service_client::SchedulerServiceClient, until::Kind,
};
use std::{collections::BTreeSet, net::SocketAddr, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::{Code, transport::Endpoint};

/// A replica on this database, with these options besides, that is not started yet, and where it
/// listens for callers.
fn replica_on(database: &str, name: &str, more: &[String]) -> (SocketAddr, Process) {
    let address = free_address();
    let options = [
        format!("--listen={address}"),
        format!("--replica-name={name}"),
        format!("--peer-listen={}", free_address()),
        format!("--database={database}"),
    ];
    (address, Process::serve(options.iter().chain(more)))
}

#[tokio::test]
async fn calls_and_streams_wait_while_a_standby_reads_the_journal() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let heir = 1 - owner;
    let client = cluster.client(heir);
    let here = cluster.open(&client, SchedulerSettings::default()).await;
    // A client that repeats nothing.
    let plain = Endpoint::new(cluster.url(heir)).unwrap().connect_lazy();
    let mut plain = SchedulerServiceClient::new(plain);
    let handle = here.handle().to_owned();
    let stream = SynchronizationRequest {
        handle: handle.clone(),
        until: Some(Until {
            kind: Some(Kind::Forever(())),
        }),
        ..Default::default()
    };
    let mut events = plain.synchronization(stream).await.unwrap().into_inner();
    let options = cluster.postgres.options_for(COORDINATION, COORDINATION);
    let mut locking = connect(&options).await;
    let lock = "begin; lock table scheduler in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut locking).await.unwrap();
    cluster.kill_9(owner);
    let takes_over = async {
        while cluster.owner_in_the_journal().await != Some(format!("r{heir}")) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, takes_over)
        .await
        .expect("a new owner");
    let submit = ExecAsyncRequest {
        handle,
        tasks: vec![noop().into()],
        ..Default::default()
    };
    let unlock = async {
        sleep(Duration::from_millis(500)).await;
        sqlx::raw_sql("commit").execute(&mut locking).await.unwrap();
    };
    let (submitted, ()) = tokio::join!(plain.exec_async(submit), unlock);
    submitted.expect("it waits for the journal");
    loop {
        let next = timeout(WAIT_TIMEOUT, events.message()).await;
        let next = next.expect("in time").expect("the stream goes on");
        if let Some(done) = next.expect("no end").done.first() {
            assert_eq!(done.done_no, 1);
            break;
        }
    }
}

#[tokio::test]
async fn a_replica_that_is_stopped_while_it_reads_the_journal_hands_the_shard_over() {
    let mut cluster = Cluster::start(3).await;
    let owner = cluster.owner().await;
    let options = cluster.postgres.options_for(COORDINATION, COORDINATION);
    let mut locking = connect(&options).await;
    let lock = "begin; lock table scheduler in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut locking).await.unwrap();
    cluster.kill_9(owner);
    let takes_over = async {
        loop {
            match cluster.owner_in_the_journal().await {
                Some(name) if name != format!("r{owner}") => return name,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let name = timeout(WAIT_TIMEOUT, takes_over).await;
    let name = name.expect("a new owner");
    let heir: usize = name[1..].parse().expect("its number");
    cluster.terminate(heir).await;
    let left = "select handover_to is not null or owner is distinct from $1 from lease";
    let left: bool = sqlx::query_scalar(left)
        .bind(&name)
        .fetch_one(&mut locking)
        .await
        .unwrap();
    assert!(left, "nobody has to wait for the end of its lease");
    sqlx::raw_sql("commit").execute(&mut locking).await.unwrap();
    cluster.wait_until_ready(3 - owner - heir).await;
}

#[tokio::test]
async fn any_replica_takes_any_call() {
    let cluster = Cluster::start(3).await;
    for index in 0..3 {
        let client = cluster.client(index);
        let here = cluster.open(&client, SchedulerSettings::default()).await;
        here.submit([sql("select 1").order(1), noop().order(2)])
            .await;
        let numbers: Vec<i64> = here
            .all_done()
            .await
            .iter()
            .map(|done| done.done_no)
            .collect();
        assert_eq!(numbers, [1, 2]);
        for other in 0..3 {
            let there = cluster.conversation(&cluster.client(other), here.handle());
            assert_eq!(there.all_done().await.len(), 2);
            assert!(there.task(1).await.done.is_some());
        }
        here.cancel_everything().await;
        let status = client.status().await.expect("a status");
        assert_eq!(
            (status.replicas.len(), status.unreachable.len()),
            (3, 0),
            "{status:?}"
        );
        let targets = status.targets.iter();
        let of_targets: BTreeSet<&str> = targets.map(|target| &*target.replica).collect();
        assert_eq!(of_targets, BTreeSet::from(["r0", "r1", "r2"]), "{status:?}");
        let rows = client.executions().await.expect("executions").executions;
        for name in ["r0", "r1", "r2"] {
            assert_eq!(
                rows.iter().filter(|row| row.replica == name).count(),
                4,
                "{rows:?}"
            );
        }
    }
}

#[tokio::test]
async fn readers_that_do_not_read_stall_nobody_else_who_is_forwarded() {
    let cluster = Cluster::start(2).await;
    let standby = 1 - cluster.owner().await;
    let conversation = cluster
        .open(&cluster.client(standby), SchedulerSettings::default())
        .await;
    conversation
        .submit((0..24).map(|_| sql("select repeat('x', 60000) as x").rows(1)))
        .await;
    conversation.until(|now| now.done == 24).await;
    let until = Some(Until {
        kind: Some(Kind::Forever(())),
    });
    let request = SynchronizationRequest {
        handle: conversation.handle().into(),
        until,
        ..Default::default()
    };
    let window = 64 << 10;
    let endpoint = Endpoint::from_shared(cluster.url(standby)).expect("a URL");
    let endpoint = endpoint
        .initial_stream_window_size(window)
        .initial_connection_window_size(window * 40);
    let mut calls = SchedulerServiceClient::new(endpoint.connect().await.expect("connected"));
    let mut asleep = Vec::new();
    for _ in 0..40 {
        asleep.push(
            calls
                .synchronization(request.clone())
                .await
                .expect("a stream"),
        );
    }
    for _ in 0..10 {
        assert_eq!(conversation.all_done().await.len(), 24);
    }
}

#[tokio::test]
async fn when_the_owner_is_killed_the_next_one_goes_on_and_streams_continue() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let survivor = 1 - owner;
    let client = cluster.client(survivor);
    let conversation = cluster.open(&client, SchedulerSettings::default()).await;
    // What the owner runs when it dies starts again behind a fence.
    conversation
        .submit([sql("select pg_sleep(1)").order(1)])
        .await;
    conversation
        .submit((0..20).map(|n| sql("select 1").order(2 + n)))
        .await;
    let reading = tokio::spawn(first_events(conversation.clone(), 24));
    conversation.until(|now| now.running == 1).await;
    cluster.kill_9(owner);
    conversation
        .submit([noop().order(100), noop().order(101), noop().order(102)])
        .await;
    assert_eq!(reading.await.expect("read"), (1..=24).collect::<Vec<_>>());
    assert_eq!(cluster.owner().await, survivor);
    let log = conversation.log().await;
    assert_eq!(log.outcomes().get("succeeded"), Some(&24), "{log:?}");
    assert_eq!(log.overlaps(), []);
    // The killed replica comes back and takes calls again.
    cluster.restart(owner);
    cluster.wait_until_ready(owner).await;
    let there = cluster.conversation(&cluster.client(owner), conversation.handle());
    assert_eq!(there.all_done().await.len(), 24);
}

#[tokio::test]
async fn a_replica_that_is_stopped_hands_over_and_no_call_fails() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client_of_all();
    let conversation = cluster.open(&client, SchedulerSettings::default()).await;
    let calls = conversation.clone();
    let submitting = tokio::spawn(async move {
        for _ in 0..300 {
            calls.submit([noop(), sql("select 1")]).await;
            sleep(Duration::from_millis(10)).await;
        }
    });
    let reading = tokio::spawn(first_events(conversation.clone(), 600));
    for rows in 3..5 {
        let owner = cluster.owner().await;
        cluster.terminate(owner).await;
        assert_eq!(cluster.owner().await, 1 - owner);
        cluster.restart(owner);
        cluster.wait_until_ready(owner).await;
        cluster.until(|status| status.replicas.len() == rows).await;
    }
    submitting.await.expect("no call fails");
    assert_eq!(reading.await.expect("read"), (1..=600).collect::<Vec<_>>());
    let log = conversation.log().await;
    assert_eq!(
        log.outcomes().get("succeeded"),
        Some(&600),
        "{:?}",
        log.outcomes()
    );
}

#[tokio::test]
async fn an_owner_that_was_asleep_writes_nothing_and_serves_through_the_new_one() {
    let cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let other = 1 - owner;
    let (sleeper, awake) = (cluster.client(owner), cluster.client(other));
    let conversation = cluster.open(&sleeper, SchedulerSettings::default()).await;
    conversation
        .submit([sql("select pg_sleep(3)").order(1), noop().order(2)])
        .await;
    conversation.until(|now| now.running == 1).await;
    cluster.signal(owner, Signal::SIGSTOP);
    let through_other = cluster.conversation(&awake, conversation.handle());
    through_other.submit([noop().order(3)]).await;
    assert_eq!(through_other.all_done().await.len(), 3);
    assert_eq!(cluster.owner_by(&awake).await, other);
    cluster.signal(owner, Signal::SIGCONT);
    // It takes calls as any other replica does, and knows what happened meanwhile.
    conversation.submit([noop().order(4)]).await;
    assert_eq!(conversation.all_done().await.len(), 4);
    assert_eq!(cluster.owner_by(&sleeper).await, other);
    let log = conversation.log().await;
    assert_eq!(log.outcomes().get("succeeded"), Some(&4), "{log:?}");
    assert_eq!(
        cluster.changes_of_epoch().await,
        1,
        "no batch of the old owner lies behind one of the new one"
    );
}

/// The numbers of `count` events, from one stream without an end.
async fn first_events(conversation: Conversation, count: usize) -> Vec<i64> {
    let mut stream = conversation
        .scheduler
        .synchronize(0, Some(Kind::Forever(())))
        .await
        .expect("a stream");
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let done = stream
            .next()
            .await
            .expect("it goes on")
            .expect("it has no end");
        numbers.extend(done.iter().map(|done| done.done_no));
    }
    numbers
}

#[tokio::test]
async fn nobody_waits_for_the_lease_of_an_owner_that_was_killed() {
    // The tests would time out before this lease ends.
    let mut cluster = Cluster::with_options(3, &["--lease", "60"]).await;
    let owner = cluster.owner().await;
    let survivors = cluster.client((owner + 1) % 3);
    let conversation = cluster.open(&survivors, SchedulerSettings::default()).await;
    cluster.kill_9(owner);
    let go_on = async {
        conversation.submit([noop()]).await;
        conversation.all_done().await
    };
    let done = timeout(Duration::from_secs(30), go_on).await;
    assert_eq!(done.expect("long before the lease ends").len(), 1);
    assert_ne!(cluster.owner().await, owner);
}

#[tokio::test]
async fn an_owner_that_sleeps_is_not_taken_for_gone_before_its_lease_ends() {
    let cluster = Cluster::with_options(2, &["--lease", "60"]).await;
    let owner = cluster.owner().await;
    cluster.signal(owner, Signal::SIGSTOP);
    // More than the others take to notice the end of a session.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.changes_of_epoch().await, 0);
    cluster.signal(owner, Signal::SIGCONT);
    let conversation = cluster
        .open(&cluster.client(owner), SchedulerSettings::default())
        .await;
    conversation.submit([noop()]).await;
    assert_eq!(conversation.all_done().await.len(), 1);
    assert_eq!(cluster.owner().await, owner);
}

#[tokio::test]
async fn a_rolling_restart_repeats_no_statement_that_ends_within_the_grace() {
    let mut cluster = Cluster::with_options(2, &["--shutdown-grace", "60"]).await;
    let conversation = cluster
        .open(&cluster.client_of_all(), SchedulerSettings::default())
        .await;
    let longer_than_the_default = DEFAULT_SHUTDOWN_GRACE.as_secs() + 2;
    let statement = format!("select pg_sleep({longer_than_the_default})");
    conversation.submit(sql(statement).times(6)).await;
    conversation.until(|now| now.running == 6).await;
    let owner = cluster.owner().await;
    cluster.terminate(owner).await;
    let done = conversation.all_done().await;
    assert!(done.iter().all(|done| done.attempt == 1), "{done:?}");
    assert_eq!(
        conversation.log().await.outcomes().get("succeeded"),
        Some(&6)
    );
}

#[tokio::test]
async fn a_replica_that_stops_keeps_no_caller_waiting_for_tasks_elsewhere() {
    let cluster = Cluster::start(2).await;
    let standby = 1 - cluster.owner().await;
    let client = cluster.client(standby);
    let conversation = cluster.open(&client, SchedulerSettings::default()).await;
    conversation.submit([sql("select pg_sleep(60)")]).await;
    conversation.until(|now| now.running == 1).await;
    let once = client.with_retry_timeout(Duration::ZERO);
    let scheduler = once.scheduler(conversation.handle());
    let waiting = tokio::spawn(async move { scheduler.release(ReleaseMode::Finish, true).await });
    conversation
        .until(|now| now.state() == SchedulerState::Releasing)
        .await;
    cluster.signal(standby, Signal::SIGTERM);
    let error = waiting.await.expect("answered").expect_err("it stops");
    assert_eq!(error.code, Code::Unavailable, "{error:?}");
    assert!(error.to_string().contains("shutting down"), "{error:?}");
}
