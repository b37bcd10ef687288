//! Once a day, for programs outside the service: of several that want the run one has it, one that
//! dies is found out, and one that comes back late is told so.

use super::*;
use crate::harness::{
    cluster::Cluster,
    postgres::{connect, value},
    process::PROGRAM,
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use rallypoint_client::{
    ClaimedRun,
    api::{
        ClaimRunRequest, FinishRunRequest, GetRunRequest, GetRunResponse, ListSchedulersRequest,
        OncePer, Period, RunClaim, RunClaimEnd, RunClaims, SchedulerFilter, UpdateJobRequest,
    },
};
use sqlx::{AssertSqlSafe, PgConnection};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// A job for claimants that is due at the next full minute, and until then on the next day.
fn once_per_day(now: u64, target: &str) -> JobSettings {
    let minute = (now + 61) / 60 % 1_440;
    let after = format!("{:02}:{:02}", minute / 60, minute % 60);
    let once_per = OncePer {
        period: Period::Day.into(),
        after,
        before: String::new(),
    };
    JobSettings {
        schedule: Some(Schedule {
            rule: Some(Rule::OncePer(once_per)),
            ..Schedule::default()
        }),
        claims: Some(RunClaims {
            target: target.into(),
        }),
        ..JobSettings::default()
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// Creates the job, and moves its window until it is about to open.
async fn create_daily(client: &Client, name: &str, target: &str) {
    create(client, name, once_per_day(now(), target)).await;
    loop {
        let name = name.to_owned();
        let known = client.get_job(GetJobRequest { name: name.clone() }).await;
        let due = known.expect("it is there").job.expect("a job").next_due;
        if due.expect("it is due").seconds < now() as i64 + 90 {
            return;
        }
        let update = UpdateJobRequest {
            name,
            settings: Some(once_per_day(now(), target)),
            etag: String::new(),
        };
        client.update_job(update).await.expect("changed");
    }
}

/// Claims a run as soon as there is one to be had.
async fn claimed(client: &Client, name: &str, owner: &str, seconds: i64) -> ClaimedRun {
    let request = ClaimRunRequest {
        name: name.into(),
        owner: owner.into(),
        lease: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..ClaimRunRequest::default()
    };
    let wait = async {
        loop {
            let asked = Instant::now();
            let answer = client.claim_run(request.clone()).await.expect("an answer");
            if let Some(run) = ClaimedRun::of(client, answer, asked).await {
                return run;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let most = WAIT_TIMEOUT + Duration::from_secs(120);
    timeout(most, wait).await.expect("it may be claimed")
}

async fn run_of(client: &Client, run: &JobRun) -> GetRunResponse {
    let request = GetRunRequest {
        name: run.job.clone(),
        due: run.due,
    };
    client.get_run(request).await.expect("it is there")
}

/// Does the work of a run in one transaction; the error is its SQLSTATE.
async fn work(session: &mut PgConnection, who: &str, run: (&str, i64, i64)) -> Result<(), String> {
    let (job, due, token) = run;
    let text = format!(
        "begin;
         insert into settled values ('{who}');
         select rallypoint.finish_run('{job}', to_timestamp({due}), {token});
         commit"
    );
    let done = sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut *session)
        .await;
    let failed = done.map(drop).map_err(|error| {
        let error = error.into_database_error().expect("an answer");
        error.code().expect("a code").into_owned()
    });
    if failed.is_err() {
        sqlx::raw_sql("rollback")
            .execute(session)
            .await
            .expect("undone");
    }
    failed
}

fn cli(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["--server", &cluster.url(0)]).args(arguments);
    command
}

fn number(file: &Path) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// What was installed before jobs of several namespaces were told apart.
const OF_BEFORE: &str = "
    create schema rallypoint;
    create table rallypoint.job_run (
        job text not null, due timestamptz not null, token int8 not null, finished boolean not null,
        changed_at timestamptz not null, changed_by text not null,
        constraint job_run_pkey primary key (job, due));
    create function rallypoint.finish_run(job text, due timestamptz, token int8) returns int8
        language sql as 'select 0::int8';";

/// The job, on a target on which it can be finished, with a table for its work.
struct Scene {
    cluster: Cluster,
    client: Client,
    target: PgConnection,
    folder: TempDir,
}

impl Scene {
    async fn start() -> Scene {
        let cluster = Cluster::start(1).await;
        let administrator = cluster.postgres.url_for(TARGET, SUPERUSER);
        let install = [
            "jobs",
            "install",
            "--url",
            &administrator,
            "--login",
            TARGET,
        ];
        let mut session = connect(&cluster.postgres.options_for(TARGET, SUPERUSER)).await;
        sqlx::raw_sql(OF_BEFORE)
            .execute(&mut session)
            .await
            .expect(OF_BEFORE);
        let installed = cli(&cluster, &install).output().expect("it runs");
        assert!(installed.status.success(), "{installed:?}");
        let mut target = connect(&cluster.postgres.options_for(TARGET, TARGET)).await;
        let table = "create table settled (by_whom text)";
        sqlx::raw_sql(table)
            .execute(&mut target)
            .await
            .expect(table);
        let client = cluster.client_of_all();
        create_daily(&client, "settle", "app").await;
        Scene {
            cluster,
            client,
            target,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Where the first claimant leaves its token.
    fn file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// A first claimant has the run, a second one is told so, and the first one is killed.
    async fn killed_at_its_work(&self) -> Orphans {
        let script = format!(
            "echo $RALLYPOINT_TOKEN > {}; exec sleep 600",
            self.file().display()
        );
        let claim = ["jobs", "claim", "settle", "--wait", "150s", "--lease", "5s"];
        let mut first = cli(&self.cluster, &claim)
            .args(["--owner", "one", "--", "sh", "-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        while number(&self.file()).is_none() {
            assert!(first.try_wait().expect("its state").is_none(), "it ended");
            sleep(POLL_INTERVAL).await;
        }
        let mut other = cli(&self.cluster, &["jobs", "claim", "settle", "--", "false"]);
        let other = other.output().expect("it runs");
        let said = String::from_utf8_lossy(&other.stdout).into_owned();
        assert!(other.status.success(), "{other:?}");
        assert!(said.contains("one does the run"), "{other:?}");
        let first_pid = Pid::from_raw(first.id() as i32);
        let orphans = Orphans(child_of(first_pid));
        kill(first_pid, Signal::SIGKILL).expect("it runs");
        first.wait().expect("it was killed");
        orphans
    }

    /// A claimant that was lost comes back: the target refuses its work, and it is told.
    async fn comes_back(&mut self, run: &JobRun, token: i64) {
        let due = run.due.expect("a due time").seconds;
        let refused = work(&mut self.target, "one", ("settle", due, token)).await;
        assert_eq!(refused, Err("RP005".to_owned()));
        let request = FinishRunRequest {
            name: "settle".into(),
            due: run.due,
            token,
            failed: false,
            detail: "done after all".into(),
        };
        let contrary = FinishRunRequest {
            failed: true,
            detail: "or not".into(),
            ..request.clone()
        };
        for (request, said_before) in [(&request, false), (&request, true), (&contrary, true)] {
            let answer = self.client.finish_run(request.clone()).await;
            let answer = answer.expect("it had a claim");
            assert_eq!((answer.late, answer.already_finished), (true, said_before));
            let claim = answer.claim.expect("the claim");
            let late = (claim.late_succeeded, &*claim.late_detail);
            assert_eq!(late, (true, "done after all"), "what was said first");
            assert_eq!(answer.run.expect("the run").due, run.due);
        }
    }
}

#[tokio::test]
async fn once_a_day_holds_with_two_claimants_of_whom_one_is_killed_and_one_comes_late() {
    let mut scene = Scene::start().await;
    let _orphans = scene.killed_at_its_work().await;
    // The second one gets it, does the work, and dies before it can say so.
    let client = scene.client.clone();
    let second = claimed(&client, "settle", "two", 2).await;
    let (run, token) = (second.run().clone(), second.token());
    let late = number(&scene.file()).expect("a token");
    assert!(late < token);
    let finished = ("settle", second.due().seconds, token);
    let done = work(&mut scene.target, "two", finished).await;
    done.expect("the first to be done");
    drop(second);
    // A job of this name in another namespace has rows of its own.
    let other = "select rallypoint.finish_run('settle', to_timestamp($1), 1, 'other')";
    let other = sqlx::query(other).bind(finished.1 as f64);
    other.execute(&mut scene.target).await.expect("not done");
    // The first one was only asleep.
    scene.comes_back(&run, late).await;
    // The target has the marker of the second one.
    let succeeded = |runs: &[JobRun]| runs[0].state() == RunState::Succeeded;
    runs_until(&client, "settle", succeeded).await;
    let known = run_of(&client, &run).await;
    let end = |claim: &RunClaim| (claim.owner.clone(), claim.end());
    let ends: Vec<_> = known.claims.iter().map(end).collect();
    let lost = |owner: &str| (owner.to_owned(), RunClaimEnd::Lost);
    assert_eq!(ends, [lost("one"), lost("two")], "{known:?}");
    assert!(known.claims[0].late_succeeded);
    let settled = "select string_agg(by_whom, ',') from settled";
    assert_eq!(value(&mut scene.target, settled).await, "two", "once");
    // Nothing is left of this day.
    let nothing = client.claim_run(ClaimRunRequest {
        name: "settle".into(),
        ..ClaimRunRequest::default()
    });
    let nothing = nothing.await.expect("an answer");
    assert!(nothing.claim.is_none() && nothing.holder.is_none());
    let last = nothing.run.expect("the last one");
    assert_eq!(last.state(), RunState::Succeeded);
}

/// What a claimant leaves behind when it is killed: its command, with all of its process group.
struct Orphans(Pid);

impl Drop for Orphans {
    fn drop(&mut self) {
        killpg(self.0, Signal::SIGKILL).ok();
    }
}

/// The command that a claimant runs, which leads a process group.
fn child_of(parent: Pid) -> Pid {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(children).expect("Linux");
    let first = children.split_whitespace().next().expect("a child");
    Pid::from_raw(first.parse().expect("a number"))
}

fn asked_for(target: &str) -> JobSettings {
    JobSettings {
        schedule: every(86_400),
        steps: Vec::new(),
        claims: Some(RunClaims {
            target: target.into(),
        }),
        ..job(86_400, [])
    }
}

#[tokio::test]
async fn a_claim_outlives_the_owner_of_the_shard_and_is_finished_there() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client_of_all();
    create(&client, "settle", asked_for("")).await;
    run_now(&client, "settle").await.expect("it is offered");
    let run = claimed(&client, "settle", "one", 2).await;
    let owner = cluster.owner().await;
    cluster.kill_9(owner);
    let survivor = cluster.client(1 - owner);
    runs_until(&survivor, "settle", |runs| runs.len() == 1).await;
    let finished = run.finish(None).await.expect("it is acknowledged");
    assert!(!finished.late, "{finished:?}");
    assert_eq!(finished.run.expect("a run").state(), RunState::Succeeded);
}

#[tokio::test]
async fn a_claim_is_refused_where_the_service_does_the_runs_and_lost_ones_cannot_be_renewed() {
    let server = Server::start().await;
    let client = &server.client;
    create(client, "steps", job(86_400, [sql("select 1").order(1)])).await;
    let request = |name: &str| ClaimRunRequest {
        name: name.into(),
        ..ClaimRunRequest::default()
    };
    let error = client.claim_run(request("steps")).await.unwrap_err();
    assert_eq!(reason(&error), "JOB_NOT_FOR_CLAIMS");
    create(client, "claims", asked_for("")).await;
    let asked = run_now(client, "claims").await.expect("it is offered");
    assert_eq!(asked.state(), RunState::Waiting);
    let run = claimed(client, "claims", "one", 15).await;
    let cancel = CancelRunRequest {
        name: "claims".into(),
        due: asked.due,
    };
    client.cancel_run(cancel).await.expect("it goes on");
    let lost = timeout(WAIT_TIMEOUT, run.lost()).await.expect("it is told");
    assert!(lost.contains("no open claim"), "{lost}");
    let unknown = FinishRunRequest {
        name: "claims".into(),
        due: asked.due,
        token: 1_000_000,
        ..FinishRunRequest::default()
    };
    let error = client.finish_run(unknown).await.unwrap_err();
    assert_eq!(reason(&error), "RUN_NOT_FOUND");
}

#[tokio::test]
async fn a_failed_run_is_followed_by_the_tasks_that_its_job_names() {
    let server = Server::start().await;
    let client = &server.client;
    let settings = JobSettings {
        on_failure: vec![Task::from(sql("select 'alarm'").order(1))],
        ..job(86_400, [sql("select 1/0").order(1)])
    };
    create(client, "broken", settings).await;
    run_now(client, "broken").await.expect("it starts");
    runs_until(client, "broken", |runs| count(runs, RunState::Failed) == 1).await;
    let labels = [("on_failure", "FAILED"), ("job", "broken")];
    let filter = SchedulerFilter {
        labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        ..SchedulerFilter::default()
    };
    let request = ListSchedulersRequest {
        filter: Some(filter),
        ..ListSchedulersRequest::default()
    };
    let followed = client.schedulers(request).await.expect("listed");
    assert_eq!(followed.schedulers.len(), 1, "{followed:?}");
}
