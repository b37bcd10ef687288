//! Reads a task for handlers of RPCs, with everything about it.

use crate::core::{Attempt, AttemptRecord, Done, DoneNo, Handle, Order, RetryOf, Seq, Spec, Time};
use crate::journal::{
    Body, JournalError, Reader,
    rows::{
        attempt::{AttemptRow, attempt_columns},
        submission::{Specs, SubmissionRow, submission_columns},
    },
};
use std::sync::Arc;

/// A task as the journal knows it. Only the core knows whether it runs or waits.
#[derive(Clone, Debug)]
pub struct StoredTask {
    pub seq: Seq,
    /// As requested.
    pub order: Option<Order>,
    /// The order in force.
    pub effective: Option<Order>,
    /// Work and options, with defaults filled in.
    pub spec: Arc<Spec>,
    pub submitted_at: Time,
    /// The task of which it is a copy.
    pub retry_of: Option<RetryOf>,
    /// Its retry, once it has ended and has one.
    pub retried_as: Option<Seq>,
    /// Its AsyncDone event, once it has ended.
    pub done: Option<(DoneNo, Done)>,
    /// Its result has rows, which were not read.
    pub rows_omitted: bool,
    /// Only when a single task is read.
    pub body: Option<Body>,
}

impl Reader {
    /// The order in force for a task; `None`: there is no such task.
    pub async fn effective_order(
        &self,
        handle: Handle,
        seq: Seq,
    ) -> Result<Option<Option<Order>>, JournalError> {
        let row = self.submission_of(handle, seq).await?;
        Ok(row.map(|row| row.effective((seq.0 - row.first_seq) as usize)))
    }

    /// One task with body and outcome.
    pub async fn task(&self, handle: Handle, seq: Seq) -> Result<Option<StoredTask>, JournalError> {
        let Some(row) = self.submission_of(handle, seq).await? else {
            return Ok(None);
        };
        let index = (seq.0 - row.first_seq) as usize;
        let at = row.task_time(index)?;
        let dictionary = row.dictionary(&mut Specs::default())?;
        let mut task = stored(&row, index, at, row.spec(index, &dictionary)?);
        task.body = self.bodies(handle, seq, seq, 1).await?.pop();
        task.done = self.outcomes(handle, &[seq]).await?.remove(&seq);
        self.note_retries(handle, std::slice::from_mut(&mut task))
            .await?;
        Ok(Some(task))
    }

    /// The oldest task that still has a row.
    pub async fn oldest_task(&self, handle: Handle) -> Result<Option<Seq>, JournalError> {
        let oldest: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- oldest_task
                     select min(first_seq)
                     from submission
                     where shard = $1 and handle = $2",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .fetch_one(&self.pool)
            })
            .await?;
        Ok(oldest.map(Seq))
    }

    /// The last task before `before` that has a row.
    pub async fn last_task(
        &self,
        handle: Handle,
        before: Seq,
    ) -> Result<Option<Seq>, JournalError> {
        let last: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- last_task
                     select least(first_seq + count, $3) - 1
                     from submission
                     where shard = $1 and handle = $2 and first_seq < $3
                     order by first_seq desc
                     limit 1",
                )
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(before.0)
                .fetch_optional(&self.pool)
            })
            .await?;
        Ok(last.map(Seq))
    }

    /// The row that holds a task.
    async fn submission_of(
        &self,
        handle: Handle,
        seq: Seq,
    ) -> Result<Option<SubmissionRow>, JournalError> {
        let rows = self
            .submissions(handle, Seq(seq.0.saturating_add(1)), 1)
            .await?;
        Ok(rows
            .into_iter()
            .find(|row| seq.0 >= row.first_seq && seq.0 < row.first_seq + i64::from(row.count)))
    }

    /// Rows that begin before `before`, newest first.
    pub(super) async fn submissions(
        &self,
        handle: Handle,
        before: Seq,
        limit: i64,
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions
                 select ",
                submission_columns!(),
                " from submission s
                 where s.shard = $1 and s.handle = $2 and s.first_seq < $3
                 order by s.first_seq desc
                 limit $4"
            ))
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(before.0)
            .bind(limit)
            .fetch_all(&self.pool)
        })
        .await
    }

    /// What is recorded of the attempts of a task after the attempt `after`, of at most `limit`
    /// attempts, by number.
    pub async fn attempts(
        &self,
        handle: Handle,
        seq: Seq,
        after: Attempt,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, JournalError> {
        // By number, not by time: a later owner's clock may have been behind.
        let rows = self
            .read(|| {
                sqlx::query_as::<_, AttemptRow>(concat!(
                    "-- attempts
                     select ",
                    attempt_columns!(),
                    ", a.started_at, a.slot, a.backend_pid, a.diagnostics
                     from attempt a
                     where a.shard = $1
                         and a.handle = $2
                         and a.seq = $3
                         and a.attempt > $4
                         and a.attempt <= (
                             select max(n.attempt)
                             from (
                                 select distinct n.attempt
                                 from attempt n
                                 where n.shard = $1
                                     and n.handle = $2
                                     and n.seq = $3
                                     and n.attempt > $4
                                 order by n.attempt
                                 limit $5
                             ) n
                         )
                     order by a.attempt, a.kind"
                ))
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(seq.0)
                .bind(after.0)
                .bind(limit as i64)
                .fetch_all(&self.pool)
            })
            .await?;
        rows.into_iter()
            .filter_map(|row| row.record().transpose())
            .collect()
    }
}

/// The task at `index` (from 0) of a row, submitted at `at`.
pub(super) fn stored(row: &SubmissionRow, index: usize, at: Time, spec: &Arc<Spec>) -> StoredTask {
    StoredTask {
        seq: Seq(row.first_seq + index as i64),
        order: row.asked(index),
        effective: row.effective(index),
        spec: spec.clone(),
        submitted_at: at,
        retry_of: row.retry_of(index),
        retried_as: None,
        done: None,
        rows_omitted: false,
        body: None,
    }
}
