//! Targets that go away, come back, or still run what a lost executor started.

use super::fixture::{Fixture, Task, failed, login, sql, token};
use crate::harness::postgres::{POSTGRES, connect, database, start};
use rallypoint::{
    core::{Report, SessionReset, Time},
    executor::{Session, TargetConfig},
    postgres::TARGET,
};
use std::{
    fs, future,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{UnixListener, UnixStream},
    sync::Notify,
    time::{sleep, timeout},
};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_target_that_goes_away_loses_its_slots_and_gets_them_back() {
    let postgres = start(Vec::new());
    let mut fixture = Fixture::on(postgres.options_for(TARGET, TARGET), 2);
    assert_eq!(fixture.slots().await, 2);
    let running = fixture.start(sql("select pg_sleep(60)"));
    fixture.asleep().await;
    postgres.immediate_stop();
    let refused = fixture.start(sql("select 1"));
    assert_eq!(fixture.slots().await, 0);
    assert_eq!(fixture.ended(refused).await.report, Report::NotStarted);
    assert!(fixture.executor.targets().remove(0).unavailable.is_some());
    // It is not known yet whether the running task has ended.
    fixture.silent(running).await;
    postgres.restart().expect("started again");
    assert_eq!(fixture.slots().await, 2);
    assert_eq!(
        failed(fixture.ended(running).await.report),
        ("CONNECTION_LOST".into(), true)
    );
    assert_eq!(fixture.value("select 1").await, "1");
    assert!(fixture.executor.targets().remove(0).unavailable.is_none());
}

#[tokio::test]
async fn what_cannot_be_stopped_keeps_a_fenced_executor_from_nothing() {
    let postgres = start(Vec::new());
    let mut fixture = Fixture::on(postgres.options_for(TARGET, TARGET), 2);
    assert_eq!(fixture.slots().await, 2);
    fixture.start(sql("select pg_sleep(60)"));
    fixture.asleep().await;
    postgres.immediate_stop();
    let given_up = timeout(WAIT_TIMEOUT, fixture.executor.give_up()).await;
    given_up.expect("its target does not answer, and need not");
}

#[tokio::test]
async fn a_register_that_takes_no_session_takes_no_slots_from_those_it_has() {
    let mut fixture = Fixture::new(2).await;
    let running = fixture.start(sql("select pg_sleep(60)"));
    fixture.asleep().await;
    fixture.refuses.store(true, Ordering::Release);
    let refused = fixture.start(sql("select 1"));
    assert_eq!(fixture.ended(refused).await.report, Report::NotStarted);
    assert!(fixture.executor.targets().remove(0).unavailable.is_none());
    fixture.refuses.store(false, Ordering::Release);
    assert_eq!(fixture.value("select 1").await, "1");
    fixture.executor.stop(token(running));
    assert_eq!(fixture.ended(running).await.report, Report::Stopped);
}

#[tokio::test]
async fn an_executor_whose_register_takes_no_session_says_that_it_has_no_slots() {
    let mut fixture = Fixture::new(1).await;
    fixture.refuses.store(true, Ordering::Release);
    let refused = fixture.start(sql("select 1"));
    assert_eq!(fixture.ended(refused).await.report, Report::NotStarted);
    assert_eq!(fixture.slots().await, 0);
    // One for the task, and others although there is no task any more.
    for _ in 0..3 {
        let refused = timeout(WAIT_TIMEOUT, fixture.refused.recv()).await;
        refused.expect("asked in time").expect("a session");
    }
    assert!(fixture.executor.targets().remove(0).unavailable.is_some());
    fixture.refuses.store(false, Ordering::Release);
    assert_eq!(fixture.slots().await, 1);
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_session_of_a_lost_executor_is_ended_when_its_target_can_be_reached() {
    let postgres = start(Vec::new());
    let mut fixture = Fixture::on(postgres.options_for(TARGET, TARGET), 1);
    assert_eq!(fixture.slots().await, 1);
    postgres.stop();
    let gone = Session {
        host: None,
        target: "app".into(),
        slot: 1,
        pid: 1,
        backend_start: Time(1),
        postmaster: None,
    };
    let executor = fixture.executor.clone();
    let mut fence = tokio::spawn(async move { executor.end_session(&gone).await });
    assert!(
        timeout(Duration::from_millis(300), &mut fence)
            .await
            .is_err(),
        "nobody knows whether it has ended"
    );
    postgres.restart().expect("started");
    fence.await.expect("it is known");
}

#[tokio::test]
async fn what_a_lost_executor_began_is_ended_and_nobody_else() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let mut before = Fixture::on(options.clone(), 1);
    assert_eq!(before.slots().await, 1);
    let left = before.start(sql("select pg_sleep(60)"));
    before.asleep().await;
    let session = before.notes.recv().await.expect("registered");
    let mut observer = connect(&options).await;
    let after = Fixture::on(options, 1);
    // The pid alone is not enough: this process started at another time.
    let bystander = Session {
        backend_start: Time(session.backend_start.0 + 1),
        ..session.clone()
    };
    after.executor.end_session(&bystander).await;
    assert_eq!(sleeping(&mut observer).await, 1);
    after.executor.end_session(&session).await;
    assert_eq!(sleeping(&mut observer).await, 0);
    assert_eq!(
        failed(before.ended(left).await.report),
        ("57P01".into(), true)
    );
}

async fn sleeping(session: &mut sqlx::PgConnection) -> i64 {
    let query = "select count(*)
        from pg_stat_activity
        where wait_event = 'PgSleep'
          and datname = current_database()";
    sqlx::query_scalar(query)
        .fetch_one(session)
        .await
        .expect("a count")
}

#[tokio::test]
async fn a_task_whose_connection_breaks_is_lost_only_when_its_backend_is_gone() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let network = Network::to(POSTGRES.socket_dir());
    let mut fixture = Fixture::on(options.clone().socket(network.dir.path()), 1);
    assert_eq!(fixture.slots().await, 1);
    let seq = fixture.start(sql("select pg_sleep(60)"));
    fixture.asleep().await;
    network.cut();
    assert_eq!(
        failed(fixture.ended(seq).await.report),
        ("CONNECTION_LOST".into(), true)
    );
    assert_eq!(sleeping(&mut connect(&options).await).await, 0);
    assert_eq!(fixture.value("select 1").await, "1");
}

#[tokio::test]
async fn a_task_that_waits_for_a_session_ends_when_it_is_stopped_or_too_late() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let network = Network::to(POSTGRES.socket_dir());
    let mut fixture = Fixture::on(options.socket(network.dir.path()), 2);
    assert_eq!(fixture.slots().await, 2);
    network.silent.store(true, Ordering::Release);
    let stopped = fixture.start(sql("select 1"));
    let now = fixture.clock.now();
    for timeout in [None, Some(WAIT_TIMEOUT)] {
        let late = fixture.start(Task {
            timeout,
            deadline: Some(now),
            ..sql("select 1")
        });
        let report = fixture.ended(late).await.report;
        assert!(matches!(report, Report::TimedOut(_)), "{report:?}");
    }
    fixture.executor.stop(token(stopped));
    // Nothing was sent of it, so it may start elsewhere even if it must not start twice.
    assert_eq!(fixture.ended(stopped).await.report, Report::NotStarted);
}

#[tokio::test]
async fn an_idle_session_that_does_not_answer_before_its_task_is_too_late_is_forgotten() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let network = Network::to(POSTGRES.socket_dir());
    let mut fixture = Fixture::on(options.socket(network.dir.path()), 1);
    assert_eq!(fixture.slots().await, 1);
    let kept = Task {
        reset: SessionReset::Scheduler,
        ..sql("select 1")
    };
    fixture.result(kept).await;
    // Before it, others may have been given up.
    let mut session = None;
    while let Ok(registered) = fixture.notes.try_recv() {
        session = Some(registered);
    }
    let session = session.expect("registered");
    network.hold.notify_waiters();
    // It is cleaned for another scheduler.
    let late = fixture.start(Task {
        scheduler: 1,
        deadline: Some(fixture.clock.now()),
        ..sql("select 1")
    });
    let report = fixture.ended(late).await.report;
    assert!(matches!(report, Report::TimedOut(_)), "{report:?}");
    let forgotten =
        async { while fixture.forgotten.recv().await.expect("a session") != session {} };
    let forgotten = timeout(WAIT_TIMEOUT, forgotten).await;
    forgotten.expect("it is forgotten");
}

#[tokio::test]
async fn a_refused_login_that_cannot_be_tried_again_takes_no_slots_from_namespaces() {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let folder = tempfile::tempdir_in("/tmp").expect("a directory");
    let socket = folder.path().join(SOCKET);
    symlink(POSTGRES.socket_dir().join(SOCKET), &socket).expect("a link");
    let refused = login(&options.clone().socket(folder.path()));
    let refused = refused.as_user("nobody_at_all".into(), None);
    let mut config = TargetConfig::new("app", refused, 1);
    config.logins = [("a".into(), login(&options))].into();
    // A quarter of this is between two looks.
    config.session_idle = Duration::from_millis(200);
    let mut fixture = Fixture::of(config, options);
    assert_eq!(fixture.slots().await, 1);
    assert_eq!(fixture.run(sql("select 1")).await, Report::NotStarted);
    let why = fixture.executor.targets().remove(0).refused;
    assert!(why.is_some());
    fs::remove_file(socket).expect("removed");
    let tried = async {
        loop {
            let status = fixture.executor.targets().remove(0);
            assert_eq!(status.unavailable, None);
            if status.refused != why {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, tried).await.expect("tried in time");
}

/// Connections between the executor and the server. Only the executor notices a cut, as when a
/// middle box fails.
struct Network {
    dir: TempDir,
    cut: Arc<Notify>,
    /// Nothing passes any more on open connections.
    hold: Arc<Notify>,
    /// Nobody answers on new connections.
    silent: Arc<AtomicBool>,
}

impl Network {
    fn to(server: &Path) -> Self {
        let dir = tempfile::tempdir_in("/tmp").expect("a directory");
        let listener = UnixListener::bind(dir.path().join(SOCKET)).expect("a socket");
        let server = server.join(SOCKET);
        let network = Network {
            dir,
            cut: Arc::default(),
            hold: Arc::default(),
            silent: Arc::default(),
        };
        let (cut, hold) = (Arc::clone(&network.cut), Arc::clone(&network.hold));
        let silent = Arc::clone(&network.silent);
        tokio::spawn(pass(listener, server, cut, hold, silent));
        network
    }

    fn cut(&self) {
        self.cut.notify_waiters();
    }
}

const SOCKET: &str = ".s.PGSQL.5432";

async fn pass(
    listener: UnixListener,
    server: PathBuf,
    cut: Arc<Notify>,
    hold: Arc<Notify>,
    silent: Arc<AtomicBool>,
) {
    let mut unanswered = Vec::new();
    while let Ok((mut near, _)) = listener.accept().await {
        if silent.load(Ordering::Acquire) {
            unanswered.push(near);
            continue;
        }
        let mut far = UnixStream::connect(&server).await.expect("the server");
        let (cut, hold) = (Arc::clone(&cut), Arc::clone(&hold));
        tokio::spawn(async move {
            let broken = tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => false,
                () = cut.notified() => true,
                () = hold.notified() => future::pending().await,
            };
            drop(near);
            if broken {
                future::pending::<()>().await;
            }
        });
    }
}
