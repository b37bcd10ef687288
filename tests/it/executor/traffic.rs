//! What travels between the executor and a target: one write a task, and a session that is cleaned
//! when it must be.

use super::fixture::{Fixture, Task, failed, json, login, sql, with_params};
use crate::harness::postgres::{POSTGRES, database};
use rallypoint::{core::SessionReset, executor::SESSION_IDLE, postgres::TARGET};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

const SOCKET: &str = ".s.PGSQL.5432";
const CLEANING: &str = "discard all";
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
const TERMINATE: &str = "X\0\0\0\u{4}";

/// What the executor has written, write by write, but for what connections begin with.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<String>>>);

impl Writes {
    /// Those since the last look, without those of the control connection.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

/// An executor with one slot whose writes are recorded.
async fn recorded() -> (Fixture, Writes, TempDir) {
    let options = POSTGRES.options_for(&database(TARGET), TARGET);
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    let listener = UnixListener::bind(dir.path().join(SOCKET)).expect("a socket");
    let writes = Writes::default();
    tokio::spawn(relay(listener, POSTGRES.socket_dir(), writes.clone()));
    let login = login(&options.clone().socket(dir.path()));
    let mut fixture = Fixture::with(login, options, 1, SESSION_IDLE);
    assert_eq!(fixture.slots().await, 1);
    fixture.result(sql("select 'warm'")).await;
    // The login was tried before, by a connection of its own.
    let is_over = || {
        writes
            .0
            .lock()
            .expect("no panic")
            .iter()
            .any(|one| one == TERMINATE)
    };
    let over = async {
        while !is_over() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, over).await.expect("it is tried");
    writes.take();
    (fixture, writes, dir)
}

async fn relay(listener: UnixListener, server: &Path, writes: Writes) {
    while let Ok((near, _)) = listener.accept().await {
        let far = UnixStream::connect(server.join(SOCKET)).await;
        let (mut answers, mut to) = far.expect("the server").into_split();
        let (mut from, mut back) = near.into_split();
        tokio::spawn(async move { copy(&mut answers, &mut back).await });
        let writes = writes.clone();
        tokio::spawn(async move {
            let mut bytes = vec![0; 1 << 16];
            let mut has_begun = false;
            while let Ok(n @ 1..) = from.read(&mut bytes).await {
                // The control connection begins at any time, and says nothing more.
                if has_begun {
                    let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
                    writes.0.lock().expect("no panic").push(text);
                }
                has_begun = true;
                to.write_all(&bytes[..n]).await.expect("the server reads");
            }
        });
    }
}

fn of(scheduler: u8, text: &str) -> Task {
    Task {
        scheduler,
        reset: SessionReset::Scheduler,
        ..sql(text)
    }
}

#[tokio::test]
async fn text_label_and_cleaning_leave_in_one_write() {
    let (mut fixture, writes, _dir) = recorded().await;
    fixture.result(sql("select 41")).await;
    fixture
        .result(with_params("select $1::int", r#"["42"]"#))
        .await;
    let writes = writes.take();
    assert_eq!(writes.len(), 2, "{writes:?}");
    for (written, (text, seq)) in writes.iter().zip([("select 41", 2), ("select $1::int", 3)]) {
        let label = format!("{text} /*task='{}%2F{seq}'*/", fixture.handle);
        assert!(written.contains(&label), "{written}");
        assert!(written.ends_with(&format!("{CLEANING}\0")), "{written}");
    }
}

#[tokio::test]
async fn a_session_is_cleaned_only_for_another_scheduler_where_that_is_enough() {
    let (mut fixture, writes, _dir) = recorded().await;
    fixture.result(of(1, "set work_mem = '1MB'")).await;
    let same = fixture
        .result(Task {
            rows: 1,
            ..of(1, "show work_mem")
        })
        .await;
    assert_eq!(json(&same), r#"[{"work_mem":"1MB"}]"#);
    let written = writes.take();
    assert!(!written.concat().contains(CLEANING), "{written:?}");
    let other = fixture
        .result(Task {
            rows: 1,
            ..of(2, "show work_mem")
        })
        .await;
    assert_eq!(json(&other), r#"[{"work_mem":"4MB"}]"#);
    let written = writes.take();
    assert_eq!(
        written.len(),
        2,
        "cleaned, and known to be clean: {written:?}"
    );
    assert!(
        written[0].ends_with(&format!("{CLEANING}\0")),
        "{written:?}"
    );
    // Who wants a clean session gets one, also after itself.
    fixture.result(of(2, "set work_mem = '1MB'")).await;
    let task = Task {
        scheduler: 2,
        rows: 1,
        ..sql("show work_mem")
    };
    let clean = fixture.result(task).await;
    assert_eq!(json(&clean), r#"[{"work_mem":"4MB"}]"#);
}

#[tokio::test]
async fn a_transaction_left_open_is_ended_though_the_session_is_not_cleaned() {
    let (mut fixture, _writes, _dir) = recorded().await;
    fixture.result(of(1, "create table t (a int)")).await;
    let report = fixture.run(of(1, "begin; insert into t values (1)")).await;
    assert_eq!(failed(report).0, "TRANSACTION_LEFT_OPEN");
    let report = fixture.run(of(1, "begin; select 1 / 0")).await;
    assert_eq!(failed(report).0, "22012");
    assert_eq!(fixture.value("select count(*) from t").await, "0");
}
