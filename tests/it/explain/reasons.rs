//! The reasons that one server gives for tasks that wait, and what it says of those that run or
//! have ended.

use super::{explain, kinds, until};
use crate::harness::{
    postgres::start,
    server::{Server, Setup},
    work::{failing, noop, sleep, slots_of, sql},
};
use rallypoint_client::api::{
    Halt, OnFailure, Outcome, SchedulerSettings, TaskState,
    blocker::{Kind, Limit, LowerOrder, Paused, Share, SlotsBusy},
};

fn at_most(max: i32) -> SchedulerSettings {
    SchedulerSettings {
        max_parallelism: Some(max),
        ..Default::default()
    }
}

fn limit(max_parallelism: i32, running: i32) -> Kind {
    Kind::Limit(Limit {
        max_parallelism,
        running,
        in_doubt: 0,
    })
}

#[tokio::test]
async fn several_reasons_are_given_at_once_in_the_order_in_which_they_must_go() {
    let server = Server::start().await;
    let settings = SchedulerSettings {
        on_failure: OnFailure::Halt.into(),
        ..at_most(2)
    };
    let scheduler = server.open(settings).await;
    let mut gate = server.gate().await;
    let held = || gate.task().order(100);
    scheduler
        .submit([failing().order(100), held(), held(), noop().order(200)])
        .await;
    scheduler.until(|now| now.halt.is_some()).await;
    gate.reached_by(2).await;
    scheduler.scheduler.pause().await.expect("paused");
    let answer = explain(&scheduler, 4).await;
    let halted = Kind::Halted(Halt {
        order: 100,
        failed_seqs: vec![1],
        failures: Some(1),
    });
    let lower = Kind::LowerOrder(LowerOrder {
        order: 100,
        unfinished: 2,
        seqs: vec![2, 3],
    });
    let expected = [Kind::Paused(Paused {}), halted, lower, limit(2, 2)];
    assert_eq!(kinds(&answer), expected);
    assert_eq!(answer.state(), TaskState::Blocked);
    let place = answer.place.expect("it waits");
    assert_eq!((place.ahead, place.in_lower_orders), (0, 2));
    for part in ["paused", "halted", "100 has 2", "2 of the 2 tasks"] {
        assert!(answer.text.contains(part), "{}", answer.text);
    }
    gate.open().await;
    scheduler.cancel_everything().await;
}

#[tokio::test]
async fn the_limit_the_slots_and_the_share_are_told_with_their_numbers() {
    let server = Server::with(Setup {
        slots: 3,
        ..Setup::default()
    })
    .await;
    let gate = server.gate().await;
    let limited = server.open(at_most(2)).await;
    limited.submit(gate.task().times(4)).await;
    limited.until(|now| now.running == 2).await;
    let other = server.open(SchedulerSettings::default()).await;
    other.submit(gate.task().times(3)).await;
    other.until(|now| now.running == 1).await;
    let answer = explain(&limited, 4).await;
    let busy = Kind::SlotsBusy(SlotsBusy {
        kind: slots_of("app"),
        total: 3,
        busy: 3,
    });
    assert_eq!(kinds(&answer)[..], [limit(2, 2), busy.clone()]);
    assert_eq!(answer.place.expect("it waits").ahead, 1);
    assert_eq!(kinds(&explain(&other, 3).await), [busy]);
    // With a weight of a thousandth it comes after another one that holds less.
    let light = SchedulerSettings {
        weight: Some(0.01),
        ..Default::default()
    };
    other
        .scheduler
        .update(light, &["weight"])
        .await
        .expect("updated");
    let third = server.open(SchedulerSettings::default()).await;
    third.submit([gate.task()]).await;
    let share = |answer: &rallypoint_client::api::ExplainTaskResponse| match kinds(answer).pop() {
        Some(Kind::Share(share)) => Some(share),
        _ => None,
    };
    let answer = until(&other, 3, |answer| share(answer).is_some()).await;
    let expected = Share {
        namespaces: 0,
        schedulers: 1,
        held_by_namespace: 3,
        held_by_scheduler: 1,
        at_least: false,
    };
    assert_eq!(share(&answer), Some(expected));
    gate.open().await;
    for scheduler in [limited, other, third] {
        scheduler.all_done().await;
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_time_says_until_when() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3_600);
    let retried = failing().retry_in(3_600_000);
    scheduler
        .submit([noop().not_before(later).deadline(86_400_000), retried])
        .await;
    let waits = explain(&scheduler, 1).await;
    let [Kind::NotBefore(not_before)] = &kinds(&waits)[..] else {
        panic!("{waits:?}")
    };
    let micros = |at: &prost_types::Timestamp| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000;
    let wanted = prost_types::Timestamp::from(later);
    assert_eq!(not_before.at.as_ref().map(micros), Some(micros(&wanted)));
    assert!(waits.text.contains("(in 59m"), "{}", waits.text);
    assert!(waits.deadline.is_some());
    let retrying = |answer: &rallypoint_client::api::ExplainTaskResponse| {
        answer.state() == TaskState::Retrying
    };
    let answer = until(&scheduler, 2, retrying).await;
    let [Kind::NextAttempt(next)] = &kinds(&answer)[..] else {
        panic!("{answer:?}")
    };
    assert_eq!((next.failures, next.losses, answer.attempt), (1, 0, 1));
    scheduler.cancel_everything().await;
}

#[tokio::test]
async fn a_target_that_is_away_says_since_when_and_why() {
    let postgres = start(Vec::new());
    let server = Server::with(Setup {
        far: Some(&postgres),
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([sql("select 1").on("far")]).await;
    scheduler.all_done().await;
    postgres.immediate_stop();
    scheduler.submit([sql("select 1").on("far")]).await;
    let away = |answer: &rallypoint_client::api::ExplainTaskResponse| {
        matches!(kinds(answer)[..], [Kind::TargetAway(_)])
    };
    let answer = until(&scheduler, 2, away).await;
    let [Kind::TargetAway(away)] = &kinds(&answer)[..] else {
        panic!("{answer:?}")
    };
    let [outage] = &away.outages[..] else {
        panic!("{away:?}")
    };
    assert_eq!(
        (away.target.as_str(), outage.replica.as_str()),
        ("far", "test")
    );
    assert!(!outage.error.is_empty() && outage.since.is_some());
    assert!(answer.text.contains(&outage.error), "{}", answer.text);
    // However often it is tried again.
    scheduler.submit([sql("select 1").on("far")]).await;
    let later = explain(&scheduler, 3).await;
    let [Kind::TargetAway(away)] = &kinds(&later)[..] else {
        panic!("{later:?}")
    };
    assert_eq!(away.outages[0].since, outage.since);
    postgres.restart().expect("started again");
    scheduler.all_done().await;
}

#[tokio::test]
async fn a_task_that_runs_says_where_and_one_that_has_ended_how() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    scheduler.submit([gate.task(), noop(), sleep(1)]).await;
    gate.reached_by(1).await;
    let answer = explain(&scheduler, 1).await;
    let running = answer.running.clone().expect("it runs");
    assert_eq!((running.replica.as_str(), running.slot > 0), ("test", true));
    assert!(running.backend_pid > 0 && running.started_at.is_some());
    assert!(answer.text.contains("on replica test"), "{}", answer.text);
    scheduler.scheduler.cancel(1).await.expect("stopped");
    scheduler.all_done().await;
    for (seq, outcome) in [(1, Outcome::Cancelled), (2, Outcome::Succeeded)] {
        let ended = explain(&scheduler, seq).await;
        assert_eq!((ended.state(), ended.outcome()), (TaskState::Done, outcome));
    }
    // Also when the scheduler has left memory.
    scheduler.cancel_everything().await;
    assert_eq!(explain(&scheduler, 3).await.outcome(), Outcome::Succeeded);
    let nothing = scheduler.scheduler.explain(4).await.expect_err("no task");
    assert_eq!(nothing.reason.as_deref(), Some("TASK_NOT_FOUND"));
}
