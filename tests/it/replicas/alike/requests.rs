//! Requests of every kind to every call: right ones, wrong ones, and what is no request at all.

use crate::rng::Rng;
use prost::Message;
use rallypoint_client::api::{self, task::Kind};
use std::fmt;

/// Every unary call, and those with a stream of answers.
pub(super) const CALLS: [&str; 51] = [
    "SchedulerService/GetScheduler",
    "SchedulerService/ExecAsync",
    "SchedulerService/ReleaseScheduler",
    "SchedulerService/DescribeScheduler",
    "SchedulerService/ListSchedulers",
    "SchedulerService/UpdateScheduler",
    "SchedulerService/PauseScheduler",
    "SchedulerService/ResumeScheduler",
    "SchedulerService/CancelTask",
    "SchedulerService/CancelTasks",
    "SchedulerService/RetryTask",
    "SchedulerService/RetryFailed",
    "SchedulerService/GetTask",
    "SchedulerService/ExplainTask",
    "SchedulerService/ForecastScheduler",
    "SchedulerService/ListTasks",
    "SchedulerService/ListAttempts",
    "SchedulerService/Synchronization",
    "StatusService/GetStatus",
    "StatusService/ListExecutions",
    "StatusService/WatchExecutions",
    "ResourceService/CreateResource",
    "ResourceService/UpdateResource",
    "ResourceService/GetResource",
    "ResourceService/WatchResource",
    "ResourceService/ListResources",
    "ResourceService/DeleteResource",
    "ResourceService/Acquire",
    "ResourceService/TryAcquire",
    "ResourceService/GetClaim",
    "ResourceService/Renew",
    "ResourceService/Release",
    "ResourceService/ForceRelease",
    "JobService/CreateJob",
    "JobService/UpdateJob",
    "JobService/DeleteJob",
    "JobService/GetJob",
    "JobService/ListJobs",
    "JobService/RunJob",
    "JobService/PauseJob",
    "JobService/ResumeJob",
    "JobService/PreviewSchedule",
    "JobService/ListRuns",
    "JobService/GetRun",
    "JobService/CancelRun",
    "JobService/BackfillJob",
    "JobService/ClaimRun",
    "JobService/RenewRun",
    "JobService/FinishRun",
    "JobService/StartAgent",
    "JobService/StopAgent",
];
/// Stands for the handle of a scheduler; as long as one.
const HANDLE: &str = "HHHHHHHH-HHHH-7HHH-8HHH-HHHHHHHHHHHH";
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";
/// More than the transport takes.
const TOO_LARGE: usize = (5 << 20) + 1;

/// A request to one call.
pub(super) struct Request {
    pub call: &'static str,
    pub metadata: Vec<(&'static str, &'static str)>,
    /// What follows the headers: by right one message behind its prefix.
    pub body: Vec<u8>,
}

/// Requests without an end.
pub(super) struct Requests(pub(super) Rng);

impl Requests {
    pub(super) fn new(rng: Rng) -> Requests {
        Requests(rng)
    }

    pub(super) fn next(&mut self, call: &'static str) -> Request {
        let endless = [
            "/Synchronization",
            "/WatchExecutions",
            "/WatchResource",
            "/Acquire",
        ];
        let endless = endless.iter().any(|stream| call.ends_with(stream));
        let body = match self.0.below(40) {
            0 => framed(0, &[b'x'; TOO_LARGE]),
            1..4 => Vec::new(),
            4..8 => self.broken_frame(call),
            8..12 if endless => framed(0, &[0xff; 64]),
            8..12 => self.garbage(),
            // What is right would be answered with a stream that does not end.
            _ if endless => framed(0, &wrong_stream(call)),
            12..16 => self.damaged(call),
            _ => framed(0, &self.message(call)),
        };
        Request {
            call,
            metadata: self.metadata(),
            body,
        }
    }

    fn metadata(&mut self) -> Vec<(&'static str, &'static str)> {
        match self.0.below(12) {
            0 => vec![("rallypoint-caller", "one"), ("rallypoint-caller", "two")],
            1 => vec![("rallypoint-caller", "")],
            2 => vec![("rallypoint-namespace", "default")],
            3 => vec![("grpc-encoding", "gzip")],
            4 => vec![("x-unknown-bin", "AAEC")],
            _ => vec![("rallypoint-caller", "alike")],
        }
    }

    /// A message of the call, right in most of its fields.
    fn message(&mut self, call: &str) -> Vec<u8> {
        let handle = self.handle();
        match call.rsplit('/').next().unwrap_or_default() {
            "GetScheduler" => self.get_scheduler().encode_to_vec(),
            "ExecAsync" => api::ExecAsyncRequest {
                handle,
                request_id: self.request_id(),
                tasks: (0..self.0.below(4)).map(|_| self.task()).collect(),
            }
            .encode_to_vec(),
            "ReleaseScheduler" => api::ReleaseSchedulerRequest {
                handle: if self.0.percent(80) {
                    NOBODY.into()
                } else {
                    handle
                },
                mode: self.0.below(4) as i32,
                wait: false,
            }
            .encode_to_vec(),
            "UpdateScheduler" => api::UpdateSchedulerRequest {
                handle,
                settings: Some(self.settings()),
                update_mask: Some(prost_types::FieldMask {
                    paths: vec![(*self.0.one_of(&["weight", "labels", "nothing"])).into()],
                }),
            }
            .encode_to_vec(),
            "ListSchedulers" => api::ListSchedulersRequest {
                page_size: self.0.below(6) as i32 - 1,
                page_token: self.page_token(),
                filter: self.0.percent(50).then(|| self.scheduler_filter()),
            }
            .encode_to_vec(),
            "ListTasks" => api::ListTasksRequest {
                handle,
                page_size: self.0.below(6) as i32 - 1,
                page_token: self.page_token(),
                filter: self.0.percent(50).then(|| self.task_filter()),
            }
            .encode_to_vec(),
            "CancelTasks" => self.cancel_tasks(handle).encode_to_vec(),
            "ListExecutions" => api::ListExecutionsRequest {
                page_size: self.0.below(6) as i32 - 1,
                page_token: self.page_token(),
            }
            .encode_to_vec(),
            "RetryFailed" => self.retry_failed(handle).encode_to_vec(),
            // The same field holds the name of the task in all of them.
            "CancelTask" | "RetryTask" | "GetTask" | "ExplainTask" | "ListAttempts" => {
                self.of_task(handle).encode_to_vec()
            }
            _ if call.starts_with("ResourceService") => self.of_resources(call),
            // The first field is the handle, or the name of a job, and there is none in those of
            // the status.
            _ => api::PauseSchedulerRequest { handle }.encode_to_vec(),
        }
    }

    fn get_scheduler(&mut self) -> api::GetSchedulerRequest {
        let name = *self.0.one_of(&["", "", "alike", "two words"]);
        let settings = self.0.percent(70).then(|| self.settings());
        if name == "alike" {
            // The first that is asked opens it, which alone is remembered, and the second finds it.
            return api::GetSchedulerRequest {
                settings,
                name: name.into(),
                reuse: true,
                ..Default::default()
            };
        }
        api::GetSchedulerRequest {
            settings,
            request_id: self.request_id(),
            name: name.into(),
            reuse: self.0.percent(20),
        }
    }

    fn of_task(&mut self, handle: String) -> api::GetTaskRequest {
        api::GetTaskRequest {
            id: self.0.percent(90).then(|| api::TaskId {
                handle,
                seq: self.0.below(6) as i64 - 1,
            }),
        }
    }

    fn cancel_tasks(&mut self, handle: String) -> api::CancelTasksRequest {
        api::CancelTasksRequest {
            handle,
            filter: self.0.percent(80).then(|| api::TaskFilter {
                states: vec![self.0.below(7) as i32],
                ..Default::default()
            }),
            dry_run: self.0.percent(50),
            last_seq: self.0.percent(30).then(|| self.0.below(6) as i64 - 1),
            page_token: self.page_token(),
        }
    }

    fn retry_failed(&mut self, handle: String) -> api::RetryFailedRequest {
        api::RetryFailedRequest {
            handle,
            request_id: self.request_id(),
            filter: self.0.percent(50).then(|| api::TaskFilter {
                outcomes: vec![self.0.below(8) as i32],
                ..Default::default()
            }),
            page_token: self.page_token(),
        }
    }

    fn scheduler_filter(&mut self) -> api::SchedulerFilter {
        api::SchedulerFilter {
            states: vec![self.0.below(9) as i32],
            name: (*self.0.one_of(&["", "a", "two words"])).into(),
            ..Default::default()
        }
    }

    fn task_filter(&mut self) -> api::TaskFilter {
        api::TaskFilter {
            states: vec![self.0.below(9) as i32],
            outcomes: (0..self.0.below(3) as i32).collect(),
            ..Default::default()
        }
    }

    fn settings(&mut self) -> api::SchedulerSettings {
        api::SchedulerSettings {
            display_name: "x".repeat(self.0.place(400)),
            max_parallelism: self.0.percent(50).then(|| self.0.below(4) as i32 - 1),
            on_failure: self.0.below(5) as i32,
            ..Default::default()
        }
    }

    fn task(&mut self) -> api::Task {
        let kind = match self.0.below(4) {
            0 => None,
            1 => Some(Kind::Sql(api::SqlTask {
                target: (*self.0.one_of(&["", "app", "nobody"])).into(),
                statement: "select 1".into(),
                ..Default::default()
            })),
            _ => Some(Kind::Noop(api::NoopTask::default())),
        };
        api::Task {
            kind,
            order: self.0.percent(50).then_some(5),
            options: None,
        }
    }

    fn handle(&mut self) -> String {
        match self.0.below(8) {
            0 => NOBODY.into(),
            1 => String::new(),
            2 => HANDLE.to_lowercase() + "x",
            _ => HANDLE.into(),
        }
    }

    /// None, a wrong one, or one that other requests about the same scheduler have.
    pub(super) fn request_id(&mut self) -> String {
        (*self.0.one_of(&["", "", "mine", HANDLE])).into()
    }

    pub(super) fn page_token(&mut self) -> String {
        (*self.0.one_of(&["", "", "?", "AAAA"])).into()
    }

    /// A message with one byte changed or its end missing.
    fn damaged(&mut self, call: &str) -> Vec<u8> {
        let mut message = self.message(call);
        if !message.is_empty() {
            let at = self.0.place(message.len());
            if self.0.percent(50) {
                message[at] = self.0.next() as u8;
            } else {
                message.truncate(at);
            }
        }
        framed(0, &message)
    }

    fn garbage(&mut self) -> Vec<u8> {
        let message: Vec<u8> = (0..self.0.below(200))
            .map(|_| self.0.next() as u8)
            .collect();
        framed(0, &message)
    }

    /// A prefix that does not tell the truth.
    fn broken_frame(&mut self, call: &str) -> Vec<u8> {
        let message = self.message(call);
        match self.0.below(5) {
            0 => framed(1, &message),
            1 => framed(7, &message),
            2 => vec![0; self.0.place(5)],
            3 => [&[0, 0, 0, 3, 0][..], &message].concat(),
            _ => [&[0, 0xff, 0xff, 0xff, 0xff][..], &message].concat(),
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(400)];
        write!(
            f,
            "{} {:?} {} bytes: {:?}",
            self.call,
            self.metadata,
            self.body.len(),
            String::from_utf8_lossy(shown)
        )
    }
}

/// A request that is refused before a stream begins.
fn wrong_stream(call: &str) -> Vec<u8> {
    if call.ends_with("/WatchExecutions") {
        return api::WatchExecutionsRequest {
            interval: Some(prost_types::Duration::default()),
        }
        .encode_to_vec();
    }
    if call.ends_with("/WatchResource") {
        return api::WatchResourceRequest {
            name: "nobody".into(),
        }
        .encode_to_vec();
    }
    if call.ends_with("/Acquire") {
        return acquire("nobody").encode_to_vec();
    }
    api::SynchronizationRequest {
        handle: NOBODY.into(),
        ..Default::default()
    }
    .encode_to_vec()
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[flag][..], &length, message].concat()
}

/// The bytes with `handle` in the place of its stand-in, wherever that is whole.
pub(super) fn with_handle(body: &[u8], handle: &str) -> Vec<u8> {
    let mut body = body.to_vec();
    let wanted = HANDLE.as_bytes();
    let mut at = 0;
    while at + wanted.len() <= body.len() {
        if body[at..].starts_with(wanted) {
            body[at..at + wanted.len()].copy_from_slice(handle.as_bytes());
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    body
}

pub(super) fn acquire(name: &str) -> api::AcquireRequest {
    let used = api::ResourceUse {
        name: name.into(),
        ..Default::default()
    };
    api::AcquireRequest {
        resources: vec![used],
        ..Default::default()
    }
}
