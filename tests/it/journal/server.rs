//! A Postgres server for the tests: `TEST_DATABASE_URL`, else a private one that ends with the test process.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, postgres::PgConnectOptions};
use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
    time::Duration,
};
use uuid::Uuid;

const BIN: &str = "/usr/lib/postgresql/15/bin";

/// The shell that owns the server: it stops it when its input ends, which is when this process does.
static SERVER: LazyLock<(PgConnectOptions, Option<Child>)> =
    LazyLock::new(|| match std::env::var("TEST_DATABASE_URL") {
        Ok(url) => (url.parse().expect("TEST_DATABASE_URL"), None),
        Err(_) => {
            let (options, child) = start();
            (options, Some(child))
        }
    });

/// A new, empty database.
pub(super) async fn database() -> PgConnectOptions {
    let server = SERVER.0.clone();
    let name = format!("t_{}", Uuid::now_v7().simple());
    let mut connection = connect(&server).await;
    connection
        .execute(AssertSqlSafe(format!("create database {name}")))
        .await
        .expect("create database");
    server.database(&name)
}

async fn connect(server: &PgConnectOptions) -> PgConnection {
    for _ in 0..100 {
        if let Ok(connection) = PgConnection::connect_with(server).await {
            return connection;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    PgConnection::connect_with(server)
        .await
        .expect("the server is up")
}

fn start() -> (PgConnectOptions, Child) {
    let base = PathBuf::from(format!("/var/tmp/rallypoint-test-{}", std::process::id()));
    fs::create_dir_all(&base).expect("base directory");
    let account = account();
    if let Some((uid, gid)) = account {
        chown(&base, Some(uid), Some(gid)).expect("chown");
    }
    let mut initdb = as_account(&format!("{BIN}/initdb"), account, &base);
    let status = initdb
        .args([
            "-D",
            "data",
            "-U",
            "app",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ])
        .status();
    assert!(status.expect("initdb").success());
    let script = format!(
        "{BIN}/postgres -D data -k {dir} -c listen_addresses= -c fsync=off -c full_page_writes=off & server=$!
         cat; kill -INT $server; wait $server; rm -rf {dir}",
        dir = base.display()
    );
    let child = as_account("/bin/sh", account, &base)
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh");
    (
        PgConnectOptions::new_without_pgpass()
            .socket(&base)
            .username("app")
            .database("postgres"),
        child,
    )
}

fn as_account(program: &str, account: Option<(u32, u32)>, base: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(base)
        .env_clear()
        .env("TZ", "UTC")
        .env("LC_ALL", "C")
        .env("PATH", "/usr/bin:/bin");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some((uid, gid)) = account {
        command.uid(uid).gid(gid);
    }
    // not stopped by a Ctrl-C meant for the tests, so that it can clean up
    command.process_group(0);
    command
}

/// Postgres does not run as root: then it is the `postgres` account.
fn account() -> Option<(u32, u32)> {
    let user = nix::unistd::User::from_name("postgres").ok().flatten()?;
    nix::unistd::geteuid()
        .is_root()
        .then(|| (user.uid.as_raw(), user.gid.as_raw()))
}
