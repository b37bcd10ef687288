//! Appends batches: one statement and one round trip each, in autocommit, on a connection of its
//! own.
//!
//! A batch is written as a whole or not at all, only by the owner of the shard, and only once
//! however often it is sent. Nothing here decides what to do when it is not written.

mod attempt;
mod batch;
mod columns;
mod completion;
mod connection;
mod error_bytes;
mod error_class;
mod flat_arrays;
mod insert;
mod job;
mod label;
mod multirange;
mod resource;
mod row_count;
mod scheduler;
mod statements;
mod submission;
mod target_pause;

pub use batch::{Batch, Commit};
pub(super) use error_bytes::take_error;
pub use statements::statements;

use super::{day_partitions::Days, encoding::Date};
use crate::core::{Day, JobRecords, Records, ResourceRecords};
use connection::Connection;
use error_class::unknown;
use row_count::Rows;
use sqlx::{
    Arguments,
    error::BoxDynError,
    postgres::{PgArguments, PgConnectOptions},
};
use statements::Shape;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Interval between checks whether a missing day has been made.
const MISSING_DAY_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The one connection that writes a shard's journal; it connects when needed. Use it from one task
/// only, and never drop an append before it returns.
pub struct Writer {
    connection: Connection,
    rowsets: Rowsets,
    days: Days,
    /// When they were read last, and for which day.
    days_read: Option<(Instant, Day)>,
    /// The latest day whose partition has taken rows; `None`: unknown, others may have written.
    last_day: Option<Day>,
}

/// The rows of a batch by table.
#[derive(Default)]
struct Rowsets {
    submissions: submission::Submissions,
    completions: completion::Completions,
    attempts: attempt::Attempts,
    schedulers: scheduler::Schedulers,
    scheduler_labels: label::SchedulerLabels,
    pauses: target_pause::TargetPauses,
    definitions: resource::Definitions,
    claims: resource::Claims,
    claim_checkpoints: resource::Checkpoints,
    jobs: job::Jobs,
    job_states: job::States,
    job_runs: job::Runs,
    run_claims: job::Claims,
    agents: job::Agents,
}

impl Writer {
    pub(super) fn new(options: &PgConnectOptions, owner: Uuid) -> Self {
        Writer {
            connection: Connection::new(options, owner),
            rowsets: Rowsets::default(),
            days: Days::default(),
            days_read: None,
            last_day: None,
        }
    }

    /// Writes `batch` and returns what became of it.
    pub async fn append(&mut self, batch: &Batch) -> Commit {
        let commit = match self.prepare(batch).await {
            Ok(()) => self.send(batch).await,
            Err(commit) => commit,
        };
        if matches!(commit, Commit::Unknown { .. } | Commit::Fenced) {
            // The next send uses a new connection, which may lead to another server, and reads the
            // days again.
            self.connection.drop();
            self.days_read = None;
        }
        commit
    }

    async fn prepare(&mut self, batch: &Batch) -> Result<(), Commit> {
        let has_predecessor = self.connection.has_predecessor(batch).await;
        if !has_predecessor.map_err(unknown)? {
            return Err(Commit::Fenced);
        }
        self.refresh_days(batch.day).await?;
        self.lower_first_days(batch).await
    }

    /// Checkpoints promise that no row of an earlier day comes later. A clock that was ahead when
    /// they were written, and is right again, would break the promise: before a batch goes to an
    /// earlier day than others did, they are made to promise no more than that day.
    async fn lower_first_days(&mut self, batch: &Batch) -> Result<(), Commit> {
        let day = self.days.partition_of(batch.day);
        if self.last_day.is_none_or(|last| day < last) {
            let query = sqlx::query(
                "-- lower_first_days
                 with g as materialized (
                     select shard
                     from shard
                     where shard = $1 and epoch = $2
                     for no key update
                 )
                 update scheduler r
                 set first_day = $3
                 from g
                 where r.shard = $1 and r.shard = g.shard and r.state <> 3 and r.first_day > $3",
            )
            .bind(batch.shard.0)
            .bind(batch.epoch.0)
            .bind(Date(day));
            let lowered = self.connection.execute(query).await.map_err(unknown)?;
            if lowered > 0 {
                tracing::warn!(
                    schedulers = lowered,
                    ?day,
                    "the clock has gone back by days: checkpoints are set back, too"
                );
            }
        }
        self.last_day = Some(day);
        Ok(())
    }

    /// Reads which days exist, when that could have changed for `day`. That another one was missing
    /// a moment ago says nothing: rows in a partition far before their day would not be found.
    async fn refresh_days(&mut self, day: Day) -> Result<(), Commit> {
        let is_fresh = |(at, missing): (Instant, Day)| {
            self.days.has(day) || missing == day && at.elapsed() < MISSING_DAY_POLL_INTERVAL
        };
        if self.days_read.is_some_and(is_fresh) {
            return Ok(());
        }
        let link = self.connection.link().await.map_err(unknown)?;
        self.days = Days::read(link).await.map_err(unknown)?;
        self.days_read = Some((Instant::now(), day));
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
        let query = sqlx::query_with(shape.statement(), arguments);
        match self.connection.execute(query).await {
            Ok(_) => {
                self.connection.note_written(batch);
                Commit::Durable
            }
            Err(error) => error_class::of(error, batch, &mut self.connection).await,
        }
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
        self.scheduler_labels.clear();
        self.pauses.clear();
        self.definitions.clear();
        self.claims.clear();
        self.claim_checkpoints.clear();
        self.jobs.clear();
        self.job_states.clear();
        self.job_runs.clear();
        self.run_claims.clear();
        self.agents.clear();
        encoded
    }

    fn fill(&mut self, batch: &Batch, days: &Days) -> Result<(Shape, PgArguments), BoxDynError> {
        let records = &batch.records;
        let resources = &records.resources;
        self.submissions.fill(&records.submissions)?;
        self.completions.fill(&records.completions)?;
        let shape = self.shape(records);
        let mut arguments = PgArguments::default();
        arguments.add(batch.shard.0)?;
        arguments.add(batch.epoch.0)?;
        arguments.add(batch.no.0)?;
        arguments.add(Date(days.partition_of(batch.day)))?;
        if shape.submissions != Rows::None {
            self.submissions
                .bind(shape.submissions, shape.retries, &mut arguments)?;
        }
        if shape.completions != Rows::None {
            self.completions
                .bind(shape.completions, shape.retries, &mut arguments)?;
        }
        if shape.attempts {
            self.attempts.fill(&records.attempts);
            self.attempts.bind(Rows::Many, false, &mut arguments)?;
        }
        if shape.schedulers {
            self.schedulers.fill(&records.schedulers, days)?;
            self.schedulers.bind(Rows::Many, false, &mut arguments)?;
            self.scheduler_labels.fill(&records.schedulers);
            self.scheduler_labels
                .bind(Rows::Many, false, &mut arguments)?;
        }
        if shape.labels {
            self.submissions
                .labels
                .bind(Rows::Many, false, &mut arguments)?;
        }
        if shape.pauses {
            self.pauses.fill(&records.pauses);
            self.pauses.bind(Rows::Many, false, &mut arguments)?;
        }
        self.bind_resources(shape, resources, &mut arguments)?;
        if shape.jobs {
            self.bind_jobs(&records.jobs, &mut arguments)?;
        }
        Ok((shape, arguments))
    }

    /// Which tables it has rows for.
    fn shape(&self, records: &Records) -> Shape {
        let resources = &records.resources;
        Shape {
            submissions: self.submissions.rows(),
            completions: self.completions.rows(),
            attempts: !records.attempts.is_empty(),
            schedulers: !records.schedulers.is_empty(),
            labels: !self.submissions.labels.is_empty(),
            pauses: !records.pauses.is_empty(),
            definitions: !resources.definitions.is_empty() || resources.checkpoint.is_some(),
            claims: Rows::of(resources.claims.len()),
            jobs: !records.jobs.is_empty(),
            run_claims: !records.jobs.claims.is_empty(),
            retries: records
                .submissions
                .iter()
                .any(|call| call.submit.retries.is_some())
                || records
                    .completions
                    .iter()
                    .flat_map(|row| &row.done)
                    .any(|done| done.retry_of.is_some()),
        }
    }

    fn bind_resources(
        &mut self,
        shape: Shape,
        records: &ResourceRecords,
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError> {
        if shape.definitions {
            self.definitions.fill(&records.definitions)?;
            self.definitions.bind(Rows::Many, false, arguments)?;
            let checkpoint = records.checkpoint.iter();
            checkpoint.for_each(|one| self.claim_checkpoints.fill(one));
            self.claim_checkpoints.bind(Rows::Many, false, arguments)?;
        }
        if shape.claims != Rows::None {
            self.claims.fill(&records.claims)?;
            self.claims.bind(shape.claims, false, arguments)?;
        }
        Ok(())
    }

    fn bind_jobs(
        &mut self,
        records: &JobRecords,
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError> {
        self.jobs.fill(&records.jobs)?;
        self.jobs.bind(Rows::Many, false, arguments)?;
        self.job_states.fill(&records.states)?;
        self.job_states.bind(Rows::Many, false, arguments)?;
        self.job_runs.fill(&records.runs);
        self.job_runs.bind(Rows::Many, false, arguments)?;
        if !records.claims.is_empty() {
            self.run_claims.fill(&records.claims);
            self.run_claims.bind(Rows::Many, false, arguments)?;
        }
        let agent = records.agent.iter();
        agent.for_each(|agent| self.agents.fill(agent));
        self.agents.bind(Rows::Many, false, arguments)
    }
}
