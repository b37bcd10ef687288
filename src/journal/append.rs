//! Appends batches: one statement and one round trip each, in autocommit, on a connection of its
//! own.
//!
//! A batch is written as a whole or not at all, only by the owner of the shard, and only once
//! however often it is sent. Nothing here decides what to do when it is not written.

mod attempt;
mod columns;
mod completion;
mod error_bytes;
mod insert;
mod ragged;
mod rows;
mod scheduler;
mod shape;
mod submission;

pub(super) use error_bytes::take_error;
pub use shape::statements;

use super::{days::Days, duty::Duty, encoding::Date, error::connection_lost};
use crate::core::{BatchNo, Day, Epoch, Records, ShardId};
use rows::Rows;
use shape::Shape;
use sqlx::{
    Arguments, Connection, Executor, PgConnection,
    error::BoxDynError,
    postgres::{PgArguments, PgConnectOptions},
};
use std::time::{Duration, Instant};

/// How long the writer waits for an answer before the result of a batch is unknown. Longer than the
/// server's own `statement_timeout`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between checks whether a missing day has been made.
const MISSING_DAY_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Records that are written together or not at all.
#[derive(Debug)]
pub struct Batch {
    pub shard: ShardId,
    /// The ownership it was decided under.
    pub epoch: Epoch,
    /// Previous batch number + 1.
    pub no: BatchNo,
    /// The day it was decided on: the partition of its rows, if there is one.
    pub day: Day,
    pub records: Records,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is in the journal, through this send or an earlier one.
    Durable,
    /// Another replica owns the shard, or the database has lost commits: step down and recover.
    Fenced,
    /// Postgres will never accept it; nothing is written.
    Rejected {
        /// Empty when the batch could not even be sent.
        sqlstate: String,
        message: String,
    },
    /// Perhaps written, perhaps not: send it again under the same number.
    Unknown { message: String },
}

/// The one connection that writes a shard's journal; it connects when needed. Use it from one task
/// only, and never drop an append before it returns.
pub struct Writer {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    rowsets: Rowsets,
    days: Days,
    days_read: Option<Instant>,
}

/// The rows of a batch by table.
#[derive(Default)]
struct Rowsets {
    submissions: submission::Submissions,
    completions: completion::Completions,
    attempts: attempt::Attempts,
    schedulers: scheduler::Schedulers,
}

impl Writer {
    pub(super) fn new(options: &PgConnectOptions) -> Self {
        Writer {
            options: Duty::Writer.options(options),
            connection: None,
            rowsets: Rowsets::default(),
            days: Days::default(),
            days_read: None,
        }
    }

    /// Writes `batch` and returns what became of it.
    pub async fn append(&mut self, batch: &Batch) -> Commit {
        let commit = match self.refresh_days(batch.day).await {
            Ok(()) => self.send(batch).await,
            Err(commit) => commit,
        };
        if matches!(commit, Commit::Unknown { .. }) {
            // The next send uses a new connection and reads the days again.
            self.connection = None;
            self.days_read = None;
        }
        commit
    }

    /// Reads which days exist, when that could have changed for `day`.
    async fn refresh_days(&mut self, day: Day) -> Result<(), Commit> {
        if self.days.has(day) && self.days_read.is_some()
            || self
                .days_read
                .is_some_and(|at| at.elapsed() < MISSING_DAY_POLL_INTERVAL)
        {
            return Ok(());
        }
        let connection = self.connected().await?;
        self.days = match tokio::time::timeout(ANSWER_TIMEOUT, Days::read(connection)).await {
            Ok(Ok(days)) => days,
            Ok(Err(error)) => return Err(unknown(error)),
            Err(_) => return Err(unknown("no answer in time")),
        };
        self.days_read = Some(Instant::now());
        if !self.days.has(day) {
            let used = self.days.partition_of(day);
            tracing::warn!(wanted = ?day, ?used, "the journal has no partition for today");
        }
        Ok(())
    }

    async fn send(&mut self, batch: &Batch) -> Commit {
        let (shape, arguments) = match self.rowsets.encode(batch, &self.days) {
            Ok(encoded) => encoded,
            Err(error) => {
                return Commit::Rejected {
                    sqlstate: String::new(),
                    message: error.to_string(),
                };
            }
        };
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(commit) => return commit,
        };
        let query = sqlx::query_with(shape.statement(), arguments);
        match tokio::time::timeout(ANSWER_TIMEOUT, connection.execute(query)).await {
            Ok(Ok(done)) if done.rows_affected() == 1 => Commit::Durable,
            Ok(Ok(_)) => Commit::Fenced,
            Ok(Err(error)) => commit_of(error, batch, connection).await,
            Err(_) => unknown("no answer in time"),
        }
    }

    async fn connected(&mut self) -> Result<&mut PgConnection, Commit> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => match tokio::time::timeout(
                CONNECT_TIMEOUT,
                PgConnection::connect_with(&self.options),
            )
            .await
            {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) => return Err(unknown(error)),
                Err(_) => return Err(unknown("no connection in time")),
            },
        };
        Ok(self.connection.insert(connection))
    }
}

impl Rowsets {
    fn encode(&mut self, batch: &Batch, days: &Days) -> Result<(Shape, PgArguments), BoxDynError> {
        let encoded = self.fill(batch, days);
        // Clearing also frees the bodies.
        self.submissions.clear();
        self.completions.clear();
        self.attempts.clear();
        self.schedulers.clear();
        encoded
    }

    fn fill(&mut self, batch: &Batch, days: &Days) -> Result<(Shape, PgArguments), BoxDynError> {
        let records = &batch.records;
        self.submissions.fill(&records.submissions)?;
        self.completions.fill(&records.completions);
        let shape = Shape {
            submissions: self.submissions.rows(),
            completions: self.completions.rows(),
            attempts: !records.attempts.is_empty(),
            schedulers: !records.schedulers.is_empty(),
        };
        let mut arguments = PgArguments::default();
        arguments.add(batch.shard.0)?;
        arguments.add(batch.epoch.0)?;
        arguments.add(batch.no.0)?;
        arguments.add(Date(days.partition_of(batch.day)))?;
        if shape.submissions != Rows::None {
            self.submissions.bind(shape.submissions, &mut arguments)?;
        }
        if shape.completions != Rows::None {
            self.completions.bind(shape.completions, &mut arguments)?;
        }
        if shape.attempts {
            self.attempts.fill(&records.attempts);
            self.attempts.bind(Rows::Many, &mut arguments)?;
        }
        if shape.schedulers {
            self.schedulers.fill(&records.schedulers, days)?;
            self.schedulers.bind(Rows::Many, &mut arguments)?;
        }
        Ok((shape, arguments))
    }
}

fn unknown(what: impl ToString) -> Commit {
    Commit::Unknown {
        message: what.to_string(),
    }
}

/// What an error means for the batch. Only errors that the statement itself can cause are final.
async fn commit_of(error: sqlx::Error, batch: &Batch, connection: &mut PgConnection) -> Commit {
    let Some(db) = error.as_database_error() else {
        return unknown(error);
    };
    let sqlstate = db.code().unwrap_or_default().into_owned();
    let refused = Commit::Rejected {
        sqlstate: sqlstate.clone(),
        message: db.message().to_owned(),
    };
    if connection_lost(&error) {
        return unknown(error);
    }
    match sqlstate.get(..2) {
        // A missing partition is not the fault of the row: maintenance will make it.
        _ if sqlstate == "23514" && db.constraint().is_none() => unknown(error),
        _ if sqlstate == "23505" => commit_of_duplicate(batch, connection)
            .await
            .unwrap_or(refused),
        Some("21" | "22" | "23" | "54") => refused,
        _ => unknown(error),
    }
}

/// After a duplicate key: whether an earlier send of this batch, or another owner, wrote a batch of
/// this number. `None`: neither, the duplicate is in its rows.
async fn commit_of_duplicate(batch: &Batch, connection: &mut PgConnection) -> Option<Commit> {
    let query = sqlx::query_scalar::<_, i64>(
        "-- epoch_of_batch
         select epoch
         from batch
         where shard = $1 and batch_no = $2",
    )
    .bind(batch.shard.0)
    .bind(batch.no.0);
    match tokio::time::timeout(ANSWER_TIMEOUT, query.fetch_optional(connection)).await {
        Ok(Ok(Some(epoch))) if epoch == batch.epoch.0 => {
            tracing::info!(
                batch = batch.no.0,
                "an earlier send of the batch had committed"
            );
            Some(Commit::Durable)
        }
        Ok(Ok(Some(_))) => Some(Commit::Fenced),
        Ok(Ok(None)) => None,
        Ok(Err(error)) => Some(unknown(error)),
        Err(_) => Some(unknown("no answer in time")),
    }
}
