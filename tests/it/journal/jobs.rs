//! Jobs in the journal: what was written is read again, and old runs are not kept for ever.

use super::{Owned, aged::at_work_ago, make::*};
use rallypoint::{
    core::{
        schedule::{RuleText, ScheduleText},
        *,
    },
    journal::*,
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

fn settings() -> JobSettings {
    JobSettings {
        schedule: ScheduleText {
            rule: RuleText::Cron("30 2 * * *".into()),
            time_zone: "Europe/Berlin".into(),
            dst_gap: None,
            dst_fold: None,
            jitter: Duration::from_secs(7),
            start: "2026-12-01".into(),
            end: String::new(),
            exclude: vec!["12-25".into()],
        },
        overlap: Overlap::QueueOne,
        misfire: Misfire::CatchUp(3),
        rerun: Some(Rerun {
            within_window: false,
            max: Some(2),
            delay: Duration::from_secs(5),
        }),
        max_runtime: Some(Duration::from_secs(60)),
        pause_after_failures: Some(3),
        scheduler: Arc::new(Settings::default()),
        claimed: false,
    }
}

/// A job of this number with a run, and a stopped agent.
pub(super) fn of_job(no: i64, at: Time) -> JobRecords {
    let no = JobNo(no);
    let run = |order, spec| Run {
        count: 1,
        order: Some(Order(order)),
        spec,
    };
    let steps = Submit {
        request: None,
        runs: vec![run(1, sql()), run(2, noop())],
        bodies: Packed::new([&b"select $1"[..], b""]),
        params: Packed::new([&b"[\"a\"]"[..], b""]),
        retries: None,
    };
    let image = JobImage {
        no,
        key: JobKey {
            namespace: Namespace::default_namespace(),
            name: format!("job {}", no.0).into(),
        },
        version: 7,
        settings: Arc::new(settings()),
        unknown: None,
        on_failure: Arc::new(Submit {
            runs: vec![run(1, noop())],
            bodies: Packed::new([&b"select alarm()"[..]]),
            ..steps.clone()
        }),
        steps: Arc::new(steps),
        created_at: at,
        changed_at: at,
        changed_by: "ann".into(),
        deleted: false,
    };
    let state = JobState {
        next_due: Some(at + Duration::from_secs(60)),
        last_due: Some(at),
        periods_since: Some(at + Duration::from_secs(1)),
        time_zones: "2026f".into(),
        last_unscheduled: at,
        last_token: RunToken(4),
        failures: 2,
        paused: Some(JobPause {
            since: at,
            by: "ben".into(),
            reason: "a release".into(),
        }),
    };
    let key = RunKey { job: no, due: at };
    JobRecords {
        jobs: [(no, image)].into(),
        states: [(no, state)].into(),
        runs: [(key, a_run(key))].into(),
        claims: [((key, RunToken(4)), a_claim(key))].into(),
        agent: Some(a_stopped_agent(at)),
        ..JobRecords::default()
    }
}

fn a_stopped_agent(at: Time) -> AgentImage {
    AgentImage {
        is_stopped: true,
        changed_at: at,
        stopped_at: Some(at),
        changed_by: "ann".into(),
        reason: "a release".into(),
    }
}

pub(super) fn a_run(key: RunKey) -> RunImage {
    RunImage {
        key,
        last: None,
        count: 1,
        cause: RunCause::Asked,
        state: RunState::Running,
        reason: Some(RunReason::MaxRuntime),
        detail: "more".into(),
        by: "ann".into(),
        request: Some(Uuid::from_u128(7)),
        from_order: Some(2),
        closes: Some(key.due + Duration::from_secs(9)),
        catches_up: true,
        attempt: 2,
        handle: Some(handle()),
        started_at: Some(key.due),
        ended_at: None,
        next_attempt_at: Some(key.due),
        failed: 1,
        cancelled: 2,
    }
}

pub(super) fn a_claim(run: RunKey) -> RunClaim {
    RunClaim {
        run,
        token: RunToken(4),
        owner: "worker 1".into(),
        caller: "ann".into(),
        request: Some(Uuid::from_u128(8)),
        lease: Duration::from_secs(15),
        claimed_at: run.due,
        end: None,
        late: None,
    }
}

pub(super) async fn recovered(owned: &Owned) -> RecoveredJobs {
    let read = recover(&owned.journal, ENOUGH, since(owned.now)).await;
    read.expect("it can be read").jobs
}

/// The run and its claim end, and the job is deleted.
fn ended(jobs: &JobRecords) -> JobRecords {
    let mut over = jobs.clone();
    over.jobs.values_mut().for_each(|job| job.deleted = true);
    for run in over.runs.values_mut() {
        (run.state, run.request) = (RunState::Succeeded, None);
        run.ended_at = Some(run.key.due);
    }
    for claim in over.claims.values_mut() {
        claim.end = Some(RunClaimEnd {
            at: claim.claimed_at,
            outcome: RunClaimOutcome::Lost,
            detail: "silent".into(),
        });
        claim.late = Some(LateReport {
            at: claim.claimed_at,
            succeeded: true,
            detail: "after all".into(),
        });
    }
    over
}

#[tokio::test]
async fn what_was_written_of_jobs_is_recovered_and_what_is_over_is_listed() {
    let mut owned = Owned::new().await;
    let jobs = of_job(3, owned.now);
    let write = |jobs: &JobRecords| Records {
        jobs: jobs.clone(),
        ..Records::default()
    };
    owned.write(write(&jobs)).await;
    let read = recovered(&owned).await;
    let (image, state) = &read.jobs[0];
    let written = &jobs.jobs[&JobNo(3)];
    assert!(image.says(&written.settings, &written.steps, &written.on_failure));
    assert_eq!((&image.key, image.version), (&written.key, 7));
    assert_eq!(*state, jobs.states[&JobNo(3)]);
    let runs: Vec<RunImage> = jobs.runs.values().cloned().collect();
    assert_eq!(read.runs, runs);
    let claims: Vec<RunClaim> = jobs.claims.values().cloned().collect();
    assert_eq!((read.claims, read.last_token), (claims, RunToken(4)));
    assert_eq!(
        (Some(read.agent), read.last),
        (jobs.agent.clone(), JobNo(3))
    );
    let reader = owned.journal.reader();
    let all = reader
        .jobs(&written.key.namespace, "", 9)
        .await
        .expect("read");
    assert_eq!(all.items.len(), 1);
    let over = ended(&jobs);
    let mut deleted = jobs.clone();
    deleted.jobs = over.jobs.clone();
    owned.write(write(&deleted)).await;
    let read = recovered(&owned).await.jobs;
    assert!(read[0].0.deleted, "its run goes on");
    owned.write(write(&over)).await;
    let read = recovered(&owned).await;
    assert!(read.jobs.is_empty() && read.last == JobNo(3));
    assert!(read.claims.is_empty() && read.last_token == RunToken(4));
    let listed = reader
        .job_runs(JobNo(3), Time::NEVER, 9)
        .await
        .expect("read");
    let ended = over.runs.values().next().expect("one");
    assert_eq!(
        (listed[0].state, listed[0].ended_at),
        (ended.state, ended.ended_at)
    );
    let claims: Vec<RunClaim> = over.claims.values().cloned().collect();
    let known = reader.run_claims(claims[0].run, 100).await.expect("read");
    assert_eq!(known, claims);
    let mut connection = owned.psql().await;
    let shown: String =
        sqlx::query_scalar("select job || ' ' || state from rallypoint_log.job_runs")
            .fetch_one(&mut connection)
            .await
            .expect("the view");
    assert_eq!(shown, "job 3 succeeded");
}

#[tokio::test]
async fn of_old_runs_those_of_backfills_from_before_their_job_stay() {
    let mut owned = at_work_ago(40).await;
    let at = owned.now - Duration::from_secs(40 * 86_400);
    let hour = Duration::from_secs(3_600);
    let mut jobs = of_job(3, at);
    let old = |(due, cause)| {
        let key = RunKey { job: JobNo(3), due };
        let run = RunImage {
            cause,
            state: RunState::Succeeded,
            ended_at: Some(at + hour),
            ..a_run(key)
        };
        (key, run)
    };
    let causes = [
        (at - hour, RunCause::Backfilled),
        (at - hour * 2, RunCause::Asked),
        (at + hour, RunCause::Backfilled),
    ];
    jobs.runs = causes.map(old).into();
    jobs.claims.clear();
    owned
        .write(Records {
            jobs,
            ..Records::default()
        })
        .await;
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(owned.now, None).await.expect("it lives");
    let dropped = maintenance.drop_old_job_runs(&calendar).await;
    assert_eq!(dropped.expect("it can"), 2);
    let reader = owned.journal.reader();
    let left = reader.job_runs(JobNo(3), Time::NEVER, 9).await;
    let left: Vec<Time> = left.expect("read").iter().map(|run| run.key.due).collect();
    assert_eq!(left, [at - hour]);
}

#[tokio::test]
async fn a_list_of_jobs_leaves_out_tasks_and_a_row_that_cannot_be_read() {
    let mut owned = Owned::new().await;
    for no in 1..=4 {
        let mut jobs = of_job(no, owned.now);
        for job in jobs.jobs.values_mut().filter(|job| job.no == JobNo(4)) {
            job.settings = Arc::new(JobSettings {
                claimed: true,
                ..settings()
            });
        }
        owned
            .write(Records {
                jobs,
                ..Records::default()
            })
            .await;
    }
    // The second one cannot be read; of the third one its texts are wrong, which nobody lists.
    let mut connection = owned.psql().await;
    let spoil = "update job set settings = '?' where job_no = 2;
                 update job set bodies = '?' where job_no = 3;
                 update job_run set state = 99 where job_no = 4";
    let spoilt = sqlx::raw_sql(spoil).execute(&mut connection).await;
    spoilt.expect("written");
    let reader = owned.journal.reader();
    let namespace = Namespace::default_namespace();
    let first = reader.jobs(&namespace, "", 2).await.expect("read");
    assert_eq!(first.next.as_deref(), Some("job 2"));
    assert_eq!(first.items.len(), 1);
    assert!(first.items[0].0.steps.runs.is_empty());
    let rest = reader.jobs(&namespace, "job 2", 2).await.expect("read");
    let names: Vec<&str> = rest.items.iter().map(|(job, _)| &*job.key.name).collect();
    assert_eq!((names, rest.next), (vec!["job 3", "job 4"], None));
    let target = &rest.items[1].0.steps.runs[0].spec.work;
    assert_eq!(*target, sql().work, "of a claimed job");
    let runs = reader.run_page(JobNo(4), Time::NEVER, 9).await;
    assert!(runs.expect("read").items.is_empty());
}

/// Jobs that have been deleted long ago, and have neither runs nor claims.
async fn deleted_long_ago(owned: &mut Owned, numbers: &[i64], token: i64) {
    let at = owned.now - Duration::from_secs(40 * 86_400);
    for no in numbers {
        let mut jobs = of_job(*no, at);
        jobs.jobs.values_mut().for_each(|job| job.deleted = true);
        for state in jobs.states.values_mut() {
            state.last_token = RunToken(token);
        }
        jobs.runs.clear();
        jobs.claims.clear();
        owned
            .write(Records {
                jobs,
                ..Records::default()
            })
            .await;
    }
}

#[tokio::test]
async fn a_deleted_job_goes_after_its_runs_and_no_number_is_given_twice() {
    let mut owned = at_work_ago(40).await;
    deleted_long_ago(&mut owned, &[1, 2], 3).await;
    deleted_long_ago(&mut owned, &[3], 9).await;
    deleted_long_ago(&mut owned, &[5], 2).await;
    // One whose run is still within the retention, and one that is there.
    let at = owned.now;
    for (no, deleted) in [(4, true), (6, false), (7, true)] {
        let mut jobs = of_job(no, at - Duration::from_secs(40 * 86_400));
        jobs.jobs.values_mut().for_each(|job| job.deleted = deleted);
        let mut over = ended(&jobs);
        over.jobs = jobs.jobs;
        let runs = over.runs.values_mut();
        runs.for_each(|run| run.ended_at = Some(at));
        if no == 7 {
            over.runs.clear();
            over.claims.clear();
        }
        owned
            .write(Records {
                jobs: over,
                ..Records::default()
            })
            .await;
    }
    let before = recovered(&owned).await;
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(owned.now, None).await.expect("it lives");
    let dropped = maintenance.drop_deleted_jobs(&calendar).await;
    assert_eq!(dropped.expect("it can"), 3, "1, 2 and 5");
    let mut connection = owned.psql().await;
    for table in ["job", "job_state"] {
        let left = format!("select job_no from {table} order by job_no");
        let left: Vec<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(left))
            .fetch_all(&mut connection)
            .await
            .expect("read");
        assert_eq!(
            left,
            [3, 4, 6, 7],
            "the last token, a run, it is there, the last number"
        );
    }
    let after = recovered(&owned).await;
    assert_eq!((after.last, after.last_token), (JobNo(7), RunToken(9)));
    assert_eq!(before.last_token, after.last_token);
}
