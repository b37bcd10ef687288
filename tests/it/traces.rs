//! Traces: what a collector is sent of the tasks of a call, below the span of the caller.

use crate::harness::{
    cluster::Cluster,
    collector::{Collector, attribute, has_failed, hex, kind},
    conversation::Conversation,
    work::{Work, noop, sql},
};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rallypoint_client::api::{
    ExecAsyncRequest, RetryTaskRequest, SchedulerSettings, TaskId,
    scheduler_service_client::SchedulerServiceClient,
};
use tonic::{Request, transport::Channel};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const CALL: &str = "rallypoint.v1.SchedulerService/ExecAsync";

/// A call with the span of its caller.
fn traced<T>(message: T, trace: &str, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{trace}-{SPAN}-{flags}");
    let parent = parent.parse().expect("metadata");
    request.metadata_mut().insert("traceparent", parent);
    request
}

fn exec(scheduler: &Conversation, work: impl IntoIterator<Item = Work>) -> ExecAsyncRequest {
    ExecAsyncRequest {
        handle: scheduler.handle().to_owned(),
        tasks: work.into_iter().map(Into::into).collect(),
        ..Default::default()
    }
}

/// Two replicas that send spans of calls whose callers want them, and the client of the one that
/// does not own the shard.
async fn replicas(
    collector: &Collector,
) -> (Cluster, Conversation, SchedulerServiceClient<Channel>) {
    let url = collector.url();
    let options = ["--otlp-endpoint", &url, "--trace-ratio", "0"];
    let cluster = Cluster::with_options(2, &options).await;
    let other = 1 - cluster.owner().await;
    let client = cluster.client(other);
    let scheduler = cluster.open(&client, SchedulerSettings::default()).await;
    let raw = SchedulerServiceClient::connect(cluster.url(other)).await;
    (cluster, scheduler, raw.expect("connected"))
}

#[tokio::test]
async fn the_way_of_a_task_is_shown_below_the_span_of_its_caller() {
    let collector = Collector::start().await;
    let (_cluster, scheduler, mut raw) = replicas(&collector).await;
    let request = exec(
        &scheduler,
        [sql("select current_query() as q").rows(1).order(3)],
    );
    let accepted = raw.exec_async(traced(request, TRACE, "01")).await;
    assert_eq!(accepted.expect("accepted").get_ref().first_seq, 1);
    let done = scheduler.all_done().await;
    let trace = collector.whole_trace(TRACE, 6).await;
    assert_eq!(
        trace.names(),
        ["attempt", "done", CALL, "sql/app", "task", "wait"]
    );
    let (call, task) = (trace.span(CALL), trace.span("task"));
    assert_eq!(hex(&call.parent_span_id), SPAN);
    assert_eq!(kind(call), SpanKind::Server);
    assert_eq!(trace.below(call).names(), ["task"]);
    assert_eq!(trace.below(task).names(), ["attempt", "done", "wait"]);
    let (attempt, statement) = (trace.span("attempt"), trace.span("sql/app"));
    assert_eq!(trace.below(attempt).names(), ["sql/app"]);
    assert_eq!(kind(statement), SpanKind::Client);
    for (span, key, value) in [
        (call, "rallypoint.tasks", "1"),
        (call, "rallypoint.namespace", "default"),
        (task, "rallypoint.handle", scheduler.handle()),
        (task, "rallypoint.seq", "1"),
        (task, "rallypoint.order", "3"),
        (task, "rallypoint.outcome", "succeeded"),
        (attempt, "rallypoint.attempt", "1"),
        (attempt, "rallypoint.outcome", "succeeded"),
        (statement, "db.system.name", "postgresql"),
        (statement, "rallypoint.target", "app"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{key}");
    }
    let executor = attribute(attempt, "rallypoint.executor").expect("an executor");
    assert!(["r0", "r1"].contains(&&executor[..]), "{executor}");
    assert!(!trace.0.iter().any(has_failed));
    // One follows the other, and all lie within the task.
    let (wait, end) = (trace.span("wait"), trace.span("done"));
    assert_eq!(wait.start_time_unix_nano, task.start_time_unix_nano);
    assert_eq!(wait.end_time_unix_nano, attempt.start_time_unix_nano);
    assert!(attempt.start_time_unix_nano <= statement.start_time_unix_nano);
    assert_eq!(statement.end_time_unix_nano, attempt.end_time_unix_nano);
    assert_eq!(attempt.end_time_unix_nano, end.start_time_unix_nano);
    assert_eq!(end.end_time_unix_nano, task.end_time_unix_nano);
    // Who looks at the target sees which span a statement belongs to.
    let result = done[0].result.as_ref().expect("a result");
    let label = format!("traceparent='00-{TRACE}-{}-01'", hex(&statement.span_id));
    assert!(result.rows_json.contains(&label), "{}", result.rows_json);
    let resource = collector.first_resource();
    let service = ("service.name".to_owned(), "rallypoint".to_owned());
    assert!(resource.contains(&service), "{resource:?}");
}

#[tokio::test]
async fn a_retry_is_a_trace_of_its_own_and_names_what_it_repeats() {
    let collector = Collector::start().await;
    let (_cluster, scheduler, mut raw) = replicas(&collector).await;
    // Nothing of these is shown, however it ends.
    let text = "do $$ begin raise notice 'planted-notice'; raise 'planted-message'; end $$ \
                /* planted-text */";
    let shown = sql("select $1::int /* planted-text */").params(&["planted-value"]);
    let request = exec(&scheduler, [sql(text).attempts(2), shown, noop()]);
    raw.exec_async(traced(request, TRACE, "01"))
        .await
        .expect("accepted");
    scheduler.all_done().await;
    let first = collector.whole_trace(TRACE, 1 + 7 + 5 + 4).await;
    let failed = first.0.iter().find(|span| {
        let is = |key, value: &str| attribute(span, key).as_deref() == Some(value);
        span.name == "task" && is("rallypoint.seq", "1")
    });
    let failed = failed.expect("the first task");
    assert!(has_failed(failed));
    for (key, value) in [
        ("error.type", "P0001"),
        ("rallypoint.outcome", "failed"),
        ("rallypoint.attempts", "2"),
    ] {
        assert_eq!(attribute(failed, key).as_deref(), Some(value), "{key}");
    }
    let below = first.below(failed);
    assert_eq!(below.names(), ["attempt", "attempt", "done", "wait"]);
    let retry = RetryTaskRequest {
        id: Some(TaskId {
            handle: scheduler.handle().to_owned(),
            seq: 1,
        }),
        ..Default::default()
    };
    let elsewhere = "8af92f3577b34da6a3ce929d0e0e4736";
    let retried = raw.retry_task(traced(retry, elsewhere, "01")).await;
    assert_eq!(retried.expect("retried").get_ref().seq, 4);
    scheduler.all_done().await;
    let copy = collector.linked_to(failed).await;
    assert!(![TRACE, elsewhere].contains(&&hex(&copy.trace_id)[..]));
    for (key, value) in [("rallypoint.seq", "4"), ("rallypoint.retry_of", "1")] {
        assert_eq!(attribute(&copy, key).as_deref(), Some(value), "{key}");
    }
    let second = collector.whole_trace(&hex(&copy.trace_id), 8).await;
    assert_eq!(second.below(&copy).names(), below.names());
    let call = second.span("rallypoint.v1.SchedulerService/RetryTask");
    assert!(call.parent_span_id.is_empty(), "it begins the trace");
    assert_eq!(copy.parent_span_id, call.span_id);
    assert_eq!(hex(&call.links[0].trace_id), elsewhere);
    let everything = collector.everything();
    assert!(everything.contains("22P02"), "the value is none");
    assert!(!everything.contains("planted"), "{everything}");
}

#[tokio::test]
async fn a_caller_says_whether_it_is_traced() {
    let collector = Collector::start().await;
    let (mut cluster, scheduler, mut raw) = replicas(&collector).await;
    let unsampled = "1af92f3577b34da6a3ce929d0e0e4736";
    let one = || exec(&scheduler, [noop()]);
    raw.exec_async(traced(one(), unsampled, "00"))
        .await
        .expect("accepted");
    let mut nonsense = Request::new(one());
    let none = "00-4bf92f35-00f067aa0ba902b7-01".parse().expect("metadata");
    nonsense.metadata_mut().insert("traceparent", none);
    raw.exec_async(nonsense).await.expect("accepted");
    raw.exec_async(one()).await.expect("accepted");
    raw.exec_async(traced(one(), TRACE, "01"))
        .await
        .expect("accepted");
    scheduler.all_done().await;
    // Both say all they have before they stop.
    for index in [0, 1] {
        cluster.terminate(index).await;
    }
    let names = collector.trace(TRACE);
    assert_eq!(names.names(), ["attempt", "done", CALL, "task", "wait"]);
    assert_eq!(collector.count(), names.0.len());
}

#[tokio::test]
async fn a_task_stays_in_its_trace_when_the_owner_dies() {
    let collector = Collector::start().await;
    let (mut cluster, scheduler, mut raw) = replicas(&collector).await;
    scheduler.scheduler.pause().await.expect("paused");
    let request = traced(exec(&scheduler, [sql("select 1")]), TRACE, "01");
    raw.exec_async(request).await.expect("accepted");
    let call = collector.whole_trace(TRACE, 1).await;
    let owner = cluster.owner().await;
    cluster.kill_9(owner);
    let resumed = scheduler.scheduler.resume(false).await;
    resumed.expect("resumed");
    scheduler.all_done().await;
    let trace = collector.whole_trace(TRACE, 6).await;
    assert_eq!(trace.below(call.span(CALL)).names(), ["task"]);
    let below = trace.below(trace.span("task"));
    assert_eq!(below.names(), ["attempt", "done", "wait"]);
    assert_eq!(trace.below(trace.span("attempt")).names(), ["sql/app"]);
}
