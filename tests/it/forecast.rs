//! ForecastScheduler on a real server: when tasks end that have ended before, and that it says when
//! nobody knows. No test waits for the time that was forecast.

use crate::harness::{
    postgres::connect,
    process::PROGRAM,
    server::{Server, Setup},
    work::{Work, noop, sleep},
};
use rallypoint_client::api::{
    ForecastEnd, ForecastSchedulerRequest, ForecastUnknownReason as Unknown, SchedulerSettings,
};
use serde_json::Value;
use std::process::Command;
use tonic::Code;

fn late(work: Work) -> Work {
    work.order(200)
}

fn reasons(end: Option<&ForecastEnd>) -> Vec<Unknown> {
    let end = end.expect("something is unfinished");
    end.unknown.iter().map(|one| one.reason()).collect()
}

fn seconds(end: Option<&ForecastEnd>) -> (i64, i64) {
    let end = end.expect("something is unfinished");
    let of = |at: Option<prost_types::Timestamp>| at.expect("it is known").seconds;
    (of(end.p50), of(end.p90))
}

/// A server whose log has seen three kinds of tasks end, of 20 ms or a little more.
async fn server() -> Server {
    let server = Server::with(Setup {
        slots: 2,
        ..Setup::default()
    })
    .await;
    let before = server.open(SchedulerSettings::default()).await;
    before.submit(sleep(20).times(30)).await;
    before.submit(sleep(21).times(10)).await;
    before.submit(sleep(22).times(10)).await;
    before.all_done().await;
    server
}

#[tokio::test]
async fn tasks_like_those_that_have_ended_have_an_end_in_sight() {
    let server = server().await;
    // Two tasks of somebody else keep both slots. They are taken to be like one of those that were
    // seen.
    let other = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    other.submit([gate.task(), gate.task()]).await;
    gate.reached_by(2).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let many = sleep(20).order(100).times(20_000).into_iter();
    for call in many.collect::<Vec<_>>().chunks(10_000) {
        scheduler.submit(call.to_vec()).await;
    }
    scheduler.submit(late(sleep(20)).times(1_000)).await;
    let with = |slots: Option<i32>| ForecastSchedulerRequest {
        seqs: vec![1, 20_000],
        slots,
        ..Default::default()
    };
    let answer = scheduler.scheduler.forecast(with(None)).await;
    let answer = answer.expect("a forecast");
    assert_eq!(answer.unfinished, 21_000);
    let orders: Vec<Option<i64>> = answer.orders.iter().map(|one| one.order).collect();
    assert_eq!(orders, [Some(100), Some(200)]);
    let (first, last) = (&answer.orders[0].end, &answer.orders[1].end);
    let (p50, p90) = seconds(first.as_ref());
    assert!(p50 <= p90 && p90 <= seconds(last.as_ref()).1);
    // 20 000 tasks in two slots, as long as those that have ended, and what is between them.
    let ahead = p50 - answer.as_of.expect("a time").seconds;
    let alike = |by: &str| by == "statement";
    let mut basis = answer.basis.iter();
    let basis = basis.find(|basis| basis.alike_by.iter().any(|by| alike(by)));
    let mean = basis.expect("the same statement has ended").mean;
    let mean = mean.expect("a duration");
    let expected = 10_000.0 * (mean.seconds as f64 + f64::from(mean.nanos) / 1e9);
    assert!(
        ahead as f64 > 0.8 * expected,
        "in {ahead} s, not {expected}"
    );
    let (early, end_of_order) = (&answer.tasks[0].end, &answer.tasks[1].end);
    assert!(seconds(early.as_ref()).0 < seconds(end_of_order.as_ref()).0);
    assert!(answer.basis.iter().any(|basis| basis.seen >= 30));
    assert!(answer.runs >= 30 && !answer.omissions.is_empty());
    let more = scheduler.scheduler.forecast(with(Some(16))).await;
    let more = more.expect("a forecast");
    assert!(more.slots.iter().all(|slots| slots.slots == 16));
    let sooner = seconds(more.orders[0].end.as_ref()).0 - more.as_of.expect("a time").seconds;
    assert!(sooner * 3 < ahead, "{sooner} s with 16 slots");
    gate.open().await;
    scheduler.cancel_everything().await;
    other.cancel_everything().await;
}

#[tokio::test]
async fn what_nobody_knows_is_unknown_with_its_reason() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let ask = |seqs: Vec<i64>| ForecastSchedulerRequest {
        seqs,
        ..Default::default()
    };
    let nothing = scheduler.scheduler.forecast(ask(vec![])).await;
    let nothing = nothing.expect("a forecast");
    assert_eq!((nothing.unfinished, nothing.end), (0, None));
    assert_eq!(nothing.text, "nothing is unfinished");
    let mut gate = server.gate().await;
    scheduler.submit([gate.task(), noop().order(1)]).await;
    gate.reached_by(1).await;
    let answer = scheduler.scheduler.forecast(ask(vec![1])).await;
    let answer = answer.expect("a forecast");
    assert_eq!(reasons(answer.end.as_ref()), [Unknown::TooFewSeen]);
    assert_eq!(reasons(answer.tasks[0].end.as_ref()), [Unknown::TooFewSeen]);
    assert!(answer.text.contains("too few"), "{}", answer.text);
    scheduler.scheduler.pause().await.expect("paused");
    scheduler.submit([noop().order(2)]).await;
    let described = scheduler.scheduler.describe_with_forecast().await;
    let (view, answer) = described.expect("described");
    assert!(view.paused);
    let found = reasons(answer.end.as_ref());
    assert_eq!(found, [Unknown::Paused, Unknown::TooFewSeen]);
    gate.open().await;
    scheduler.cancel_everything().await;
}

#[tokio::test]
async fn a_bad_question_is_refused_with_the_field_at_fault() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([noop()]).await;
    let wrong = ForecastSchedulerRequest {
        seqs: vec![0],
        slots: Some(0),
        slots_of_targets: [("nowhere".to_owned(), 4)].into(),
        ..Default::default()
    };
    let refused = scheduler.scheduler.forecast(wrong).await;
    let refused = refused.expect_err("it is refused");
    let fields = refused.violations.iter().map(|(field, _)| field.as_str());
    let fields: Vec<&str> = fields.collect();
    for field in ["seqs[0]", "slots", r#"slots_of_targets["nowhere"]"#] {
        assert!(fields.contains(&field), "{fields:?}");
    }
    let unknown = ForecastSchedulerRequest {
        seqs: vec![2],
        ..Default::default()
    };
    let refused = scheduler.scheduler.forecast(unknown).await;
    let refused = refused.expect_err("there is no second task");
    assert_eq!(refused.code, Code::NotFound);
}

#[tokio::test]
async fn the_command_says_what_the_server_says() {
    let server = server().await;
    let other = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    other.submit([gate.task(), gate.task()]).await;
    gate.reached_by(2).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit(sleep(20).order(100).times(500)).await;
    let (url, handle) = (server.url.clone(), scheduler.handle().to_owned());
    let empty = server.open(SchedulerSettings::default()).await;
    let empty = empty.handle().to_owned();
    let run = move |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["--server", &url, "forecast"]).args(arguments);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = tokio::task::spawn_blocking(move || {
        [
            run(&[&handle]),
            run(&[&handle, "--order", "100"]),
            run(&[&format!("{handle}/7"), "--slots", "8"]),
            run(&[&handle, "--order", "100", "-o", "json"]),
            run(&[&empty]),
        ]
    });
    let [all, order, task, json, nothing] = said.await.expect("all of them end");
    assert!(all.contains("500 unfinished"), "{all}");
    assert_eq!(nothing.matches("unfinished").count(), 1, "{nothing}");
    for one in [&order, &task] {
        assert!(
            one.contains("ends about") && one.contains("nine of ten"),
            "{one}"
        );
    }
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["orders"][0]["unfinished"], 500);
    assert!(json["orders"][0]["end"]["p90"].is_string());
    gate.open().await;
    scheduler.cancel_everything().await;
    other.cancel_everything().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_leaves_the_forecasts_of_others() {
    let server = server().await;
    let spoilt = server.open(SchedulerSettings::default()).await;
    spoilt.submit(sleep(20).times(2)).await;
    spoilt.all_done().await;
    let spoil = format!(
        "update submission set specs = '?' where handle = '{}'",
        spoilt.handle()
    );
    let mut journal = connect(&server.journal).await;
    let spoil = sqlx::AssertSqlSafe(spoil);
    let written = sqlx::raw_sql(spoil).execute(&mut journal).await;
    assert_eq!(written.expect("written").rows_affected(), 1);
    let other = server.open(SchedulerSettings::default()).await;
    let mut gate = server.gate().await;
    other.submit([gate.task(), gate.task()]).await;
    gate.reached_by(2).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit(sleep(20).times(10)).await;
    let answer = scheduler.scheduler.forecast(Default::default()).await;
    let answer = answer.expect("a forecast");
    assert!(answer.basis.iter().any(|basis| basis.seen >= 30));
    gate.open().await;
    scheduler.cancel_everything().await;
    other.cancel_everything().await;
}
