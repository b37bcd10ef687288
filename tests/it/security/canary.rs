//! Nothing secret gets out: random words in passwords, tokens, statements, parameters, results and
//! notices are in no log at any level, no metric, no trace, and no answer to anybody else.

mod mistakes;
mod service;
mod words;

use super::jwt::Key;
use crate::{
    harness::{
        conversation::WAIT_TIMEOUT,
        work::{Work, noop, sql},
    },
    jobs::every,
};
use rallypoint::postgres::COORDINATION;
use rallypoint_client::{Client, Result};
use rallypoint_client::{Scheduler, api};
use service::Service;
use std::{fmt::Debug, time::Duration};
use tokio::time::{sleep, timeout};
use words::Canaries;

/// The keys of an issuer of JWTs, in their document.
fn jwt_keys(canaries: &Canaries) -> String {
    let key = Key::new("ours");
    canaries.watch("a JWT nobody may use", &key.token(&["nobody"]));
    Key::document(&[&key])
}

/// Tasks that end in every way, with a secret in each text and in what comes back.
fn tasks(canaries: &Canaries) -> Vec<Work> {
    let word = |place| canaries.plant(place);
    vec![
        sql(format!("select '{}' as v", word("a text and its result"))).rows(1),
        sql("select $1::text as v")
            .params(&[&word("a parameter and its result")])
            .rows(1),
        sql(format!(
            "do $$ begin raise notice '{}'; end $$",
            word("a notice")
        )),
        sql(format!(
            "do $$ begin raise '{}' using detail = '{}', hint = '{}', errcode = 'RP001'; end $$",
            word("a message"),
            word("a detail"),
            word("a hint")
        ))
        .attempts(2),
        sql(format!("selekt {}", word("a text that is no SQL"))),
        sql("select $1::int").params(&[&word("a parameter that is no number")]),
        sql(format!(
            "create temp table t (v text unique); insert into t values ('{0}'), ('{0}')",
            word("a key that is there twice")
        )),
        sql(format!("copy (select '{}') to stdout", word("a copy"))),
        sql(format!(
            "copy t from stdin /* {} */",
            word("a copy from nowhere")
        )),
        sql(format!("set role \"{}\"", word("the name of a role"))),
        sql(format!(
            "select pg_sleep(60) /* {} */",
            word("a text that takes too long")
        ))
        .timeout(50),
        sql(format!(
            "select pg_terminate_backend(pg_backend_pid()) /* {} */",
            word("a text that ends its session")
        ))
        .losses(1),
        sql(format!(
            "select '{}'",
            word("a text on a target without login")
        ))
        .on("wrong")
        .deadline(300),
        sql(format!(
            "select '{}'",
            word("a text on another target without login")
        ))
        .on("env")
        .deadline(300),
        sql(format!("select '{}'", word("a text with a marker"))).exactly_once(),
        noop(),
    ]
}

/// Texts that are refused before they run.
fn refused(canaries: &Canaries) -> Vec<Work> {
    let word = |place| canaries.plant(place);
    let path = vec![format!("{}\0", word("a search path"))];
    vec![
        sql(format!("select '{}\0'", word("a text with a zero"))),
        sql(word("a text that is too long").repeat(100_000)),
        sql("select $1").params(&[&format!("{}\0", word("a parameter with a zero"))]),
        sql("select 1").session(api::SessionOptions {
            search_path: path,
            ..Default::default()
        }),
        sql("select 1").session(api::SessionOptions {
            role: Some(word("a role that is not allowed")),
            ..Default::default()
        }),
        sql("select 1").on(&word("the name of a target")),
    ]
}

async fn submit(scheduler: &Scheduler, work: Vec<Work>) -> Result<api::ExecAsyncResponse> {
    scheduler
        .exec(work.into_iter().map(Into::into).collect())
        .await
}

/// Everything that becomes of what was submitted.
async fn all_done(scheduler: &Scheduler) -> String {
    let mut stream = scheduler.synchronize(0, None).await.expect("a stream");
    let mut done = Vec::new();
    while let Some(events) = stream.next().await.expect("it goes on") {
        done.extend(events);
    }
    format!("{done:?}")
}

/// What a caller does through a replica, mistakes included.
async fn work(service: &Service, index: usize) -> String {
    let (canaries, client) = (&service.canaries, service.client(index, "etl"));
    let scheduler = client.open(Default::default()).await.expect("opened");
    submit(&scheduler, tasks(canaries))
        .await
        .expect("submitted");
    for work in refused(canaries) {
        let once = scheduler.clone().with_retry_timeout(Default::default());
        submit(&once, vec![work]).await.expect_err("refused");
    }
    let done = all_done(&scheduler).await;
    let shown = canaries.found_in(&done);
    for place in [
        "a text and its result",
        "a parameter and its result",
        "a notice",
        "a message",
    ] {
        assert!(
            shown.contains(&place),
            "its own caller sees {place}: {done}"
        );
    }
    let longest = sql(format!(
        "select pg_sleep(60) /* {} */",
        canaries.plant("a text that runs")
    ));
    let first = submit(&scheduler, vec![longest])
        .await
        .expect("submitted")
        .first_seq;
    runs(&scheduler, first).await;
    scheduler.explain(first).await.expect("explained");
    scheduler.cancel(first).await.expect("cancelled");
    scheduler.retry(4).await.expect("again");
    scheduler.tasks(Default::default()).await.expect("listed");
    all_done(&scheduler).await;
    let job = api::JobSettings {
        schedule: every(86_400),
        steps: vec![sql(format!("select '{}'", canaries.plant("a step of a job"))).into()],
        ..Default::default()
    };
    let name = format!("job-of-{}", scheduler.handle());
    let create = api::CreateJobRequest {
        name: name.clone(),
        settings: Some(job),
        ..Default::default()
    };
    client.create_job(create).await.expect("created");
    let run = api::RunJobRequest {
        name,
        ..Default::default()
    };
    client.run_job(run).await.expect("it runs");
    scheduler.handle().to_owned()
}

/// What a database that refuses a row says holds the row.
async fn refused_by_the_journal(service: &Service) {
    let refuse = "alter table submission add constraint no_secrets \
         check (position('no-secrets'::bytea in bodies) = 0) not valid";
    service.psql(COORDINATION, refuse).await;
    let client = service.client(0, "etl");
    let scheduler = client.open(Default::default()).await.expect("opened");
    let word = service.canaries.plant("a text that the journal refuses");
    let refused = submit(&scheduler, vec![sql(format!("select 'no-secrets {word}'"))]).await;
    service
        .canaries
        .are_not_in("an error", &format!("{:?}", refused.expect_err("refused")));
    let again = "alter table submission drop constraint no_secrets";
    service.psql(COORDINATION, again).await;
}

/// Waits until a task runs.
async fn runs(scheduler: &Scheduler, seq: i64) {
    let is_running = async {
        while scheduler.task(seq).await.expect("a task").state() != api::TaskState::Running {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, is_running).await.expect("it runs");
}

/// Requests that are wrong, and people who are nobody.
async fn nonsense(service: &Service, index: usize) {
    let word = |place| service.canaries.plant(place);
    let exec = "/rallypoint.v1.SchedulerService/ExecAsync";
    let bearer = format!("authorization: Bearer {}", service.token("etl"));
    for message in [
        format!(
            r#"{{"tasks": [{{"sql": {{"statement": "{}""#,
            word("half a message")
        ),
        format!(r#"{{"{}": 1}}"#, word("the name of a field")),
        format!(r#"{{"handle": "{}"}}"#, word("a handle")),
        format!(r#"{{"tasks": "{}"}}"#, word("what should be a list")),
    ] {
        service.curl(index, exec, &["-H", &bearer, "-d", &message]);
    }
    let (_, port) = service.address(index).rsplit_once(':').expect("a port");
    let list = "/rallypoint.v1.SchedulerService/ListSchedulers";
    service.curl(
        index,
        &format!("{list}?message={}", word("an address")),
        &["-H", &bearer],
    );
    for header in [
        format!("authorization: Bearer {}", word("a token nobody has")),
        format!("authorization: Basic {}", word("a password of HTTP")),
        format!("authorization: {}", word("no scheme")),
        format!("cookie: rallypoint-token-{port}={}", word("a cookie")),
        format!("traceparent: {}", word("no traceparent")),
    ] {
        service.curl(index, list, &["-H", &header, "-d", "{}"]);
    }
    for token in [
        word("a token nobody has on the page"),
        service.token("sales").to_owned(),
    ] {
        let message = format!(r#"{{"token": "{token}"}}"#);
        service.curl(index, "/session", &["-d", &message]);
    }
    let other = Key::new("ours").token(&["etl"]);
    service.canaries.watch("a forged JWT", &other);
    for token in [other, word("a token")] {
        let nobody = service.stranger(index, &token);
        nobody
            .schedulers(Default::default())
            .await
            .expect_err("nobody");
    }
}

/// Everything that somebody of another namespace, and whoever sees all of them, sees.
async fn others(service: &Service, index: usize, handle: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for name in ["sales", "root"] {
        let client: Client = service.client(index, name);
        let client = client.with_namespace("sales").expect("a name");
        let own = client.open(Default::default()).await.expect("opened");
        submit(&own, vec![sql("select 1/0"), sql("selekt")])
            .await
            .expect("submitted");
        answers.push(all_done(&own).await);
        let theirs = client.scheduler(handle);
        answers.push(text(theirs.describe().await));
        answers.push(text(theirs.task(1).await));
        answers.push(text(theirs.tasks(Default::default()).await));
        answers.push(text(submit(&theirs, vec![noop()]).await));
        answers.push(text(client.schedulers(Default::default()).await));
        answers.push(text(client.executions().await));
        answers.push(text(client.status().await));
    }
    answers
}

fn text(answer: impl Debug) -> String {
    format!("{answer:?}")
}

#[tokio::test]
async fn nothing_secret_is_logged_counted_traced_or_shown_to_others() {
    let mut service = Service::start().await;
    let mut shown = Vec::new();
    for index in [0, 1] {
        let handle = work(&service, index).await;
        nonsense(&service, index).await;
        shown.extend(others(&service, 1 - index, &handle).await);
    }
    refused_by_the_journal(&service).await;
    shown.extend([0, 1].map(|index| service.metrics(index)));
    // The other replica goes on with what it reads of the journal.
    let first = service.kill(0);
    work(&service, 1).await;
    shown.push(service.metrics(1));
    let logs = [first, service.stop(1).await];
    for log in &logs {
        for part in ["TRACE h2::", "TRACE rustls::", "DEBUG rallypoint::"] {
            assert!(log.contains(part), "nothing of {part} is logged");
        }
        service.canaries.are_not_in("the log", log);
    }
    for shown in shown {
        service.canaries.are_not_in("what others see", &shown);
    }
    assert!(service.collector.count() > 100, "tasks are traced");
    service
        .canaries
        .are_not_in("a trace", &service.collector.everything());
}
