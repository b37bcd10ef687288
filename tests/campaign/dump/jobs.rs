//! What the databases hold of jobs and their runs at the end.

use crate::{
    fixture::Fixture,
    history::Entry,
    jobs::{JobEntry, JobRun},
};
use sqlx::PgConnection;

struct RunRow {
    job: String,
    due: i64,
    last: Option<i64>,
    state: i32,
    attempt: i32,
    started: Option<i64>,
    ended: Option<i64>,
    unasked: bool,
    reason: Option<i32>,
    catches_up: bool,
}

rallypoint::from_row!(RunRow {
    job,
    due,
    last,
    state,
    attempt,
    started,
    ended,
    unasked,
    reason,
    catches_up
});

/// Runs of jobs that are not over, while the agent is stopped.
pub(super) async fn open_runs(fixture: &Fixture) -> sqlx::Result<i64> {
    let mut journal = fixture.journal.session().await?;
    let open = "select count(*) from job_run where state <= 3";
    sqlx::query_scalar(open).fetch_one(&mut journal).await
}

pub(super) async fn of_journal(fixture: &Fixture) -> sqlx::Result<Vec<Entry>> {
    let mut journal = fixture.journal.session().await?;
    let mut entries = runs(&mut journal).await?;
    let opened = "select labels ->> 'job', labels ->> 'due', handle
        from (
            select handle::text, convert_from(settings, 'UTF8')::jsonb -> 'labels' as labels
            from scheduler
        ) s
        where labels ? 'job' and not labels ? 'on_failure'";
    let opened: Vec<(String, String, String)> =
        sqlx::query_as(opened).fetch_all(&mut journal).await?;
    entries.extend(
        opened
            .into_iter()
            .map(|(job, due, handle)| JobEntry::Opened {
                job,
                due: microseconds(&due),
                handle,
            }),
    );
    let stopped = "select (extract(epoch from stopped_at) * 1000000)::int8
        from job_agent
        where stopped and stopped_at is not null";
    let stopped: Vec<i64> = sqlx::query_scalar(stopped).fetch_all(&mut journal).await?;
    entries.extend(
        stopped
            .into_iter()
            .map(|at| JobEntry::StoppedForGood { at }),
    );
    let claims = "select convert_from(j.name, 'UTF8'),
            (extract(epoch from c.due_at) * 1000000)::int8,
            c.token,
            c.outcome::int4
        from job_claim c
        join job j using (shard, job_no)";
    let claims: Vec<(String, i64, i64, Option<i32>)> =
        sqlx::query_as(claims).fetch_all(&mut journal).await?;
    entries.extend(
        claims
            .into_iter()
            .map(|(job, due, token, outcome)| JobEntry::Claim {
                job,
                due,
                token,
                outcome,
            }),
    );
    Ok(entries.into_iter().map(Entry::Job).collect())
}

async fn runs(journal: &mut PgConnection) -> sqlx::Result<Vec<JobEntry>> {
    let query = "select convert_from(j.name, 'UTF8') as job,
            (extract(epoch from r.due_at) * 1000000)::int8 as due,
            (extract(epoch from r.last_due_at) * 1000000)::int8 as last,
            r.state::int4 as state,
            r.attempt,
            (extract(epoch from r.started_at) * 1000000)::int8 as started,
            (extract(epoch from r.ended_at) * 1000000)::int8 as ended,
            coalesce(
                convert_from(r.detail, 'UTF8') like 'the target could not be asked%', false
            ) as unasked,
            r.reason::int4 as reason,
            r.catches_up
        from job_run r
        join job j using (shard, job_no)
        order by r.due_at";
    let rows: Vec<RunRow> = sqlx::query_as(query).fetch_all(journal).await?;
    let run = |row: RunRow| {
        JobEntry::Run(JobRun {
            job: row.job,
            due: row.due,
            last: row.last,
            state: row.state,
            attempt: row.attempt,
            started: row.started,
            ended: row.ended,
            unasked: row.unasked,
            reason: row.reason,
            catches_up: row.catches_up,
        })
    };
    Ok(rows.into_iter().map(run).collect())
}

/// The work of claimants.
pub(super) async fn settled(fixture: &Fixture) -> sqlx::Result<Vec<Entry>> {
    let mut target = fixture.target.session().await?;
    let settled = "select job, due, token from settled";
    let settled: Vec<(String, i64, i64)> = sqlx::query_as(settled).fetch_all(&mut target).await?;
    let entry = |(job, due, token)| Entry::Job(JobEntry::Settled { job, due, token });
    Ok(settled.into_iter().map(entry).collect())
}

fn microseconds(due: &str) -> i64 {
    let due: jiff::Timestamp = due.parse().expect("a label of the service");
    due.as_microsecond()
}
