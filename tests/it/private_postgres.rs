//! The private Postgres: closed to other roles, intact after a crash, gone when its owner is gone.

use crate::harness::postgres::{POSTGRES, connect, database, start, value};
use rallypoint::postgres::{COORDINATION, Options, PrivatePostgres, SUPERUSER, TARGET};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{
    env,
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

#[tokio::test]
async fn both_urls_lead_to_their_databases_as_ordinary_roles() {
    for (url, name) in [
        (POSTGRES.coordination_url(), COORDINATION),
        (POSTGRES.target_url(), TARGET),
    ] {
        let mut session = connect(&url.parse().expect("a url of sqlx")).await;
        assert_eq!(
            value(&mut session, "select current_database()::text").await,
            name
        );
        assert_eq!(value(&mut session, "select current_user::text").await, name);
        assert_eq!(
            value(
                &mut session,
                "select rolsuper::text from pg_roles where rolname = current_user"
            )
            .await,
            "false"
        );
        assert_eq!(value(&mut session, "show listen_addresses").await, "");
        sqlx::raw_sql("create table mine (a int); drop table mine")
            .execute(&mut session)
            .await
            .expect("may create tables");
    }
}

#[tokio::test]
async fn no_role_reaches_the_database_of_the_other() {
    for (database, role) in [
        (COORDINATION, TARGET),
        (TARGET, COORDINATION),
        ("postgres", TARGET),
        ("template1", TARGET),
    ] {
        let refused = PgConnection::connect_with(&POSTGRES.options_for(database, role)).await;
        let error = refused.expect_err("refused").to_string();
        assert!(error.contains("permission denied for database"), "{error}");
    }
}

#[tokio::test]
async fn a_test_gets_a_database_of_its_own() {
    let (first, second) = (database(COORDINATION), database(TARGET));
    assert_ne!(first, second);
    let mut session = connect(&POSTGRES.options_for(&first, COORDINATION)).await;
    assert_eq!(
        value(
            &mut session,
            "select count(*)::text from pg_class where relnamespace = 'public'::regnamespace"
        )
        .await,
        "0"
    );
    assert!(
        PgConnection::connect_with(&POSTGRES.options_for(&first, TARGET))
            .await
            .is_err()
    );
    POSTGRES
        .drop_database(&first)
        .expect("dropped, sessions or not");
    assert!(
        POSTGRES
            .create_database("x; drop role app", TARGET)
            .is_err()
    );
}

#[tokio::test]
async fn what_was_committed_survives_a_crash_and_a_new_owner() {
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    let options = Options {
        data_dir: Some(dir.path().join("pg")),
        ..Options::default()
    };
    let postgres = PrivatePostgres::start(options.clone()).expect("started");
    let mut session = connect(&postgres.options_for(TARGET, TARGET)).await;
    sqlx::raw_sql("create table survivor as select 1 as a")
        .execute(&mut session)
        .await
        .expect("committed");
    postgres.immediate_stop();
    assert_eq!(postgres.pid(), None);
    postgres.restart().expect("started again");
    assert_eq!(survivors(&postgres.options_for(TARGET, TARGET)).await, "1");

    let error = PrivatePostgres::start(options.clone())
        .expect_err("one owner at a time")
        .to_string();
    assert!(error.contains("is in use by another Rallypoint"), "{error}");
    drop(postgres);
    let postgres = PrivatePostgres::start(options).expect("free again");
    assert_eq!(survivors(&postgres.options_for(TARGET, TARGET)).await, "1");
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    fs::write(dir.path().join("theirs"), "precious").expect("a file");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("open to all");
    let options = Options {
        data_dir: Some(dir.path().to_owned()),
        ..Options::default()
    };
    let refused = PrivatePostgres::start(options).expect_err("refused");
    let refused = format!("{refused:#}");
    assert!(
        refused.contains("is not empty") && refused.contains("theirs"),
        "{refused}"
    );
    let mode = fs::metadata(dir.path()).expect("still there").mode();
    assert_eq!(mode & 0o777, 0o755);
    let left = fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 1, "nothing was added");
}

async fn survivors(options: &PgConnectOptions) -> String {
    let mut session = connect(options).await;
    value(&mut session, "select sum(a)::text from survivor").await
}

#[tokio::test]
async fn a_long_data_path_is_no_obstacle() {
    let dir = tempfile::tempdir_in("/tmp").expect("a directory");
    let options = Options {
        data_dir: Some(dir.path().join("deep".repeat(30))),
        ..Options::default()
    };
    let postgres = PrivatePostgres::start(options).expect("started");
    let session = connect(&postgres.options_for(TARGET, TARGET)).await;
    session.close().await.expect("closed");
}

#[test]
fn a_temporary_server_leaves_nothing_behind() {
    let postgres = start(vec![(
        "shared_preload_libraries".into(),
        "pg_stat_statements".into(),
    )]);
    let (dir, pid) = (
        postgres.socket_dir().to_owned(),
        postgres.pid().expect("it runs"),
    );
    drop(postgres);
    assert!(!dir.exists() && !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let options = Options {
        settings: vec![("no_such_setting".into(), "1".into())],
        ..Options::default()
    };
    let error = PrivatePostgres::start(options)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}

/// The process that the next test kills; it does nothing in an ordinary run.
#[test]
fn victim() {
    if env::var_os("RALLYPOINT_TEST_VICTIM").is_some() {
        let postgres = start(Vec::new());
        println!(
            "\n{} {}",
            postgres.pid().expect("it runs"),
            postgres.socket_dir().display()
        );
        thread::sleep(Duration::from_secs(60));
    }
}

#[tokio::test]
async fn the_server_dies_with_its_owner_and_the_next_one_sweeps_its_directory() {
    let mut victim = Command::new(env::current_exe().expect("this program"))
        .args([
            "--exact",
            "private_postgres::victim",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("RALLYPOINT_TEST_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a victim");
    let lines = BufReader::new(victim.stdout.take().expect("its output"))
        .lines()
        .map_while(Result::ok);
    let (pid, dir) = lines.filter_map(pid_and_dir).next().expect("its server");
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    let end = Instant::now() + Duration::from_secs(60);
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < end, "the server outlives its owner");
        thread::sleep(Duration::from_millis(10));
    }
    drop(start(Vec::new()));
    assert!(!dir.exists());
}

fn pid_and_dir(line: String) -> Option<(u32, PathBuf)> {
    let (pid, dir) = line.split_once(' ')?;
    Some((pid.parse().ok()?, dir.into()))
}

#[tokio::test]
async fn errors_of_tasks_do_not_put_their_text_into_the_log() {
    let postgres = start(Vec::new());
    let mut session = connect(&postgres.options_for(TARGET, SUPERUSER)).await;
    sqlx::raw_sql("select 'a secret' from nowhere")
        .execute(&mut session)
        .await
        .expect_err("no such table");
    let log = std::fs::read_to_string(postgres.socket_dir().join("postgres.log")).expect("a log");
    assert!(
        log.contains("ready to accept connections")
            && !log.contains("secret")
            && !log.contains("nowhere")
    );
}
