//! Reads tasks for handlers of RPCs: one with everything about it, or a page of them, newest first.

use crate::core::{AttemptRecord, Done, DoneNo, Handle, Order, RetryOf, Seq, Spec, Time};
use crate::journal::{
    Body, JournalError, Reader,
    rows::{
        attempt::{AttemptRow, attempt_columns},
        submission::{Specs, SubmissionRow, submission_columns},
    },
};
use std::sync::Arc;

/// Rows searched for one page.
const MAX_ROWS: i64 = 1_000;
/// Rows of the first read: few, because a row may hold thousands of tasks.
const FIRST_ROWS: i64 = 4;
/// Rows of a later read.
const MAX_ROWS_AT_ONCE: i64 = 256;
/// Attempts read of one task.
const MAX_ATTEMPTS: i64 = 1_000;

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
    /// Only when a single task is read.
    pub body: Option<Body>,
    /// By time; only when a single task is read.
    pub attempts: Vec<AttemptRecord>,
}

/// A page of tasks, newest first.
#[derive(Clone, Debug, Default)]
pub struct TaskPage {
    /// Perhaps none, although there are more pages.
    pub tasks: Vec<StoredTask>,
    /// `before` of the next page; `None`: this is the last one.
    pub next: Option<Seq>,
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

    /// One task with body, outcome and attempts.
    pub async fn task(&self, handle: Handle, seq: Seq) -> Result<Option<StoredTask>, JournalError> {
        let Some(row) = self.submission_of(handle, seq).await? else {
            return Ok(None);
        };
        let mut task = stored(&row, seq, &mut Specs::default())?;
        task.body = self.bodies(handle, seq, seq, 1).await?.pop();
        task.done = self.outcomes(handle, &[seq]).await?.remove(&seq);
        task.attempts = self.attempts(handle, seq).await?;
        self.note_retries(handle, std::slice::from_mut(&mut task))
            .await?;
        Ok(Some(task))
    }

    /// At most `limit` tasks before `before` (`None`: from the newest), of one effective order or
    /// of all, newest first.
    pub async fn tasks(
        &self,
        handle: Handle,
        before: Option<Seq>,
        order: Option<Order>,
        limit: usize,
    ) -> Result<TaskPage, JournalError> {
        let mut before = before.unwrap_or(Seq(i64::MAX));
        let mut specs = Specs::default();
        let mut page = TaskPage::default();
        let (mut searched, mut step) = (0, FIRST_ROWS);
        while searched < MAX_ROWS {
            let rows = match order {
                None => self.submissions(handle, before, step).await?,
                Some(order) => {
                    self.submissions_of_order(handle, before, order, step)
                        .await?
                }
            };
            for row in &rows {
                let last = (row.first_seq + i64::from(row.count)).min(before.0) - 1;
                for seq in (row.first_seq..=last).rev() {
                    if page.tasks.len() == limit {
                        page.next = Some(Seq(seq + 1));
                        return self.with_outcomes(handle, page).await;
                    }
                    if order.is_none() || row.effective((seq - row.first_seq) as usize) == order {
                        page.tasks.push(stored(row, Seq(seq), &mut specs)?);
                    }
                }
            }
            page.next = rows
                .last()
                .filter(|row| row.first_seq > 1)
                .map(|row| Seq(row.first_seq));
            if rows.len() < step as usize {
                page.next = None;
                break;
            }
            before = page.next.unwrap_or_default();
            searched += step;
            step = (step * 4).min(MAX_ROWS_AT_ONCE);
        }
        self.with_outcomes(handle, page).await
    }

    /// These tasks, which must be given newest first; those whose rows are gone are left out.
    pub async fn tasks_of(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<StoredTask>, JournalError> {
        let rows = self.submissions_of(handle, seqs).await?;
        let mut specs = Specs::default();
        let mut page = TaskPage::default();
        for seq in seqs {
            let at = rows.partition_point(|row| row.first_seq <= seq.0);
            let row = at.checked_sub(1).map(|at| &rows[at]);
            if let Some(row) = row.filter(|row| seq.0 < row.first_seq + i64::from(row.count)) {
                page.tasks.push(stored(row, *seq, &mut specs)?);
            }
        }
        Ok(self.with_outcomes(handle, page).await?.tasks)
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

    async fn with_outcomes(
        &self,
        handle: Handle,
        mut page: TaskPage,
    ) -> Result<TaskPage, JournalError> {
        let seqs: Vec<Seq> = page.tasks.iter().map(|task| task.seq).collect();
        let mut outcomes = self.outcomes(handle, &seqs).await?;
        for task in &mut page.tasks {
            task.done = outcomes.remove(&task.seq);
        }
        self.note_retries(handle, &mut page.tasks).await?;
        Ok(page)
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
    async fn submissions(
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

    /// Rows that begin before `before` and have tasks of `order`, newest first.
    async fn submissions_of_order(
        &self,
        handle: Handle,
        before: Seq,
        order: Order,
        limit: i64,
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions_of_order
                 select s.*
                 from (
                     (
                         select ",
                submission_columns!(),
                " from submission s
                         where s.shard = $1
                             and s.handle = $2
                             and s.first_seq < $3
                             and s.lowest_order = $5
                             and s.lowest_order = s.highest_order
                         order by s.first_seq desc
                         limit $4
                     )
                     union all
                     (
                         select ",
                submission_columns!(),
                " from submission s
                         where s.shard = $1
                             and s.handle = $2
                             and s.first_seq < $3
                             and s.lowest_order < s.highest_order
                             and s.lowest_order <= $5
                             and s.highest_order >= $5
                             and $5 = any (coalesce(s.effective_order, s.asked_order))
                         order by s.first_seq desc
                         limit $4
                     )
                 ) s
                 order by s.first_seq desc
                 limit $4"
            ))
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(before.0)
            .bind(limit)
            .bind(order.0)
            .fetch_all(&self.pool)
        })
        .await
    }

    /// The rows that hold these tasks, oldest first.
    async fn submissions_of(
        &self,
        handle: Handle,
        seqs: &[Seq],
    ) -> Result<Vec<SubmissionRow>, JournalError> {
        let seqs: Vec<i64> = seqs.iter().map(|seq| seq.0).collect();
        self.read(|| {
            sqlx::query_as::<_, SubmissionRow>(concat!(
                "-- submissions_of
                 with rows as materialized (
                     select distinct (
                         select max(b.first_seq)
                         from submission b
                         where b.shard = $1 and b.handle = $2 and b.first_seq <= w.seq
                     ) as first_seq
                     from unnest($3::int8[]) as w (seq)
                 )
                 select s.*
                 from rows
                 cross join lateral (
                     select ",
                submission_columns!(),
                " from submission s
                     where s.shard = $1 and s.handle = $2 and s.first_seq = rows.first_seq
                     offset 0
                 ) s
                 order by s.first_seq"
            ))
            .bind(self.shard.0)
            .bind(handle.uuid())
            .bind(&seqs)
            .fetch_all(&self.pool)
        })
        .await
    }

    async fn attempts(&self, handle: Handle, seq: Seq) -> Result<Vec<AttemptRecord>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as::<_, AttemptRow>(concat!(
                    "-- attempts
                     select ",
                    attempt_columns!(),
                    " from attempt a
                     where a.shard = $1 and a.handle = $2 and a.seq = $3
                     order by a.attempt desc, a.kind desc
                     limit $4"
                ))
                .bind(self.shard.0)
                .bind(handle.uuid())
                .bind(seq.0)
                .bind(MAX_ATTEMPTS)
                .fetch_all(&self.pool)
            })
            .await?;
        // By number, not by time: a later owner's clock may have been behind.
        rows.into_iter()
            .rev()
            .filter_map(|row| row.record().transpose())
            .collect()
    }
}

fn stored(row: &SubmissionRow, seq: Seq, specs: &mut Specs) -> Result<StoredTask, JournalError> {
    let index = (seq.0 - row.first_seq) as usize;
    Ok(StoredTask {
        seq,
        order: row.asked(index),
        effective: row.effective(index),
        spec: row.task_spec(index, specs)?,
        submitted_at: row.task_time(index)?,
        retry_of: row.retry_of(index),
        retried_as: None,
        done: None,
        body: None,
        attempts: Vec::new(),
    })
}
