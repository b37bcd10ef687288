//! A server with limits, calls that exceed them, and what such a call is answered.

use crate::harness::{
    server::{Server, Setup},
    work::Work,
};
use rallypoint::core::model::limits::Limits;
use rallypoint_client::api::{ExecAsyncRequest, scheduler_service_client::SchedulerServiceClient};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

/// What the answer to a call over a quota says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub reason: String,
    pub limit: String,
    pub value: i64,
    pub subject: String,
    /// It says when to come back.
    pub comes_back: bool,
}

/// The refusal that a call came back with; its details agree with each other.
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> Refusal {
    let status = result.expect_err("it is over the limit");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("ErrorInfo");
    let [violation] = &details.quota_failure().expect("QuotaFailure").violations[..] else {
        panic!("one violation")
    };
    assert_eq!(info.metadata["limit"], violation.quota_metric);
    assert_eq!(info.metadata["value"], violation.quota_value.to_string());
    assert!(
        violation.description.contains(&violation.quota_metric),
        "{violation:?}"
    );
    assert_eq!(info.metadata["effect"], "none");
    // What an operator sets is named, with what to do about it.
    let option = info.metadata.get("option").map(String::as_str);
    assert_eq!(option, option_of(&violation.quota_metric));
    let remedy = option.unwrap_or("wait for");
    for text in [status.message(), &violation.description] {
        assert!(text.contains(remedy), "{text}");
    }
    Refusal {
        reason: info.reason.clone(),
        limit: violation.quota_metric.clone(),
        value: violation.quota_value,
        subject: violation.subject.clone(),
        comes_back: details
            .retry_info()
            .is_some_and(|info| info.retry_delay.is_some_and(|wait| !wait.is_zero())),
    }
}

/// The option of `serve` that sets a limit.
fn option_of(limit: &str) -> Option<&'static str> {
    Some(match limit {
        "open_schedulers" => "--max-schedulers",
        "queued_tasks" => "--max-queued-tasks",
        "queued_bytes" => "--max-queued-mib",
        "submit_rate" => "--max-submit-rate",
        "streams" => "--max-streams",
        _ => return None,
    })
}

/// A refusal of the default namespace that says when to come back.
pub(super) fn over(reason: &str, limit: &str, value: i64) -> Refusal {
    Refusal {
        reason: reason.into(),
        limit: limit.into(),
        value,
        subject: "namespace:default".into(),
        comes_back: true,
    }
}

pub(super) fn exec(handle: &str, work: impl IntoIterator<Item = Work>) -> ExecAsyncRequest {
    let tasks = work.into_iter().map(Into::into).collect();
    ExecAsyncRequest {
        handle: handle.into(),
        tasks,
        ..Default::default()
    }
}

/// A server with these limits, and its calls without the repetitions of the client.
pub(super) async fn limited(limits: Limits) -> (Server, SchedulerServiceClient<Channel>) {
    let server = Server::with(Setup {
        trusted: true,
        limits,
        ..Setup::default()
    })
    .await;
    let calls = server.raw();
    (server, calls)
}
