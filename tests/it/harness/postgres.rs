//! One private Postgres for all tests of this program, and databases of their own on it.

use rallypoint::postgres::{Options, PrivatePostgres};
use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

/// Shared by tests that do not stop it. Never dropped: it ends with this process and is swept by the next one.
pub(crate) static POSTGRES: LazyLock<PrivatePostgres> = LazyLock::new(|| start(Vec::new()));

/// A server of its own, for a test that stops it.
pub(crate) fn start(settings: Vec<(String, String)>) -> PrivatePostgres {
    PrivatePostgres::start(Options {
        durable: false,
        settings,
        ..Options::default()
    })
    .expect("a private Postgres")
}

/// A new empty database of `owner` on the shared server; its name.
pub(crate) fn database(owner: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    POSTGRES.create_database(&name, owner).expect("a database");
    name
}

/// A session.
pub(crate) async fn connect(options: &PgConnectOptions) -> PgConnection {
    PgConnection::connect_with(options)
        .await
        .expect("a session")
}

/// The one value a query returns, as text.
pub(crate) async fn value(connection: &mut PgConnection, query: &'static str) -> String {
    let text: Option<String> = sqlx::query_scalar(query)
        .fetch_one(connection)
        .await
        .expect(query);
    text.unwrap_or_default()
}
