//! Retrying tasks that ended in vain: one of them, or all that failed.

use crate::harness::{
    cluster::Cluster,
    conversation::Conversation,
    postgres::connect,
    server::Server,
    work::{Work, failing, noop, sql},
};
use rallypoint::postgres::TARGET;
use rallypoint_client::api::{
    self, OnFailure, Outcome, ReleaseMode, SchedulerSettings, end::Reason, until::Kind,
};
use sqlx::{AssertSqlSafe, Executor, postgres::PgConnectOptions};

fn halting() -> SchedulerSettings {
    SchedulerSettings {
        on_failure: OnFailure::Halt.into(),
        ..Default::default()
    }
}

/// Fails as long as the table `fixed` does not exist.
fn broken() -> Work {
    sql("select * from fixed")
}

async fn repair(target: &PgConnectOptions) {
    let repaired = connect(target).await.execute("create table fixed ()").await;
    repaired.expect("a table");
}

async fn retry_all(scheduler: &Conversation, filter: Option<api::TaskFilter>) -> Vec<(i64, i64)> {
    let (mut retried, mut page) = (Vec::new(), String::new());
    loop {
        let call = scheduler.scheduler.retry_failed(filter.clone(), page);
        let answer = call.await.expect("retried");
        let first = answer.first_seq.unwrap_or_default();
        retried.extend(answer.retried.iter().copied().zip(first..));
        page = answer.next_page_token;
        if page.is_empty() {
            return retried;
        }
    }
}

#[tokio::test]
async fn a_halt_opens_by_itself_when_the_retry_of_each_failure_succeeds() {
    let server = Server::start().await;
    let scheduler = server.open(halting()).await;
    let works = [broken().order(100), broken().order(100), noop().order(200)];
    scheduler.submit(works).await;
    let first = scheduler.read_stream(0, None).await;
    assert_eq!(first.reason(), Reason::Halted);
    assert_eq!(first.end.halt.and_then(|halt| halt.failures), Some(2));
    repair(&server.app).await;
    let one = scheduler.scheduler.retry(1).await.expect("retried");
    assert_eq!((one.seq, one.already_retried), (4, false));
    let halted = |failures| {
        move |now: &api::Scheduler| now.halt.as_ref().and_then(|halt| halt.failures) == failures
    };
    scheduler.until(halted(Some(1))).await;
    assert_eq!(retry_all(&scheduler, None).await, [(2, 5)]);
    let last = scheduler.read_stream(2, Some(Kind::All(()))).await;
    assert_eq!(last.reason(), Reason::Goal);
    let events: Vec<_> = last
        .done
        .iter()
        .map(|done| (done.seq, done.retry_of))
        .collect();
    assert_eq!(events, [(4, Some(1)), (5, Some(2)), (3, None)]);
    let shown = scheduler.task(1).await;
    assert_eq!((shown.retry_of, shown.retried_as), (None, Some(4)));
    let copy = scheduler.task(4).await;
    assert_eq!((copy.retry_of, copy.retried_as), (Some(1), None));
    assert_eq!(copy.task, shown.task);
}

#[tokio::test]
async fn a_task_has_one_retry_however_often_it_is_asked_for() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing()]).await;
    scheduler.all_done().await;
    let calls = (0..16).map(|_| scheduler.scheduler.retry(1));
    let answers = futures_util::future::join_all(calls).await;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|one| one.expect("retried"))
        .collect();
    assert!(answers.iter().all(|answer| answer.seq == 2));
    let new = answers.iter().filter(|answer| !answer.already_retried);
    assert_eq!(new.count(), 1);
    assert_eq!(scheduler.all_done().await.len(), 2);
    assert_eq!(
        scheduler
            .scheduler
            .describe()
            .await
            .expect("described")
            .submitted,
        2
    );
}

#[tokio::test]
async fn many_callers_at_once_retry_each_failed_task_once() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit(failing().times(1500)).await;
    scheduler.all_done().await;
    scheduler.scheduler.pause().await.expect("paused");
    let calls = (0..4).map(|_| retry_all(&scheduler, None));
    let answers = futures_util::future::join_all(calls).await;
    let mut retried: Vec<i64> = answers.iter().flatten().map(|(seq, _)| *seq).collect();
    retried.sort_unstable();
    assert!(retried.iter().copied().eq(1..=1500), "{retried:?}");
    scheduler.scheduler.resume(false).await.expect("resumed");
    let events = scheduler.all_done().await;
    let mut of: Vec<i64> = events.iter().filter_map(|done| done.retry_of).collect();
    of.sort_unstable();
    assert!(of == retried, "{of:?}");
    let again = retry_all(&scheduler, None).await;
    assert_eq!(
        again.len(),
        1500,
        "each retry once, although they fail meanwhile"
    );
}

#[tokio::test]
async fn a_filter_says_which_failures_are_retried() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let labelled = failing().order(100).label("team", "sales");
    let gate = server.gate().await;
    let works = [
        failing().order(100),
        labelled,
        broken().order(100),
        noop().order(100),
        failing(),
        gate.task(),
    ];
    scheduler.submit(works).await;
    scheduler.until(|now| now.done == 5).await;
    scheduler.scheduler.cancel(6).await.expect("cancelled");
    scheduler.all_done().await;
    let with = |filter| retry_all(&scheduler, Some(filter));
    let labels = [("team".to_owned(), "sales".to_owned())].into();
    let by_label = api::TaskFilter {
        labels,
        ..Default::default()
    };
    assert_eq!(with(by_label).await, [(2, 7)]);
    let by_code = api::TaskFilter {
        error_codes: vec!["42P01".into()],
        ..Default::default()
    };
    assert_eq!(with(by_code).await, [(3, 8)]);
    let cancelled = api::TaskFilter {
        outcomes: vec![Outcome::Cancelled.into()],
        ..Default::default()
    };
    assert_eq!(with(cancelled).await, [(6, 9)]);
    gate.open().await;
    let by_order = api::TaskFilter {
        effective_order: Some(100),
        outcomes: vec![Outcome::Failed.into()],
        ..Default::default()
    };
    let again = with(by_order).await;
    assert_eq!(again[0], (1, 10));
    assert!(
        again.iter().all(|(seq, _)| [1, 7, 8].contains(seq)),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_repeated_call_under_its_request_id_answers_the_same() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit(failing().times(3)).await;
    scheduler.all_done().await;
    let mut client = server.raw();
    let request = api::RetryFailedRequest {
        handle: scheduler.handle().to_owned(),
        request_id: "01890000-0000-7000-8000-000000000001".into(),
        ..Default::default()
    };
    let first = client.retry_failed(request.clone()).await.expect("retried");
    let again = client
        .retry_failed(request.clone())
        .await
        .expect("repeated");
    let (first, again) = (first.into_inner(), again.into_inner());
    assert_eq!(first.retried, [1, 2, 3]);
    assert_eq!(
        (&first.retried, first.first_seq, first.done_no),
        (&again.retried, again.first_seq, again.done_no)
    );
    let other = api::RetryFailedRequest {
        filter: Some(api::TaskFilter {
            effective_order: Some(1),
            ..Default::default()
        }),
        ..request
    };
    let refused = client
        .retry_failed(other)
        .await
        .expect_err("another payload");
    assert_eq!(refused.code(), tonic::Code::AlreadyExists);
}

#[tokio::test]
async fn what_cannot_be_retried_is_refused_and_says_why() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let gate = server.gate().await;
    scheduler.submit([noop(), gate.task(), failing()]).await;
    scheduler.until(|now| now.done == 2).await;
    for (seq, reason) in [
        (1, "TASK_SUCCEEDED"),
        (2, "TASK_UNFINISHED"),
        (4, "TASK_NOT_FOUND"),
    ] {
        let refused = scheduler.scheduler.retry(seq).await.expect_err("refused");
        assert!(refused.is(reason), "{refused:?}");
    }
    gate.open().await;
    let released = scheduler.scheduler.release(ReleaseMode::Finish, true).await;
    released.expect("released");
    let refused = scheduler.scheduler.retry(3).await.expect_err("released");
    assert!(refused.is("HANDLE_RELEASED"), "{refused:?}");
    let refused = scheduler.scheduler.retry_failed(None, String::new()).await;
    assert!(refused.expect_err("released").is("HANDLE_RELEASED"));
}

#[tokio::test]
async fn retries_are_known_to_the_next_owner() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client_of_all();
    let scheduler = cluster.open(&client, halting()).await;
    scheduler.submit([broken().order(1), noop().order(2)]).await;
    scheduler.until(|now| now.halt.is_some()).await;
    scheduler.scheduler.pause().await.expect("paused");
    assert_eq!(scheduler.scheduler.retry(1).await.expect("retried").seq, 3);
    let owner = cluster.owner().await;
    cluster.kill_9(owner);
    let again = scheduler.scheduler.retry(1).await.expect("retried before");
    assert_eq!((again.seq, again.already_retried), (3, true));
    repair(&cluster.postgres.options_for(TARGET, TARGET)).await;
    scheduler.scheduler.resume(false).await.expect("resumed");
    let repaired = |now: &api::Scheduler| now.done == 3 && now.halt.is_none();
    scheduler.until(repaired).await;
    let outcome = scheduler.task(3).await.done.map(|done| done.outcome());
    assert_eq!(outcome, Some(Outcome::Succeeded));
}

#[tokio::test]
async fn the_log_names_a_task_and_its_retry() {
    let server = Server::start().await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([failing(), noop()]).await;
    scheduler.all_done().await;
    scheduler.scheduler.retry(1).await.expect("retried");
    scheduler.all_done().await;
    let shown = |of: &str| {
        format!(
            "select string_agg(concat_ws('|', seq, outcome, coalesce(retry_of, 0),
                coalesce(retried_as, 0)), ' ' order by seq)
            from rallypoint_log.{of}"
        )
    };
    let handle = scheduler.handle();
    let all = "1|failed|0|3 2|succeeded|0|0 3|failed|1|0";
    let failed = "1|failed|0|3 3|failed|1|0";
    for (of, wanted) in [
        (format!("execution_log where handle = '{handle}'"), all),
        ("executions_since('1 hour')".to_owned(), all),
        ("failures".to_owned(), failed),
        (format!("task('{handle}', 3)"), "3|failed|1|0"),
        (format!("task('{handle}', 1)"), "1|failed|0|3"),
    ] {
        assert_eq!(text(&server.journal, shown(&of)).await, wanted, "{of}");
    }
    let steps = "select concat_ws('|', seq, attempt, event, retry)
        from rallypoint_log.attempts
        where event = 'retried'";
    assert_eq!(
        text(&server.journal, steps.to_owned()).await,
        "1|0|retried|3"
    );
}

async fn text(journal: &PgConnectOptions, query: String) -> String {
    let mut psql = connect(journal).await;
    let text = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut psql);
    text.await.expect("a text")
}

#[tokio::test]
async fn a_wrong_statement_is_retried_as_another_one() {
    let server = Server::start().await;
    let scheduler = server.open(halting()).await;
    let wrong = sql("select 1/0").order(100).rows(1);
    scheduler.submit([wrong, noop().order(200)]).await;
    scheduler.until(|now| now.halt.is_some()).await;
    let right = |statement: &str| api::SqlTask {
        statement: statement.into(),
        params: vec![api::SqlValue {
            kind: Some(api::sql_value::Kind::Text("7".into())),
        }],
        target: String::new(),
    };
    let empty = scheduler.scheduler.retry_as(1, right("")).await;
    assert!(empty.expect_err("refused").is("BODY_EMPTY"));
    let elsewhere = api::SqlTask {
        target: "nowhere".into(),
        ..right("select 1")
    };
    let elsewhere = scheduler.scheduler.retry_as(1, elsewhere).await;
    assert!(elsewhere.expect_err("refused").is("TARGET_UNKNOWN"));
    let retry = scheduler
        .scheduler
        .retry_as(1, right("select $1::int as a"));
    assert_eq!(retry.await.expect("retried").seq, 3);
    let again = scheduler.scheduler.retry(1).await.expect("it has one");
    assert_eq!((again.seq, again.already_retried), (3, true));
    scheduler.all_done().await;
    let copy = scheduler.task(3).await;
    let task = copy.task.clone().expect("as submitted");
    let Some(api::task::Kind::Sql(sql)) = task.kind else {
        panic!("{task:?}")
    };
    assert_eq!(
        (sql.statement.as_str(), sql.target.as_str(), task.order),
        ("select $1::int as a", "app", Some(100))
    );
    let done = copy.done.expect("it has ended");
    assert_eq!(
        (done.outcome(), done.retry_of),
        (Outcome::Succeeded, Some(1))
    );
    assert_eq!(
        done.result.map(|result| result.rows_json),
        Some("[{\"a\":7}]".into())
    );
}
