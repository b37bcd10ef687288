//! Looks at the server before the journal is trusted to it.

use super::JournalError;
use sqlx::PgConnection;

/// What a server must promise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Accept settings that lose commits in a crash of the server. For tests.
    pub allow_unsafe: bool,
}

impl Check {
    /// Refuses a server that could lose or mangle what it acknowledged.
    pub async fn run(self, connection: &mut PgConnection) -> Result<(), JournalError> {
        let (fsync, full_page_writes, encoding, read_only): (String, String, String, String) = sqlx::query_as(
            "-- server_settings
             select current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_encoding'),
                 current_setting('transaction_read_only')",
        )
        .fetch_one(connection)
        .await?;
        let refuse = |what: &str| Err(JournalError::Unsafe(what.to_owned()));
        match () {
            _ if fsync != "on" && !self.allow_unsafe => refuse("fsync is off: a crash of the server would lose the journal"),
            _ if full_page_writes != "on" && !self.allow_unsafe => {
                refuse("full_page_writes is off: a crash of the server could tear its pages")
            }
            _ if encoding != "UTF8" => refuse("its encoding is not UTF8"),
            _ if read_only != "off" => refuse("it is read-only (a standby?)"),
            _ => Ok(()),
        }
    }
}
