//! RetryTask with another statement: what it keeps of its task, and what it refuses.

use crate::harness::{
    server::{Server, Setup},
    work::{failing, sql},
};
use rallypoint_client::api::{self, SchedulerSettings, SessionOptions, sql_value::Kind};

fn instead(statement: &str, param: Option<&str>) -> api::RetryTaskRequest {
    let value = |text: &str| api::SqlValue {
        kind: Some(Kind::Text(text.into())),
    };
    api::RetryTaskRequest {
        sql: Some(api::SqlTask {
            statement: statement.into(),
            params: param.map(value).into_iter().collect(),
            target: String::new(),
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn another_statement_than_that_of_the_retry_is_refused_and_the_same_one_is_not() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler
        .submit([sql("select 1 / $1::int").params(&["0"])])
        .await;
    scheduler.all_done().await;
    let retry = |request| scheduler.scheduler.retry_task(1, request);
    let statement = "select 2 / $1::int";
    let first = retry(instead(statement, None)).await.expect("retried");
    assert_eq!((first.seq, first.already_retried), (2, false));
    let kept = scheduler.task(2).await.task.and_then(|task| task.kind);
    let Some(api::task::Kind::Sql(kept)) = kept else {
        panic!("{kept:?}")
    };
    assert_eq!(kept.params, instead("", Some("0")).sql.expect("one").params);
    // Whether the parameters are those of the task or said once more.
    for same in [instead(statement, None), instead(statement, Some("0"))] {
        let again = retry(same).await.expect("it has this retry");
        assert_eq!((again.seq, again.already_retried), (2, true));
    }
    let without = api::RetryTaskRequest {
        no_params: true,
        ..instead(statement, None)
    };
    let on_app = |request: api::RetryTaskRequest| api::RetryTaskRequest {
        sql: request.sql.map(|sql| api::SqlTask {
            target: "app".into(),
            ..sql
        }),
        ..request
    };
    assert!(retry(on_app(instead(statement, None))).await.is_ok());
    for other in [
        instead("select 3", None),
        instead(statement, Some("1")),
        without,
    ] {
        let refused = retry(other).await.expect_err("another one");
        assert!(refused.is("ALREADY_RETRIED"), "{refused:?}");
        assert!(refused.message.contains("retry task 2"), "{refused:?}");
    }
    assert_eq!(scheduler.all_done().await.len(), 2);
}

#[tokio::test]
async fn what_is_said_of_parameters_must_make_sense() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing()]).await;
    scheduler.all_done().await;
    let both = instead("select $1", Some("1"));
    for (request, reason) in [
        (api::RetryTaskRequest::default(), "BODY_EMPTY"),
        (both, "TOO_MANY_PARAMS"),
    ] {
        let request = api::RetryTaskRequest {
            no_params: true,
            ..request
        };
        let refused = scheduler.scheduler.retry_task(1, request).await;
        let refused = refused.expect_err("refused");
        assert!(refused.is(reason), "{refused:?}");
        assert_eq!(refused.violations[0].0, "no_params");
    }
}

#[tokio::test]
async fn a_task_does_not_go_where_its_role_is_not_allowed() {
    let server = Server::with(Setup {
        others: &["reports"],
        roles: &["app"],
        ..Setup::default()
    })
    .await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let session = SessionOptions {
        role: Some("app".into()),
        ..Default::default()
    };
    scheduler.submit([failing().session(session)]).await;
    scheduler.all_done().await;
    let on = |target: &str| api::SqlTask {
        statement: "select 1".into(),
        target: target.into(),
        ..Default::default()
    };
    let refused = scheduler.scheduler.retry_as(1, on("reports")).await;
    let refused = refused.expect_err("not allowed there");
    assert!(refused.is("ROLE_NOT_ALLOWED"), "{refused:?}");
    assert_eq!(refused.violations[0].0, "sql.target");
    let retried = scheduler.scheduler.retry_as(1, on("app")).await;
    assert_eq!(retried.expect("allowed here").seq, 2);
}
