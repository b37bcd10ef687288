//! Reads jobs, their runs, and whether the agent fires.

use crate::core::{
    AgentImage, Epoch, JobImage, JobKey, JobNo, JobState, Namespace, RecoveredJobs, RunClaim,
    RunImage, RunKey, RunToken, ShardId, Time, schedule::RuleText,
};
use crate::journal::{
    JournalError, Reader,
    bounded_connection::BoundedConnection,
    encoding::Stamp,
    rows::job::{
        AgentRow, JobRow, RunClaimRow, RunRow, job_columns, run_claim_columns, run_columns,
    },
};
use std::collections::{BTreeSet, HashMap};

/// What a new owner needs: all jobs, deleted ones of which a run goes on among them, runs that are
/// not over, and those that were asked for since then, by calls that may be repeated.
pub(super) async fn jobs(
    connection: &mut BoundedConnection,
    shard: ShardId,
    since: Time,
) -> Result<RecoveredJobs, JournalError> {
    let jobs = job_rows(connection, shard).await?;
    let runs: Vec<RunRow> = sqlx::query_as(concat!(
        "-- recover_job_runs
         select ",
        run_columns!(),
        " from job_run r
         where r.shard = $1 and r.state <= 3
         union all
         select ",
        run_columns!(),
        " from job_run r
         where r.shard = $1
             and r.request_id is not null
             and r.due_at >= $2
             and r.state > 3
         order by due_at",
    ))
    .bind(shard.0)
    .bind(Stamp(since))
    .fetch_all(&mut *connection)
    .await?;
    let claims = open_claims(connection, shard).await?;
    let (last, last_token) = last_numbers(connection, shard).await?;
    let agent = agent(connection, shard).await?;
    let (runs, torn) = read_runs(runs);
    let (mut readable, unreadable) = read_jobs(jobs, &torn);
    note_last_due(connection, shard, &mut readable).await?;
    Ok(RecoveredJobs {
        shard,
        // Whoever takes them over says so.
        owner: Epoch(0),
        // What is read of schedulers says so.
        set_aside: Vec::new(),
        claims,
        last_token,
        jobs: readable,
        unreadable,
        runs,
        agent,
        last,
    })
}

/// The runs that can be read, and the jobs of those that cannot and may go on.
fn read_runs(rows: Vec<RunRow>) -> (Vec<RunImage>, BTreeSet<JobNo>) {
    let (mut runs, mut torn) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let job = row.may_go_on().then(|| row.job());
        match whole(row.run()) {
            Some(run) => runs.push(run),
            None => torn.extend(job),
        }
    }
    (runs, torn)
}

/// The jobs that can be read, and the names of the others. A job is read with its runs or not at
/// all: nothing of it may start beside a run that is not known.
fn read_jobs(
    rows: Vec<JobRow>,
    torn: &BTreeSet<JobNo>,
) -> (Vec<(JobImage, JobState)>, Vec<JobKey>) {
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        // Of a deleted job nothing starts in any case.
        let key = (!row.deleted).then(|| row.key());
        if let Some(key) = &key
            && torn.contains(&JobNo(row.job_no))
        {
            tracing::error!(
                namespace = &*key.namespace.0,
                job = &*key.name,
                "this job is set aside: the row of a run that may go on makes no sense to this \
                 version; run the version that wrote it, or restore it from a backup"
            );
            unreadable.push(key.clone());
            continue;
        }
        match whole(row.job()) {
            Some(job) => readable.push(job),
            None => unreadable.extend(key),
        }
    }
    (readable, unreadable)
}

/// Jobs that are there, and deleted ones of which a run goes on.
async fn job_rows(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<Vec<JobRow>, JournalError> {
    let rows = sqlx::query_as(concat!(
        "-- recover_jobs
         select ",
        job_columns!(),
        " from job j
         left join job_state s on s.shard = j.shard and s.job_no = j.job_no
         where j.shard = $1
             and (
                 not j.deleted
                 or exists (
                     select
                     from job_run r
                     where r.shard = $1 and r.job_no = j.job_no and r.state <= 3
                 )
             )",
    ))
    .bind(shard.0)
    .fetch_all(connection)
    .await?;
    Ok(rows)
}

/// Rows of due times say, too, which was the last one of a job: an owner of a version from before
/// that was noted leaves what is noted as it was. Runs that were asked for since stand before it;
/// of a job that has had a thousand of them it stays unknown, so that a recovery takes no longer.
/// Only what is due once in a period is looked for: of other jobs the last one says nothing but
/// what a clock that was set back would repeat, and they may be many.
async fn note_last_due(
    connection: &mut BoundedConnection,
    shard: ShardId,
    jobs: &mut [(JobImage, JobState)],
) -> Result<(), JournalError> {
    let is_once_per = |job: &&JobImage| {
        let rule = &job.settings.schedule.rule;
        matches!(rule, RuleText::OncePer { .. })
    };
    let once_per = jobs.iter().map(|(job, _)| job).filter(is_once_per);
    let once_per: Vec<i64> = once_per.map(|job| job.no.0).collect();
    if once_per.is_empty() {
        return Ok(());
    }
    // Those that a schedule may name are whole seconds.
    let rows: Vec<(i64, Stamp)> = sqlx::query_as(
        "-- recover_last_due
         select j.job_no, d.due
         from unnest($2::int8[]) j (job_no)
         cross join lateral (
             select coalesce(n.last_due_at, n.due_at) as due
             from (
                 select r.due_at, r.last_due_at, r.cause
                 from job_run r
                 where r.shard = $1 and r.job_no = j.job_no
                 order by r.due_at desc
                 limit 1000
             ) n
             where n.cause in (1, 4) and n.due_at = date_trunc('second', n.due_at)
             order by n.due_at desc
             limit 1
         ) d",
    )
    .bind(shard.0)
    .bind(&once_per)
    .fetch_all(connection)
    .await?;
    let last = rows.into_iter().map(|(no, due)| (JobNo(no), due.0));
    let last: HashMap<JobNo, Time> = last.collect();
    for (job, state) in jobs {
        state.last_due = state.last_due.max(last.get(&job.no).copied());
    }
    Ok(())
}

/// Claims of runs that have not ended.
async fn open_claims(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<Vec<RunClaim>, JournalError> {
    let rows: Vec<RunClaimRow> = sqlx::query_as(concat!(
        "-- recover_run_claims
         select ",
        run_claim_columns!(),
        " from job_claim c
         where c.shard = $1 and c.ended_at is null",
    ))
    .bind(shard.0)
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(RunClaimRow::claim)
        .filter_map(whole)
        .collect())
}

/// The last job so far, and the token of the last claim of a run.
async fn last_numbers(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<(JobNo, RunToken), JournalError> {
    let last: Option<i64> = sqlx::query_scalar(
        "-- recover_last_job
         select max(j.job_no)
         from job j
         where j.shard = $1",
    )
    .bind(shard.0)
    .fetch_one(&mut *connection)
    .await?;
    let token: Option<i64> = sqlx::query_scalar(
        "-- recover_last_run_token
         select max(s.last_token)
         from job_state s
         where s.shard = $1",
    )
    .bind(shard.0)
    .fetch_one(connection)
    .await?;
    Ok((JobNo(last.unwrap_or(0)), RunToken(token.unwrap_or(0))))
}

async fn agent(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<AgentImage, JournalError> {
    let agent: Option<AgentRow> = sqlx::query_as(
        "-- recover_agent
         select a.stopped, a.changed_at, a.stopped_at, a.changed_by, a.reason
         from job_agent a
         where a.shard = $1",
    )
    .bind(shard.0)
    .fetch_optional(connection)
    .await?;
    Ok(agent.map_or_else(AgentImage::default, |row| row.agent()))
}

/// What can be read. A row that makes no sense keeps nothing else from being read.
pub(super) fn whole<T>(read: Result<T, JournalError>) -> Option<T> {
    read.inspect_err(|error| tracing::error!(%error, "a row about jobs is set aside"))
        .ok()
}

impl Reader {
    /// The job of this name; `None`: there is none.
    pub async fn job(
        &self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<Option<(JobImage, JobState)>, JournalError> {
        let row: Option<JobRow> = self
            .read(|| {
                sqlx::query_as(concat!(
                    "-- job
                     select ",
                    job_columns!(),
                    " from job j
                     left join job_state s on s.shard = j.shard and s.job_no = j.job_no
                     where j.shard = $1 and j.namespace = $2 and j.name = $3 and not j.deleted",
                ))
                .bind(self.shard.0)
                .bind(namespace.0.as_bytes())
                .bind(name.as_bytes())
                .fetch_optional(&self.pool)
            })
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
        let rows = self.run_rows(job, before, limit).await?;
        rows.into_iter().map(RunRow::run).collect()
    }

    pub(super) async fn run_rows(
        &self,
        job: JobNo,
        before: Time,
        limit: i64,
    ) -> Result<Vec<RunRow>, JournalError> {
        let rows = self
            .read(|| {
                sqlx::query_as(concat!(
                    "-- job_runs
                     select ",
                    run_columns!(),
                    " from job_run r
                     where r.shard = $1 and r.job_no = $2 and r.due_at < $3
                     order by r.due_at desc
                     limit $4",
                ))
                .bind(self.shard.0)
                .bind(job.0)
                .bind(Stamp(before))
                .bind(limit)
                .fetch_all(&self.pool)
            })
            .await?;
        Ok(rows)
    }

    /// The newest claims of a run, at most so many, oldest first.
    pub async fn run_claims(&self, run: RunKey, most: i64) -> Result<Vec<RunClaim>, JournalError> {
        let rows: Vec<RunClaimRow> = self
            .read(|| {
                sqlx::query_as(concat!(
                    "-- run_claims
                     select ",
                    run_claim_columns!(),
                    " from job_claim c
                     where c.shard = $1 and c.job_no = $2 and c.due_at = $3
                     order by c.token desc
                     limit $4",
                ))
                .bind(self.shard.0)
                .bind(run.job.0)
                .bind(Stamp(run.due))
                .bind(most)
                .fetch_all(&self.pool)
            })
            .await?;
        rows.into_iter().rev().map(RunClaimRow::claim).collect()
    }

    /// The claim of a run with this token, and whether nobody has claimed the run since.
    pub async fn run_claim(
        &self,
        run: RunKey,
        token: RunToken,
    ) -> Result<Option<(RunClaim, bool)>, JournalError> {
        // The next one says whether there is one.
        let rows: Vec<RunClaimRow> = self
            .read(|| {
                sqlx::query_as(concat!(
                    "-- run_claim
                     select ",
                    run_claim_columns!(),
                    " from job_claim c
                     where c.shard = $1 and c.job_no = $2 and c.due_at = $3 and c.token >= $4
                     order by c.token
                     limit 2",
                ))
                .bind(self.shard.0)
                .bind(run.job.0)
                .bind(Stamp(run.due))
                .bind(token.0)
                .fetch_all(&self.pool)
            })
            .await?;
        let is_last = rows.len() == 1;
        let claim = rows
            .into_iter()
            .next()
            .map(RunClaimRow::claim)
            .transpose()?;
        let claim = claim.filter(|claim| claim.token == token);
        Ok(claim.map(|claim| (claim, is_last)))
    }
}
