//! Every family has the value that real work gives it. A family that this file does not name fails
//! the last test.

use super::scrape::Scrape;
use crate::harness::{
    collector::Collector,
    conversation::WAIT_TIMEOUT,
    gate::Gate,
    postgres,
    server::{Server, Setup},
    work::{failing, noop, sql},
};
use rallypoint::{metrics::Metrics, server::TraceConfig};
use rallypoint_client::api::{
    AcquireRequest, CreateJobRequest, CreateResourceRequest, JobSettings, PauseMode,
    PauseTargetRequest, ResourceSettings, ResourceUse, RunJobRequest, SchedulerSettings, Task,
    pause_target_request::Scope,
};
use std::{
    fs,
    time::{Duration, SystemTime},
};
use tokio::time::{Instant, sleep};

const HOUR: Duration = Duration::from_secs(3_600);
const APP: &str = "{kind=\"sql\",target=\"app\"}";

const OF_TASKS: &[(&str, f64)] = &[
    ("rallypoint_schedulers", 2.0),
    ("rallypoint_tasks{state=\"queued\"}", 2.0),
    ("rallypoint_tasks{state=\"blocked\"}", 1.0),
    ("rallypoint_tasks{state=\"retrying\"}", 0.0),
    ("rallypoint_waiting_tasks{reason=\"max_parallelism\"}", 2.0),
    ("rallypoint_waiting_tasks{reason=\"order\"}", 1.0),
    ("rallypoint_waiting_tasks{reason=\"slot\"}", 0.0),
    ("rallypoint_tasks_submitted_total", 11.0),
    ("rallypoint_streams{method=\"Synchronization\"}", 1.0),
    ("rallypoint_owner", 1.0),
    ("rallypoint_ready", 1.0),
    ("rallypoint_stopping", 0.0),
    ("rallypoint_takeovers_total", 1.0),
    ("rallypoint_recoveries_total", 1.0),
    ("rallypoint_journal_available", 1.0),
    ("rallypoint_journal_retention_days", 30.0),
    ("rallypoint_scrape_complete{part=\"coordinator\"}", 1.0),
    ("rallypoint_scrape_complete{part=\"journal\"}", 1.0),
    ("rallypoint_lost_batches_total", 0.0),
    ("rallypoint_unreadable_schedulers", 0.0),
    ("rallypoint_target_available{target=\"app\"}", 1.0),
    ("rallypoint_job_agent_started{}", 1.0),
    ("rallypoint_connections_limit", 10_000.0),
];
const JOB_FAILED: &str = "rallypoint_job_due_times_total{became=\"failed\"}";
const OF_JOBS_AND_RESOURCES: &[(&str, f64)] = &[
    (JOB_FAILED, 1.0),
    ("rallypoint_jobs{state=\"all\"}", 1.0),
    ("rallypoint_jobs{state=\"failing\"}", 1.0),
    ("rallypoint_jobs{state=\"paused\"}", 0.0),
    ("rallypoint_jobs{state=\"late\"}", 0.0),
    ("rallypoint_jobs{state=\"unreadable\"}", 0.0),
    ("rallypoint_job_runs{state=\"running\"}", 0.0),
    ("rallypoint_job_runs{state=\"waiting\"}", 0.0),
    ("rallypoint_job_start_delay_seconds_count", 0.0),
    ("rallypoint_resource_claims{state=\"held\"}", 1.0),
    ("rallypoint_resource_claims{state=\"waiting\"}", 1.0),
    ("rallypoint_resource_grants_total{after=\"at_once\"}", 1.0),
    ("rallypoint_resource_grants_total{after=\"waiting\"}", 1.0),
    (
        "rallypoint_resource_claim_ends_total{how=\"released\"}",
        1.0,
    ),
    (
        "rallypoint_calls_refused_total{reason=\"CLAIM_NOT_FOUND\"}",
        1.0,
    ),
];

/// What the scrape of the first test says of batches, sessions and what else is no round number.
fn batches_and_sessions(s: &Scrape) {
    assert_eq!(s.value(&format!("rallypoint_slots{APP}")), 5.0);
    assert_eq!(s.value(&format!("rallypoint_slots_busy{APP}")), 2.0);
    assert_eq!(s.value(&format!("rallypoint_slots_reserved{APP}")), 1.0);
    // Three have ended, two run.
    assert_eq!(s.value(&format!("rallypoint_task_starts_total{APP}")), 5.0);
    let outcome = |kind, target, how| {
        let labels = format!("kind=\"{kind}\",target=\"{target}\",outcome=\"{how}\"");
        s.value(&format!("rallypoint_task_outcomes_total{{{labels}}}"))
    };
    assert_eq!(outcome("noop", "", "succeeded"), 3.0);
    assert_eq!(outcome("sql", "app", "succeeded"), 2.0);
    assert_eq!(outcome("sql", "app", "failed"), 1.0);
    assert_eq!(outcome("sql", "app", "cancelled"), 0.0);
    let batches = s.value("rallypoint_batches_total{outcome=\"durable\"}");
    assert!(batches >= 4.0, "{batches}");
    assert_eq!(s.value("rallypoint_append_seconds_count"), batches);
    assert!(s.value("rallypoint_append_seconds_sum") > 0.0);
    // Eleven submitted, six ended.
    assert_eq!(s.value("rallypoint_batch_tasks_sum"), 17.0);
    assert_eq!(s.value("rallypoint_batch_tasks_count"), batches);
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("rallypoint_info{{version=\"{version}\",replica=\"test\"}}");
    assert_eq!(s.value(&info), 1.0);
    let lease = s.value("rallypoint_lease_remaining_seconds");
    assert!(lease > 0.0 && lease <= 5.0, "{lease}");
    assert!(s.value("rallypoint_epoch") >= 1.0);
    let open = s.value("rallypoint_connections");
    assert!((1.0..=4.0).contains(&open), "{open}");
    let sessions = s.value("rallypoint_target_sessions{target=\"app\"}");
    assert!((2.0..=5.0).contains(&sessions), "{sessions}");
    assert!(s.value("rallypoint_journal_last_durable_age_seconds") < 60.0);
    assert!(s.value("rallypoint_journal_oldest_day_age_days") < 2.0);
    assert!(s.value("rallypoint_clock_offset_seconds").abs() < 5.0);
}

/// Scrapes until a value is as wanted: counters follow what a caller is told at once.
async fn until(server: &Server, wanted: impl Fn(&Scrape) -> bool) -> Scrape {
    let begun = Instant::now();
    loop {
        let scrape = Scrape::read(server.admin).await;
        if wanted(&scrape) || begun.elapsed() > WAIT_TIMEOUT {
            return scrape;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn tasks_slots_and_batches_are_counted_as_they_are() {
    let server = Server::start().await;
    let ended = server.open(SchedulerSettings::default()).await;
    ended.submit([noop(), noop(), noop()]).await;
    ended
        .submit([sql("select 1"), sql("select 1"), failing()])
        .await;
    ended.all_done().await;
    let mut gate = server.gate().await;
    let settings = SchedulerSettings {
        max_parallelism: Some(2),
        ..SchedulerSettings::default()
    };
    let waiting = server.open(settings).await;
    let tasks = (0..4).map(|_| gate.task().order(1));
    let tasks = tasks.chain([sql("select 1").order(2)]);
    waiting.submit(tasks).await;
    let stream = waiting
        .scheduler
        .synchronize(0, None)
        .await
        .expect("a stream");
    gate.reached_by(2).await;
    let s = until(&server, |s| {
        let ready = s.value("rallypoint_ready") == 1.0;
        ready && s.value("rallypoint_tasks{state=\"running\"}") == 2.0
    })
    .await;
    s.shows(OF_TASKS);
    batches_and_sessions(&s);
    drop(stream);
    gate.open().await;
    waiting.all_done().await;
    let s = until(&server, |s| {
        s.value("rallypoint_streams{method=\"Synchronization\"}") == 0.0
    })
    .await;
    assert_eq!(
        s.value("rallypoint_streams{method=\"Synchronization\"}"),
        0.0
    );
    assert_eq!(s.value("rallypoint_tasks{state=\"running\"}"), 0.0);
}

#[tokio::test]
async fn what_waits_for_slots_pauses_retries_and_times_is_told_apart() {
    let server = Server::with(Setup {
        slots: 1,
        ..Setup::default()
    })
    .await;
    let mut gate: Gate = server.gate().await;
    let runs = server.open(SchedulerSettings::default()).await;
    runs.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let waits = server.open(SchedulerSettings::default()).await;
    waits
        .submit([
            sql("select 1"),
            sql("select 1").not_before(SystemTime::now() + HOUR),
        ])
        .await;
    let paused = server.open(SchedulerSettings::default()).await;
    paused.scheduler.pause().await.expect("paused");
    paused.submit([sql("select 1")]).await;
    sleep(Duration::from_millis(50)).await;
    let s = Scrape::read(server.admin).await;
    let startable = format!("rallypoint_startable_tasks{APP}");
    assert_eq!(s.value(&startable), 1.0, "with another slot");
    let request = PauseTargetRequest {
        scope: Some(Scope::Target("app".into())),
        mode: PauseMode::Drain.into(),
        reason: "maintenance".into(),
    };
    server.client.pause_target(request).await.expect("paused");
    let s = Scrape::read(server.admin).await;
    s.shows(&[(&*startable, 0.0)]);
    for reason in ["slot", "not_before", "paused"] {
        let sample = format!("rallypoint_waiting_tasks{{reason=\"{reason}\"}}");
        assert_eq!(s.value(&sample), 1.0, "{reason}");
    }
    assert!(s.value("rallypoint_oldest_queued_seconds") >= 0.05);
    assert_eq!(s.value("rallypoint_target_paused{target=\"app\"}"), 1.0);
    let lag = s.value(&format!("rallypoint_fairness_lag_seconds{APP}"));
    assert!((0.0..60.0).contains(&lag), "{lag}");
}

#[tokio::test]
async fn resources_jobs_and_refused_calls_are_counted() {
    let server = Server::start().await;
    let client = &server.client;
    let settings = ResourceSettings {
        capacity: 1,
        ..ResourceSettings::default()
    };
    let request = CreateResourceRequest {
        name: "disk".into(),
        settings: Some(settings),
    };
    client.create_resource(request).await.expect("created");
    let claim = || AcquireRequest {
        resources: vec![ResourceUse {
            name: "disk".into(),
            ..ResourceUse::default()
        }],
        ..AcquireRequest::default()
    };
    let hold = client.acquire("disk").await.expect("it is free");
    let mut next = client.claim(claim()).await.expect("in line");
    let last = client.claim(claim()).await.expect("in line");
    hold.release().await.expect("held");
    next.next().await.expect("granted");
    let request = CreateJobRequest {
        name: "hourly".into(),
        settings: Some(JobSettings {
            schedule: crate::jobs::every(7 * 86_400),
            steps: vec![Task::from(failing())],
            ..JobSettings::default()
        }),
        validate_only: false,
    };
    client.create_job(request).await.expect("created");
    let run = RunJobRequest {
        name: "hourly".into(),
        ..RunJobRequest::default()
    };
    client.run_job(run).await.expect("it runs");
    let refused = client.get_claim(77).await;
    refused.expect_err("there is none");
    until(&server, |s| s.has(JOB_FAILED)).await;
    // A scrape reads levels before counters.
    Scrape::read(server.admin)
        .await
        .shows(OF_JOBS_AND_RESOURCES);
    drop((next, last));
}

#[tokio::test]
async fn a_run_that_a_schedule_names_is_counted_with_its_delay() {
    let server = Server::start().await;
    let request = CreateJobRequest {
        name: "often".into(),
        settings: Some(JobSettings {
            schedule: crate::jobs::every(1),
            steps: vec![Task::from(noop())],
            ..JobSettings::default()
        }),
        validate_only: false,
    };
    server.client.create_job(request).await.expect("created");
    let fired = "rallypoint_job_start_delay_seconds_count";
    let s = until(&server, |s| s.value(fired) >= 1.0).await;
    let (count, sum) = (
        s.value(fired),
        s.value("rallypoint_job_start_delay_seconds_sum"),
    );
    assert!(
        count >= 1.0 && sum >= 0.0 && sum < 60.0 * count,
        "{sum} in {count}"
    );
}

#[tokio::test]
async fn a_lost_attempt_is_counted() {
    let server = Server::start().await;
    let mut gate = server.gate().await;
    let one = server.open(SchedulerSettings::default()).await;
    one.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let mut session = postgres::connect(&server.app).await;
    let kill = "select pg_terminate_backend(pid)
        from pg_locks
        where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())";
    sqlx::raw_sql(kill)
        .execute(&mut session)
        .await
        .expect("ended");
    let lost = "rallypoint_attempts_total{end=\"lost\"}";
    let s = until(&server, |s| s.has(lost)).await;
    assert_eq!(s.value(lost), 1.0);
    gate.open().await;
    one.all_done().await;
}

#[tokio::test]
async fn spans_of_traces_are_counted() {
    let collector = Collector::start().await;
    for (endpoint, outcome) in [
        (collector.url(), "exported"),
        ("http://127.0.0.1:1".to_owned(), "failed"),
    ] {
        let traces = TraceConfig {
            endpoint,
            ca: None,
            share: 1.0,
        };
        let server = Server::with(Setup {
            traces: Some(traces),
            ..Setup::default()
        })
        .await;
        let one = server.open(SchedulerSettings::default()).await;
        one.submit([noop(), noop()]).await;
        one.all_done().await;
        let count = format!("rallypoint_trace_spans_total{{outcome=\"{outcome}\"}}");
        let s = until(&server, |s| s.value(&count) >= 9.0).await;
        // The call, and of each task itself, its wait, its attempt and its end.
        assert_eq!(s.value(&count), 9.0, "{outcome}");
        s.shows(&[("rallypoint_trace_spans_total{outcome=\"dropped\"}", 0.0)]);
    }
    assert_eq!(collector.count(), 9);
}

#[test]
fn every_family_is_given_a_value_by_a_test() {
    // Of these only an accident would show more than the words of the page.
    let untested = ["rallypoint_fences_pending"];
    let files = ["values", "standby", "audit"].map(|file| format!("tests/it/metrics/{file}.rs"));
    let tests = files.map(|file| fs::read_to_string(file).expect("a file of tests"));
    let tests = tests.concat();
    for family in Metrics::default().declared() {
        let name = family.name;
        let begins = |end: &str| tests.contains(&format!("{name}{end}"));
        let named = ["\"", "{{", "{", "_count", "_sum"].into_iter().any(begins);
        assert!(
            named || untested.contains(&name),
            "{name} is given no value by a test"
        );
    }
}
