//! Deletes what is past its retention of recurring jobs: runs, claims of runs, and the rows of
//! deleted jobs.

use super::{Maintenance, calendar::Calendar, expired_rows::SLICE_ROWS};
use crate::journal::JournalError;

/// Rows of jobs deleted by one statement: each may have a MiB of tasks.
const SLICE_JOBS: u32 = 100;

impl Maintenance {
    /// Deletes due times of jobs whose fate was known before the retention began. Returns how many.
    /// Backfilled ones from before their job stay as long as that: only their rows say that they
    /// have had a run.
    pub async fn drop_old_job_runs(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        self.drop_in_slices(calendar, SLICE_ROWS, || {
            sqlx::query(
                "-- drop_old_job_runs
                     with old as materialized (
                         select r.job_no, r.due_at
                         from job_run r
                         where r.shard = $1
                             and r.state > 3
                             and r.ended_at < $2
                             and not (
                                 r.cause = 4
                                 and exists (
                                     select from job j
                                     where j.shard = r.shard
                                         and j.job_no = r.job_no
                                         and j.created_at > r.due_at
                                         and not j.deleted
                                 )
                             )
                         limit $3
                     )
                     delete from job_run r
                     using old
                     where r.shard = $1 and r.job_no = old.job_no and r.due_at = old.due_at",
            )
        })
        .await
    }

    /// Deletes claims of runs that ended before the retention began. Returns how many.
    pub async fn drop_old_run_claims(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        self.drop_in_slices(calendar, SLICE_ROWS, || {
            sqlx::query(
                "-- drop_old_run_claims
                     with old as materialized (
                         select c.job_no, c.due_at, c.token
                         from job_claim c
                         where c.shard = $1 and c.ended_at < $2
                         limit $3
                     )
                     delete from job_claim c
                     using old
                     where c.shard = $1 and c.job_no = old.job_no and c.due_at = old.due_at
                         and c.token = old.token",
            )
        })
        .await
    }

    /// Deletes the rows of jobs that were deleted before the retention began, once those of their
    /// runs and claims are gone. Returns how many. The job with the highest number stays, and that
    /// with the highest token of a claim: a recovery goes on counting from them.
    pub async fn drop_deleted_jobs(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        self.drop_in_slices(calendar, SLICE_JOBS, || {
            sqlx::query(
                "-- drop_deleted_jobs
                     with old as materialized (
                         select j.job_no
                         from job j
                         where j.shard = $1
                             and j.deleted
                             and j.changed_at < $2
                             and j.job_no < (
                                 select max(n.job_no)
                                 from job n
                                 where n.shard = $1
                             )
                             and j.job_no not in (
                                 select s.job_no
                                 from job_state s
                                 where s.shard = $1 and s.last_token > 0
                                 order by s.last_token desc
                                 limit 1
                             )
                             and not exists (
                                 select
                                 from job_run r
                                 where r.shard = $1 and r.job_no = j.job_no
                                 offset 0
                             )
                             and not exists (
                                 select
                                 from job_claim c
                                 where c.shard = $1 and c.job_no = j.job_no
                                 offset 0
                             )
                         limit $3
                     ),
                     states as (
                         delete from job_state s
                         using old
                         where s.shard = $1 and s.job_no = old.job_no
                     )
                     delete from job j
                     using old
                     where j.shard = $1 and j.job_no = old.job_no",
            )
        })
        .await
    }
}
