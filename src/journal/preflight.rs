//! Checks the server before the journal is trusted to it, and refuses one that could lose a commit
//! or is too old.

use super::{
    JournalError,
    bounded_connection::BoundedConnection,
    connection_limits::Duty,
    error::{is_no_postgres, is_of_tls, is_without_tls},
    rows::from_row,
};
use crate::database_url::{NO_TLS, UNTRUSTED, by_default, place};
use sqlx::{
    Row,
    postgres::{PgConnectOptions, PgSslMode},
};
use std::io;

/// The oldest version that will do: 14 has lz4, multiranges, and bodies of functions that are bound
/// to their tables.
const OLDEST: i32 = 140_000;
/// What to do about a pooler. PgBouncer passes `options` on in no mode: it knows no
/// `statement_timeout`, and drops or refuses what it does not know.
pub(super) const CONNECT_DIRECTLY: &str =
    "connect directly; PgBouncer cannot be used for the coordination database";
/// What it says of them if it does not drop them.
const PGBOUNCER_REFUSES: &str = "unsupported startup parameter";
/// Days besides those of the retention: those made ahead, and those about to be dropped.
const EXTRA_DAYS: u64 = 10;
/// Locks that planning a read takes per day: a table and its indexes.
const LOCKS_PER_DAY: u64 = 8;

/// What the error of the first connection says. A server that is too old does not know a setting
/// with which sessions begin, and refuses them before it could be asked for its version.
pub(super) fn of_first_connection(error: sqlx::Error, options: &PgConnectOptions) -> JournalError {
    let default = by_default(matches!(options.get_ssl_mode(), PgSslMode::VerifyFull));
    match error.as_database_error() {
        Some(said) if said.code().as_deref() == Some("42704") => JournalError::Unsafe(format!(
            "it says {:?}: use PostgreSQL 14 or later",
            said.message()
        )),
        Some(said) if said.message().starts_with(PGBOUNCER_REFUSES) => {
            JournalError::Unsafe(format!("it says {:?}: {CONNECT_DIRECTLY}", said.message()))
        }
        _ if is_without_tls(&error) => JournalError::Unsafe(format!("{NO_TLS}{default}")),
        _ if is_of_tls(&error) => JournalError::Unsafe(format!("{error}: {UNTRUSTED}{default}")),
        _ if is_no_postgres(&error) => JournalError::NoPostgres(place(options)),
        _ => at_its_place(error, options).into(),
    }
}

/// The error with the place that does not answer, which the driver does not say.
fn at_its_place(error: sqlx::Error, options: &PgConnectOptions) -> sqlx::Error {
    match error {
        sqlx::Error::Io(broken) => {
            let text = format!("{}: {broken}", place(options));
            sqlx::Error::Io(io::Error::new(broken.kind(), text))
        }
        other => other,
    }
}

/// Refuses a pooler that lends a session to others between two statements: prepared statements,
/// settings and locks would be somebody else's. Two connections then meet on one session, or one of
/// them changes its own; in turns of uneven length, so that a pooler which takes turns does not fit
/// in with them.
pub(super) async fn refuse_shared_sessions(
    one: &mut BoundedConnection,
    other: &mut BoundedConnection,
) -> Result<(), JournalError> {
    let (first, second) = (session_of(one).await?, session_of(other).await?);
    let mut same = first == second;
    same |= session_of(one).await? != first;
    same |= session_of(one).await? != first;
    same |= session_of(other).await? != second;
    if same {
        return Err(JournalError::Unsafe(format!(
            "a pooler between lends its sessions by the transaction: {CONNECT_DIRECTLY}"
        )));
    }
    Ok(())
}

/// Refuses a pooler that begins sessions without what they are asked for: a commit could then be
/// lost, and a statement never end. It is seen by the timeout that this duty asks for.
pub(super) async fn refuse_dropped_options(
    link: &mut BoundedConnection,
    duty: Duty,
) -> Result<(), JournalError> {
    let shown_ms: i64 = sqlx::query_scalar(
        "-- timeout_in_force
         select setting::int8
         from pg_settings
         where name = 'statement_timeout'",
    )
    .fetch_one(link)
    .await?;
    let asked_ms = duty.statement_timeout().as_millis() as i64;
    if shown_ms != asked_ms {
        return Err(JournalError::Unsafe(format!(
            "a pooler between drops the connection option `options` (statement_timeout is \
             {shown_ms} ms, and {asked_ms} ms was asked for): {CONNECT_DIRECTLY}"
        )));
    }
    Ok(())
}

/// The process that answers. Not prepared, so that any pooler passes it.
async fn session_of(link: &mut BoundedConnection) -> Result<i32, JournalError> {
    let row = sqlx::raw_sql("select pg_backend_pid()")
        .fetch_one(link)
        .await?;
    Ok(row.try_get(0)?)
}

/// What a server must promise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preflight {
    /// Accept settings that lose commits when the server crashes; for tests.
    pub allow_unsafe: bool,
    pub retention_days: u32,
    /// Connections that may read at the same time.
    pub readers: u32,
}

impl Preflight {
    /// Refuses a server that could lose or mangle what it acknowledged, or lacks what the schema
    /// needs.
    pub(super) async fn run(self, connection: &mut BoundedConnection) -> Result<(), JournalError> {
        let server: Server = sqlx::query_as(
            "-- server_settings
             select current_setting('server_version_num')::int4 as version_num,
                 current_setting('server_version') as version,
                 current_setting('fsync') as fsync,
                 current_setting('full_page_writes') as full_page_writes,
                 current_setting('server_encoding') as encoding,
                 current_setting('transaction_read_only') as read_only,
                 exists (
                     select
                     from pg_settings
                     where name = 'default_toast_compression' and enumvals @> array['lz4']
                 ) as lz4",
        )
        .fetch_one(&mut *connection)
        .await?;
        match server.problem(self.allow_unsafe) {
            Some(problem) => Err(JournalError::Unsafe(problem)),
            None if server.read_only != "off" => Err(JournalError::ReadOnly),
            None => self.count_locks(connection).await,
        }
    }

    /// Warns when the retained days take more locks than the server has: every read locks all of
    /// them, and many at once would fail.
    async fn count_locks(self, connection: &mut BoundedConnection) -> Result<(), JournalError> {
        let (per_transaction, transactions): (i64, i64) = sqlx::query_as(
            "-- lock_settings
             select current_setting('max_locks_per_transaction')::int8,
                 current_setting('max_connections')::int8
                     + current_setting('max_prepared_transactions')::int8",
        )
        .fetch_one(connection)
        .await?;
        let (needed, transactions) = (self.locks(), transactions.max(1) as u64);
        if needed > per_transaction as u64 * transactions {
            let (days, wanted) = (self.retention_days, needed.div_ceil(transactions));
            tracing::warn!(
                retention_days = days,
                max_locks_per_transaction = per_transaction,
                wanted,
                "the coordination database has too few locks for the retention: \
                 raise its max_locks_per_transaction"
            );
        }
        Ok(())
    }

    /// Locks that all readers may hold at once, doubled for other connections of this service and
    /// for people.
    fn locks(self) -> u64 {
        (u64::from(self.retention_days) + EXTRA_DAYS) * LOCKS_PER_DAY * 2 * u64::from(self.readers)
    }
}

/// What a server says of itself.
#[derive(Clone, Debug)]
struct Server {
    version_num: i32,
    version: String,
    fsync: String,
    full_page_writes: String,
    encoding: String,
    read_only: String,
    lz4: bool,
}

from_row!(Server {
    version_num,
    version,
    fsync,
    full_page_writes,
    encoding,
    read_only,
    lz4,
});

impl Server {
    /// Why it must not have the journal; a server that loses commits may, when that is allowed.
    fn problem(&self, allow_unsafe: bool) -> Option<String> {
        let lossy = !allow_unsafe;
        Some(match self {
            _ if self.version_num < OLDEST => format!(
                "it is PostgreSQL {}, which lacks what the schema needs: use 14 or later",
                self.version
            ),
            _ if !self.lz4 => {
                "it was built without lz4, which the schema needs: use one with it".to_owned()
            }
            _ if lossy && self.fsync != "on" => {
                "fsync is off: a crash of the server would lose the journal".to_owned()
            }
            _ if lossy && self.full_page_writes != "on" => {
                "full_page_writes is off: a crash of the server could tear its pages".to_owned()
            }
            _ if self.encoding != "UTF8" => "its encoding is not UTF8: create the database anew, `encoding 'UTF8' template template0`".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_could_lose_or_mangle_the_journal_is_refused() {
        let good = Server {
            version_num: 140_000,
            version: "14.0".to_owned(),
            fsync: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            encoding: "UTF8".to_owned(),
            read_only: "off".to_owned(),
            lz4: true,
        };
        assert_eq!(good.problem(false), None);
        let with = |change: fn(&mut Server)| {
            let mut server = good.clone();
            change(&mut server);
            server
        };
        let bad = [
            (
                with(|s| (s.version_num, s.version) = (130_021, "13.21".into())),
                "PostgreSQL 13.21",
                false,
            ),
            (with(|s| s.lz4 = false), "lz4", false),
            (with(|s| s.fsync = "off".into()), "fsync", true),
            (
                with(|s| s.full_page_writes = "off".into()),
                "full_page_writes",
                true,
            ),
            (with(|s| s.encoding = "SQL_ASCII".into()), "UTF8", false),
        ];
        for (server, word, may_be_allowed) in bad {
            let problem = server.problem(false);
            assert!(
                problem.is_some_and(|problem| problem.contains(word)),
                "{word}"
            );
            assert_eq!(server.problem(true).is_none(), may_be_allowed, "{word}");
        }
    }

    #[test]
    fn a_month_fits_the_locks_of_an_ordinary_server_and_a_year_does_not() {
        let ordinary = 64 * 100;
        let check = |retention_days| Preflight {
            retention_days,
            readers: 8,
            ..Preflight::default()
        };
        assert!(check(30).locks() <= ordinary);
        assert!(check(365).locks() > ordinary);
    }
}
