//! Checks the server before the journal is trusted to it, and refuses one that could lose a commit.

use super::{JournalError, bounded_connection::BoundedConnection};
use sqlx::Row;

/// Days besides those of the retention: those made ahead, and those about to be dropped.
const EXTRA_DAYS: u64 = 10;
/// Locks that planning a read takes per day: a table and its indexes.
const LOCKS_PER_DAY: u64 = 8;

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
        return Err(JournalError::Unsafe(
            "a pooler between lends its sessions by the transaction: connect directly, or through \
             one in session mode that passes `options` on"
                .to_owned(),
        ));
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
    /// Refuses a server that could lose or mangle what it acknowledged.
    pub(super) async fn run(self, connection: &mut BoundedConnection) -> Result<(), JournalError> {
        let settings: (String, String, String, String) = sqlx::query_as(
            "-- server_settings
             select current_setting('fsync'), current_setting('full_page_writes'),
                 current_setting('server_encoding'), current_setting('transaction_read_only')",
        )
        .fetch_one(&mut *connection)
        .await?;
        let (fsync, full_page_writes, encoding, read_only) = settings;
        let refuse = |what: &str| Err(JournalError::Unsafe(what.to_owned()));
        match () {
            _ if fsync != "on" && !self.allow_unsafe => {
                refuse("fsync is off: a crash of the server would lose the journal")
            }
            _ if full_page_writes != "on" && !self.allow_unsafe => {
                refuse("full_page_writes is off: a crash of the server could tear its pages")
            }
            _ if encoding != "UTF8" => refuse("its encoding is not UTF8"),
            _ if read_only != "off" => refuse("it is read-only (a standby?)"),
            _ => self.count_locks(connection).await,
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

#[cfg(test)]
mod tests {
    use super::*;

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
