//! What an error means for a batch.
//!
//! A batch is one statement in autocommit, so an error that the server tells means that this send
//! has written nothing; without its word, what became of the batch is unknown. Some errors follow
//! from the rows and come again however often they are sent; others from the state of the server,
//! and nothing in the batch is to blame.

use super::{
    batch::{Batch, Commit},
    connection::Connection,
};
use crate::journal::{JournalError, error::connection_lost};

/// What an error of its statement means for the batch.
pub(super) async fn of(error: JournalError, batch: &Batch, connection: &mut Connection) -> Commit {
    let refusal = match &error {
        JournalError::Database(error) if !connection_lost(error) => error.as_database_error(),
        _ => None,
    };
    let Some(refusal) = refusal else {
        return unknown(error);
    };
    let sqlstate = refusal.code().unwrap_or_default().into_owned();
    let message = refusal.message().to_owned();
    let verdict = Verdict::of(&sqlstate, refusal.constraint().is_some());
    if sqlstate == "23505"
        && let Some(commit) = of_duplicate(batch, connection).await
    {
        return commit;
    }
    match verdict {
        Verdict::State => unknown(error),
        Verdict::Rows => Commit::Rejected { sqlstate, message },
        Verdict::Size | Verdict::Unclear => Commit::RolledBack {
            sqlstate,
            message,
            blames: verdict == Verdict::Unclear,
        },
    }
}

/// What Postgres complains of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Values of the rows: it will never accept them.
    Rows,
    /// The state of the server, of its schema or of the connection: it may pass.
    State,
    /// How much the statement does, or how busy the server is.
    Size,
    /// Anything.
    Unclear,
}

impl Verdict {
    fn of(sqlstate: &str, constraint: bool) -> Verdict {
        match (sqlstate, sqlstate.get(..2).unwrap_or_default()) {
            // A missing partition is not the fault of the row: maintenance will make it.
            ("23514", _) if !constraint => Verdict::State,
            // Memory is exhausted, the statement takes too long.
            ("53200" | "57014", _) => Verdict::Size,
            (_, "21" | "22" | "23" | "54") => Verdict::Rows,
            (
                _,
                "08" | "25" | "26" | "28" | "3D" | "3F" | "40" | "42" | "53" | "55" | "57" | "58"
                | "72" | "F0",
            ) => Verdict::State,
            _ => Verdict::Unclear,
        }
    }
}

/// After a duplicate key: whether an earlier send of this batch wrote it and nobody has taken the
/// shard over since, or another owner has. `None`: neither, the duplicate is in its rows.
async fn of_duplicate(batch: &Batch, connection: &mut Connection) -> Option<Commit> {
    let query = sqlx::query_scalar::<_, i64>(
        "-- epoch_since_batch
         select epoch
         from batch
         where shard = $1 and batch_no >= $2
         order by batch_no desc
         limit 1",
    )
    .bind(batch.shard.0)
    .bind(batch.no.0);
    let link = match connection.link().await {
        Ok(link) => link,
        Err(error) => return Some(unknown(error)),
    };
    match query.fetch_optional(link).await {
        Ok(None) => None,
        Ok(Some(epoch)) if epoch == batch.epoch.0 => {
            // It is seen, which after a restart of the server does not mean that a synchronous
            // standby has it: a commit behind it waits for that.
            let behind_it = sqlx::query(
                "-- commit_behind
                 select pg_logical_emit_message(true, 'rallypoint', '')",
            );
            if let Err(error) = connection.execute(behind_it).await {
                return Some(unknown(error));
            }
            tracing::info!(
                batch = batch.no.0,
                "an earlier send of the batch had committed"
            );
            connection.note_durable();
            Some(Commit::Durable)
        }
        Ok(Some(_)) => Some(Commit::Fenced),
        Err(error) => Some(unknown(error)),
    }
}

/// What became of the batch is not known.
pub(super) fn unknown(what: impl ToString) -> Commit {
    Commit::Unknown {
        message: what.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_blamed_for_their_values_and_never_for_the_state_of_the_server() {
        for (sqlstate, constraint, verdict) in [
            ("22021", false, Verdict::Rows),
            ("23514", true, Verdict::Rows),
            ("23514", false, Verdict::State),
            ("53100", false, Verdict::State),
            ("53200", false, Verdict::Size),
            ("42P01", false, Verdict::State),
            ("57P01", false, Verdict::State),
            ("XX000", false, Verdict::Unclear),
            ("P0001", false, Verdict::Unclear),
        ] {
            assert_eq!(Verdict::of(sqlstate, constraint), verdict, "{sqlstate}");
        }
    }
}
