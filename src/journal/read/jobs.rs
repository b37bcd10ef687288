//! Reads jobs, their runs, and whether the agent fires.

use crate::core::{
    AgentImage, JobImage, JobNo, JobState, Namespace, RecoveredJobs, RunImage, ShardId, Time,
};
use crate::journal::{
    JournalError, Reader,
    bounded_connection::BoundedConnection,
    encoding::Stamp,
    rows::job::{AgentRow, JobRow, RunRow},
};

/// What a new owner needs: all jobs, runs that are not over, and those of late that were asked for.
pub(super) async fn jobs(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<RecoveredJobs, JournalError> {
    let jobs: Vec<JobRow> = sqlx::query_as(
        "-- recover_jobs
         select j.job_no, j.namespace, j.name, j.version, j.settings, j.steps, j.bodies, j.params,
             j.created_at, j.changed_at, j.changed_by, j.deleted,
             s.next_due, s.time_zones, s.last_unscheduled, s.failures, s.paused
         from job j
         left join job_state s on s.shard = j.shard and s.job_no = j.job_no
         where j.shard = $1 and not j.deleted",
    )
    .bind(shard.0)
    .fetch_all(&mut *connection)
    .await?;
    let runs: Vec<RunRow> = sqlx::query_as(
        "-- recover_job_runs
         select r.job_no, r.due_at, r.last_due_at, r.due_count, r.cause, r.state, r.reason,
             r.detail, r.by, r.request_id, r.from_order, r.closes_at, r.catches_up, r.attempt,
             r.handle, r.started_at, r.ended_at, r.next_attempt_at, r.failed, r.cancelled
         from job_run r
         where r.shard = $1 and r.state <= 3
         union all
         select r.job_no, r.due_at, r.last_due_at, r.due_count, r.cause, r.state, r.reason,
             r.detail, r.by, r.request_id, r.from_order, r.closes_at, r.catches_up, r.attempt,
             r.handle, r.started_at, r.ended_at, r.next_attempt_at, r.failed, r.cancelled
         from job_run r
         where r.shard = $1
             and r.request_id is not null
             and r.due_at > now() - interval '1 hour'
             and r.state > 3",
    )
    .bind(shard.0)
    .fetch_all(&mut *connection)
    .await?;
    let (last, agent) = last_and_agent(connection, shard).await?;
    Ok(RecoveredJobs {
        shard,
        jobs: jobs
            .into_iter()
            .map(JobRow::job)
            .filter_map(whole)
            .collect(),
        runs: runs
            .into_iter()
            .map(RunRow::run)
            .filter_map(whole)
            .collect(),
        agent,
        last,
    })
}

/// The last job so far, and the agent.
async fn last_and_agent(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<(JobNo, AgentImage), JournalError> {
    let last: Option<i64> = sqlx::query_scalar(
        "-- recover_last_job
         select max(j.job_no)
         from job j
         where j.shard = $1",
    )
    .bind(shard.0)
    .fetch_one(&mut *connection)
    .await?;
    let agent: Option<AgentRow> = sqlx::query_as(
        "-- recover_agent
         select a.stopped, a.changed_at, a.stopped_at, a.changed_by, a.reason
         from job_agent a
         where a.shard = $1",
    )
    .bind(shard.0)
    .fetch_optional(connection)
    .await?;
    let agent = agent.map_or_else(AgentImage::default, |row| row.agent());
    Ok((JobNo(last.unwrap_or(0)), agent))
}

/// What can be read. A row that makes no sense keeps nothing else from being recovered.
fn whole<T>(read: Result<T, JournalError>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "a row about jobs is set aside"))
        .ok()
}

impl Reader {
    /// Jobs of a namespace by name, those after `after`, at most so many.
    pub async fn jobs(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: i64,
    ) -> Result<Vec<(JobImage, JobState)>, JournalError> {
        let rows: Vec<JobRow> = sqlx::query_as(
            "-- jobs
             select j.job_no, j.namespace, j.name, j.version, j.settings, j.steps, j.bodies,
                 j.params, j.created_at, j.changed_at, j.changed_by, j.deleted,
                 s.next_due, s.time_zones, s.last_unscheduled, s.failures, s.paused
             from job j
             left join job_state s on s.shard = j.shard and s.job_no = j.job_no
             where j.shard = $1 and j.namespace = $2 and j.name > $3 and not j.deleted
             order by j.name
             limit $4",
        )
        .bind(self.shard.0)
        .bind(namespace.0.as_bytes())
        .bind(after.as_bytes())
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter().map(JobRow::job).collect()
    }

    /// The job of this name; `None`: there is none.
    pub async fn job(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<(JobImage, JobState)>, JournalError> {
        let row: Option<JobRow> = sqlx::query_as(
            "-- job
             select j.job_no, j.namespace, j.name, j.version, j.settings, j.steps, j.bodies,
                 j.params, j.created_at, j.changed_at, j.changed_by, j.deleted,
                 s.next_due, s.time_zones, s.last_unscheduled, s.failures, s.paused
             from job j
             left join job_state s on s.shard = j.shard and s.job_no = j.job_no
             where j.shard = $1 and j.namespace = $2 and j.name = $3 and not j.deleted",
        )
        .bind(self.shard.0)
        .bind(namespace.0.as_bytes())
        .bind(name.as_bytes())
        .fetch_optional(&self.pool)
        .await?;
        row.map(JobRow::job).transpose()
    }

    /// Runs of a job, newest first, those due before `before`, at most so many.
    pub async fn job_runs(
        &self,
        job: JobNo,
        before: Time,
        limit: i64,
    ) -> Result<Vec<RunImage>, JournalError> {
        let rows: Vec<RunRow> = sqlx::query_as(
            "-- job_runs
             select r.job_no, r.due_at, r.last_due_at, r.due_count, r.cause, r.state, r.reason,
                 r.detail, r.by, r.request_id, r.from_order, r.closes_at, r.catches_up, r.attempt,
                 r.handle, r.started_at, r.ended_at, r.next_attempt_at, r.failed, r.cancelled
             from job_run r
             where r.shard = $1 and r.job_no = $2 and r.due_at < $3
             order by r.due_at desc
             limit $4",
        )
        .bind(self.shard.0)
        .bind(job.0)
        .bind(Stamp(before))
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter().map(RunRow::run).collect()
    }
}
