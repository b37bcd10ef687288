//! Lists of jobs and of their runs, without what a list does not show. A row that cannot be read is
//! left out.

use super::jobs::whole;
use crate::core::{JobImage, JobNo, JobState, Namespace, RunImage, RunKey, Submit, Time};
use crate::journal::{
    JournalError, Reader,
    encoding::Stamp,
    rows::job::{JobRow, RunRow, job_state_columns, run_columns, task_outlines},
};
use std::{collections::HashMap, sync::Arc};

/// Some rows of a list, as far as they can be read.
#[derive(Debug)]
pub struct Page<T, K> {
    /// What can be read.
    pub items: Vec<T>,
    /// The last row of the page; `None`: there are no more.
    pub next: Option<K>,
}

/// The newest row that a schedule or a backfill names, or the run itself.
pub(super) const RUN_OF: &str = concat!(
    "-- run_of
     select ",
    run_columns!(),
    " from job_run r
     where r.shard = $1
         and r.job_no = $2
         and r.due_at <= $3
         and (r.due_at = $3 or r.cause in (1, 4))
     order by r.due_at desc
     limit 1",
);

impl Reader {
    /// Jobs of a namespace by name, those after `after`, at most so many. Of their tasks only those
    /// of claimed jobs are read, which say the target, and no texts.
    pub async fn jobs(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: usize,
    ) -> Result<Page<(JobImage, JobState), String>, JournalError> {
        let mut rows: Vec<JobRow> = self
            .read(|| {
                sqlx::query_as(concat!(
                    "-- jobs
                     select j.job_no, j.namespace, j.name, j.version, j.settings,
                         ''::bytea as steps, ''::bytea as bodies, ''::bytea as params,
                         j.created_at, j.changed_at, j.changed_by, j.deleted, ",
                    job_state_columns!(),
                    " from job j
                     left join job_state s on s.shard = j.shard and s.job_no = j.job_no
                     where j.shard = $1 and j.namespace = $2 and j.name > $3 and not j.deleted
                     order by j.name
                     limit $4",
                ))
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(after.as_bytes())
                .bind(limit as i64 + 1)
                .fetch_all(&self.pool)
            })
            .await?;
        let next = cut(&mut rows, limit).map(JobRow::name);
        let outlines = rows.into_iter().map(JobRow::outline).filter_map(whole);
        let mut items: Vec<(JobImage, JobState)> = outlines.collect();
        let claimed = items.iter().filter(|(job, _)| job.settings.claimed);
        let mut tasks = self
            .task_outlines(claimed.map(|(job, _)| job.no.0).collect())
            .await?;
        // Without them nobody knows what is claimed, so such a job is left out.
        items.retain_mut(|(job, _)| match tasks.remove(&job.no) {
            Some(steps) => {
                job.steps = Arc::new(steps);
                true
            }
            None => !job.settings.claimed,
        });
        Ok(Page { items, next })
    }

    async fn task_outlines(&self, jobs: Vec<i64>) -> Result<HashMap<JobNo, Submit>, JournalError> {
        if jobs.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(i64, Vec<u8>)> = self
            .read(|| {
                sqlx::query_as(
                    "-- task_outlines
                     select j.job_no, j.steps
                     from job j
                     where j.shard = $1 and j.job_no = any($2)",
                )
                .bind(self.shard.0)
                .bind(&jobs)
                .fetch_all(&self.pool)
            })
            .await?;
        let read = |(no, steps): (i64, Vec<u8>)| Some((JobNo(no), whole(task_outlines(&steps))?));
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// The number of the job of this name; `None`: there is none.
    pub async fn job_no(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<JobNo>, JournalError> {
        let no: Option<i64> = self
            .read(|| {
                sqlx::query_scalar(
                    "-- job_no
                     select j.job_no
                     from job j
                     where j.shard = $1 and j.namespace = $2 and j.name = $3 and not j.deleted",
                )
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(name.as_bytes())
                .fetch_optional(&self.pool)
            })
            .await?;
        Ok(no.map(JobNo))
    }

    /// A page of the runs of a job, newest first, those due before `before`.
    pub async fn run_page(
        &self,
        job: JobNo,
        before: Time,
        limit: usize,
    ) -> Result<Page<RunImage, Time>, JournalError> {
        let mut rows = self.run_rows(job, before, limit as i64 + 1).await?;
        let next = cut(&mut rows, limit).map(RunRow::due);
        Ok(Page {
            items: rows
                .into_iter()
                .map(RunRow::run)
                .filter_map(whole)
                .collect(),
            next,
        })
    }

    /// The row that says what became of a due time: its own, or that of a range. Ranges do not
    /// overlap, but runs that no schedule names may lie in one.
    pub async fn run_of(&self, run: RunKey) -> Result<Option<RunImage>, JournalError> {
        let row: Option<RunRow> = self
            .read(|| {
                sqlx::query_as(RUN_OF)
                    .bind(self.shard.0)
                    .bind(run.job.0)
                    .bind(Stamp(run.due))
                    .fetch_optional(&self.pool)
            })
            .await?;
        let read = row.map(RunRow::run).transpose()?;
        Ok(read.filter(|row| row.key.due == run.due || row.last.is_some_and(|l| run.due <= l)))
    }
}

/// Leaves so many rows; the last one of them if there were more.
fn cut<T>(rows: &mut Vec<T>, limit: usize) -> Option<&T> {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    rows.last().filter(|_| has_more)
}
