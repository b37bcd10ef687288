//! An operator pauses a target, or everything: nothing starts there, what runs goes on or is
//! stopped and runs again, and everybody is told why.

use crate::harness::{
    cluster::Cluster,
    conversation::{Conversation, WAIT_TIMEOUT},
    postgres::{connect, value},
    process::PROGRAM,
    server::{Server, Setup},
    work::{Work, noop, sql},
};
use rallypoint_client::{
    Client, Error,
    api::{
        GetStatusResponse, Outcome, PauseMode, PauseTargetRequest, PauseTargetResponse,
        ResumeTargetRequest, ResumeTargetResponse, SchedulerSettings, blocker::Kind,
        pause_target_request::Scope as PauseScope, resume_target_request::Scope as ResumeScope,
    },
};
use serde_json::Value;
use std::{
    process::{Command, Output},
    time::Duration,
};
use tokio::time::{sleep, timeout};

const REASON: &str = "the disk is being replaced";

async fn pause(
    client: &Client,
    target: Option<&str>,
    mode: PauseMode,
) -> Result<PauseTargetResponse, Error> {
    let named = target.map(|name| PauseScope::Target(name.into()));
    let request = PauseTargetRequest {
        scope: Some(named.unwrap_or(PauseScope::All(()))),
        mode: mode.into(),
        reason: REASON.into(),
    };
    client.pause_target(request).await
}

async fn drain(client: &Client, target: Option<&str>) -> PauseTargetResponse {
    let paused = pause(client, target, PauseMode::Drain).await;
    paused.expect("paused")
}

async fn resume(client: &Client, target: Option<&str>) -> ResumeTargetResponse {
    let named = target.map(|name| ResumeScope::Target(name.into()));
    let request = ResumeTargetRequest {
        scope: Some(named.unwrap_or(ResumeScope::All(()))),
        reason: "it is done".into(),
    };
    client.resume_target(request).await.expect("resumed")
}

/// Pauses by target, empty for all, with what runs under each.
fn paused(status: &GetStatusResponse) -> Vec<(String, i64)> {
    let paused = status.paused_targets.iter();
    let name = |one: &rallypoint_client::api::PausedTarget| {
        let pause = one.pause.as_ref().expect("a pause");
        assert_eq!(pause.reason, REASON);
        (pause.target.clone(), one.running)
    };
    paused.map(name).collect()
}

/// The pauses that keep a task from starting.
async fn blocked_by(conversation: &Conversation, seq: i64) -> Vec<String> {
    let answer = conversation.scheduler.explain(seq).await;
    let blockers = answer.expect("explained").blockers;
    let pauses = blockers.into_iter().filter_map(|one| match one.kind {
        Some(Kind::TargetPaused(pause)) => {
            assert!(one.text.contains(REASON), "{}", one.text);
            Some(pause.target)
        }
        _ => None,
    });
    pauses.collect()
}

fn outcomes(events: &[rallypoint_client::api::AsyncDone]) -> Vec<(i64, Outcome, i32)> {
    let mut outcomes: Vec<_> = events
        .iter()
        .map(|done| (done.seq, done.outcome(), done.attempt))
        .collect();
    outcomes.sort_unstable_by_key(|(seq, ..)| *seq);
    outcomes
}

#[tokio::test]
async fn nothing_starts_on_a_paused_target_until_it_is_resumed() {
    let server = Server::with(Setup {
        others: &["other"],
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let answer = drain(&server.client, Some("app")).await;
    assert!(!answer.already_paused);
    assert_eq!(answer.paused.expect("it is in force").running, 1);
    let running = &answer.running[..];
    assert!(matches!(running, [task] if task.handle == scheduler.handle() && task.seq == 1));
    assert!(drain(&server.client, Some("app")).await.already_paused);
    let here = || sql("select 1");
    scheduler.submit([here(), here().on("other"), noop()]).await;
    scheduler.until(|now| now.done == 2).await;
    gate.open().await;
    scheduler.until(|now| now.done == 3).await;
    assert_eq!(blocked_by(&scheduler, 2).await, ["app"]);
    let status = server.client.status().await.expect("a status");
    assert_eq!(paused(&status), [("app".into(), 0)]);
    drain(&server.client, None).await;
    scheduler.submit([here().on("other"), noop()]).await;
    let still = resume(&server.client, Some("app")).await.still_paused;
    assert!(matches!(&still[..], [all] if all.pause.as_ref().is_some_and(|p| p.target.is_empty())));
    for seq in [2, 5, 6] {
        assert_eq!(blocked_by(&scheduler, seq).await, [""]);
    }
    let again = resume(&server.client, None).await;
    assert!(!again.already_resumed && again.still_paused.is_empty());
    assert!(resume(&server.client, None).await.already_resumed);
    assert_eq!(scheduler.all_done().await.len(), 6);
}

#[tokio::test]
async fn what_runs_is_stopped_and_runs_again_after_the_pause() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    let once = gate.task().losses(1);
    scheduler.submit([once, gate.task().at_most_once()]).await;
    gate.reached_by(2).await;
    let answer = pause(&server.client, Some("app"), PauseMode::CancelRunning).await;
    assert_eq!(answer.expect("paused").running.len(), 2);
    // The gate stays closed: only a stop ends what waits for it.
    let exhausted = scheduler.until(|now| now.done == 1 && now.running == 0);
    exhausted.await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(blocked_by(&scheduler, 1).await, ["app"]);
    let status = server.client.status().await.expect("a status");
    assert_eq!(paused(&status), [("app".into(), 0)]);
    gate.open().await;
    resume(&server.client, Some("app")).await;
    let ended = outcomes(&scheduler.all_done().await);
    let expected = [(1, Outcome::Succeeded, 2), (2, Outcome::Exhausted, 1)];
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn a_pause_is_taken_by_any_replica_and_outlives_its_owner() {
    let mut cluster = Cluster::start(2).await;
    let owner = cluster.owner().await;
    let (here, survivor) = (cluster.client(1 - owner), 1 - owner);
    let scheduler = cluster.open(&here, SchedulerSettings::default()).await;
    let answer = drain(&here, Some("app")).await;
    assert_eq!(answer.paused.expect("it is in force").running, 0);
    scheduler.submit(sql("select 1").times(5)).await;
    cluster.kill_9(owner);
    let taken_over = async {
        while cluster.owner_in_the_journal().await != Some(format!("r{survivor}")) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, taken_over).await.expect("in time");
    // At first the new owner does not know whether it had begun.
    let judged = async {
        while blocked_by(&scheduler, 1).await != ["app"] {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, judged).await.expect("in time");
    let status = here.status().await.expect("a status");
    assert_eq!(paused(&status), [("app".into(), 0)]);
    let waits = scheduler.scheduler.describe().await.expect("described");
    assert_eq!((waits.queued, waits.running), (5, 0));
    cluster.restart(owner);
    cluster.wait_until_ready(owner).await;
    resume(&cluster.client(owner), Some("app")).await;
    assert_eq!(scheduler.all_done().await.len(), 5);
}

#[tokio::test]
async fn every_pause_and_resume_is_on_record_in_words() {
    let server = Server::start().await;
    drain(&server.client, Some("app")).await;
    pause(&server.client, Some("app"), PauseMode::CancelRunning)
        .await
        .expect("paused");
    drain(&server.client, None).await;
    resume(&server.client, Some("app")).await;
    let mut psql = connect(&server.journal).await;
    let rows = "select string_agg(
            concat_ws('|', target, change, reason, in_force, changed_at <= now(), changed_by <> ''),
            E'\\n' order by changed_at)
        from rallypoint_log.target_pauses";
    let expected = [
        format!("app|paused, what runs goes on|{REASON}|f|t|t"),
        format!("app|paused, what runs is stopped|{REASON}|f|t|t"),
        format!("(all)|paused, what runs goes on|{REASON}|t|t|t"),
        "app|resumed|it is done|f|t|t".to_owned(),
    ];
    assert_eq!(value(&mut psql, rows).await, expected.join("\n"));
    resume(&server.client, None).await;
}

#[tokio::test]
async fn a_pause_of_nothing_is_refused_with_what_is_wrong() {
    let server = Server::start().await;
    let refused = |request: PauseTargetRequest| {
        let client = &server.client;
        async move {
            let error = client.pause_target(request).await.expect_err("refused");
            error.reason.unwrap_or_default()
        }
    };
    let request = || PauseTargetRequest {
        scope: Some(PauseScope::Target("app".into())),
        reason: REASON.into(),
        mode: PauseMode::Drain.into(),
    };
    let missing = PauseTargetRequest {
        scope: None,
        ..request()
    };
    assert_eq!(refused(missing).await, "SCOPE_MISSING");
    let unknown = PauseTargetRequest {
        scope: Some(PauseScope::Target("apq".into())),
        ..request()
    };
    assert_eq!(refused(unknown).await, "TARGET_UNKNOWN");
    let reason = String::new();
    let silent = PauseTargetRequest {
        reason,
        ..request()
    };
    assert_eq!(refused(silent).await, "TEXT_OUT_OF_RANGE");
    let strange = PauseTargetRequest {
        mode: 99,
        ..request()
    };
    assert_eq!(refused(strange).await, "ENUM_UNKNOWN");
    let status = server.client.status().await.expect("a status");
    assert!(status.paused_targets.is_empty());
}

/// Runs a command against a server.
async fn run(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["--server", url]).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.expect("it ends").expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_command_line_pauses_shows_and_resumes() {
    let server = Server::start().await;
    let url = &server.url;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let paused = run(url, &["pause-target", "app", "--reason", REASON]).await;
    let text = said(&paused);
    assert!(
        paused.status.success() && text.contains("1 task still runs"),
        "{text}"
    );
    assert!(text.contains(scheduler.handle()), "{text}");
    let status = said(&run(url, &["status"]).await);
    assert!(
        status.contains("nothing starts there") && status.contains(REASON),
        "{status}"
    );
    let status = said(&run(url, &["status", "-o", "json"]).await);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let pause = &status["paused_targets"][0]["pause"];
    assert_eq!(pause["target"], "app");
    assert_eq!(pause["mode"], "PAUSE_MODE_DRAIN");
    let all = [
        "pause-target",
        "--all",
        "--cancel-running",
        "--reason",
        REASON,
    ];
    assert!(said(&run(url, &all).await).contains("everything: paused"));
    scheduler.until(|now| now.running == 0).await;
    let resumed = run(url, &["resume-target", "app", "--reason", "done"]).await;
    assert!(said(&resumed).contains("(all)"), "{}", said(&resumed));
    for wrong in [&["app", "--all"][..], &[][..]] {
        let mut arguments = vec!["resume-target", "--reason", "done"];
        arguments.extend(wrong);
        assert_eq!(run(url, &arguments).await.status.code(), Some(2));
    }
    let unknown = run(url, &["pause-target", "apq", "--reason", REASON]).await;
    assert_eq!(unknown.status.code(), Some(1));
    gate.open().await;
    run(url, &["resume-target", "--all", "--reason", "done"]).await;
    assert_eq!(scheduler.all_done().await.len(), 1);
}

#[tokio::test]
async fn deadlines_go_on_while_a_target_is_paused() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    drain(&server.client, Some("app")).await;
    let late: Work = sql("select 1").deadline(300);
    scheduler.submit([late, sql("select 1")]).await;
    scheduler.until(|now| now.done == 1).await;
    resume(&server.client, Some("app")).await;
    let ended = outcomes(&scheduler.all_done().await);
    let expected = [(1, Outcome::TimedOut, 0), (2, Outcome::Succeeded, 1)];
    assert_eq!(ended, expected);
}
