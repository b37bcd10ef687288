//! The private Postgres of the tests: one that they share, with new databases on it, and servers of
//! their own for those that stop, crash or configure one.

use super::process::{PROGRAM, free_address};
use rallypoint::postgres::{Options, PrivatePostgres, SUPERUSER};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Shared by tests that do not stop it. It is never dropped: it ends with this process, and the
/// next one removes its directory.
pub(crate) static POSTGRES: LazyLock<PrivatePostgres> = LazyLock::new(|| start(Vec::new()));

/// Starts a server for one test, faster than a durable one.
pub(crate) fn start(settings: Vec<(String, String)>) -> PrivatePostgres {
    PrivatePostgres::start(Options {
        durable: false,
        settings,
        ..Options::default()
    })
    .expect("a private Postgres")
}

/// Starts a server for one test that keeps what it has acknowledged, also through a crash.
pub(crate) fn durable(settings: Vec<(String, String)>) -> PrivatePostgres {
    PrivatePostgres::start(Options {
        settings,
        ..Options::default()
    })
    .expect("a private Postgres")
}

/// Starts a server for one test that listens on a port of its own besides its socket.
pub(crate) fn on_port() -> (PrivatePostgres, u16) {
    let port = free_address().port();
    let settings = [
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("port", port.to_string()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    (start(settings.to_vec()), port)
}

/// Makes an empty database of `owner` on the shared server and returns its name.
pub(crate) fn database(owner: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    POSTGRES.create_database(&name, owner).expect("a database");
    name
}

pub(crate) async fn connect(options: &PgConnectOptions) -> PgConnection {
    PgConnection::connect_with(options)
        .await
        .expect("a session")
}

/// The one value that a query returns, as text.
pub(crate) async fn value(connection: &mut PgConnection, query: &'static str) -> String {
    let text: Option<String> = sqlx::query_scalar(query)
        .fetch_one(connection)
        .await
        .expect(query);
    text.unwrap_or_default()
}

/// Makes a database ready for EXACTLY_ONCE tasks of these logins, as an operator does.
pub(crate) fn prepare_target(postgres: &PrivatePostgres, database: &str, logins: &[&str]) {
    let url = postgres.url_for(database, SUPERUSER);
    let mut command = Command::new(PROGRAM);
    command.args(["prepare-target", "--url", &url]);
    for login in logins {
        command.args(["--login", login]);
    }
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
}
