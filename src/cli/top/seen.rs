//! What has been read for a view, and what is to be read for it.

use super::place::Place;
use rallypoint_client::api::{
    Attempt, DueTime, Execution, ExplainTaskResponse, GetStatusResponse, Job, JobRun,
    ListResourcesResponse, ListRunsResponse, ListSchedulersResponse, Resource, Scheduler, TaskView,
    WatchResourceResponse,
};
use std::{collections::BTreeMap, sync::Arc};

/// A reading of a view.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) place: Place,
    pub(super) filter: String,
    pub(super) page_token: String,
    /// What the reading before has found.
    pub(super) before: Option<Arc<Seen>>,
    /// Names of rows on the screen, of which more may be asked.
    pub(super) visible: Vec<String>,
    /// Somebody waits for it: a key or an action has asked for it.
    pub(super) is_awaited: bool,
    /// Microseconds since 1970.
    pub(super) now: i64,
}

/// What a reading has found.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Overview(Box<Overview>),
    Schedulers(ListSchedulersResponse),
    Scheduler(Box<OneScheduler>),
    Task(Box<OneTask>),
    Jobs(Box<Jobs>),
    Job(Box<OneJob>),
    Resources(ListResourcesResponse),
    Resource(Box<WatchResourceResponse>),
    System(Box<System>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Overview {
    /// Readings so far.
    pub(super) turn: u64,
    pub(super) status: GetStatusResponse,
    pub(super) executions: Vec<Execution>,
    /// Those that are open, and the latest that have ended.
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) resources: Vec<Resource>,
    pub(super) jobs: Vec<Job>,
    pub(super) errors: Errors,
    pub(super) held_up: Vec<HeldUp>,
    /// Tasks ended a second, oldest first.
    pub(super) rates: Vec<f64>,
    /// When the status was read.
    pub(super) at: i64,
}

/// Errors of schedulers, by handle.
pub(super) type Errors = BTreeMap<String, ErrorsOf>;

/// Errors of a scheduler, and how many of its tasks had ended and were retrying then: when these
/// are the same there is nothing new to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ErrorsOf {
    pub(super) counts: (i64, i64),
    pub(super) found: Vec<Failure>,
}

/// A failed attempt of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Failure {
    pub(super) seq: i64,
    pub(super) code: String,
    pub(super) message: String,
    /// Microseconds since 1970.
    pub(super) at: i64,
    /// The task goes on with another attempt.
    pub(super) retried: bool,
}

/// A task that a lock of another session holds up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HeldUp {
    pub(super) handle: String,
    pub(super) seq: i64,
    pub(super) pid: i32,
    pub(super) user: String,
    pub(super) application: String,
    pub(super) state: String,
    pub(super) started: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct OneScheduler {
    pub(super) scheduler: Scheduler,
    pub(super) tasks: Vec<TaskView>,
    pub(super) next_page_token: String,
    /// What the list was asked for, and when that was.
    pub(super) filter: String,
    pub(super) page_token: String,
    pub(super) listed_at: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct OneTask {
    pub(super) scheduler: Scheduler,
    pub(super) task: TaskView,
    pub(super) explained: ExplainTaskResponse,
    pub(super) attempts: Vec<Attempt>,
    /// When it was explained.
    pub(super) explained_at: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
    pub(super) next_page_token: String,
    pub(super) status: GetStatusResponse,
    /// The last due times of jobs with what became of them, newest first, and when that was read.
    pub(super) runs: BTreeMap<String, (i64, Vec<JobRun>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct OneJob {
    pub(super) job: Job,
    pub(super) due: Vec<DueTime>,
    pub(super) runs: ListRunsResponse,
}

#[derive(Clone, Debug, Default)]
pub(super) struct System {
    pub(super) status: GetStatusResponse,
    pub(super) executions: Vec<Execution>,
    /// Slots that the server has left out.
    pub(super) left_out: i64,
}

impl Seen {
    /// Where the page behind this one begins; empty: there is none.
    pub(super) fn next_page(&self) -> &str {
        match self {
            Seen::Schedulers(page) => &page.next_page_token,
            Seen::Scheduler(one) => &one.next_page_token,
            Seen::Jobs(page) => &page.next_page_token,
            Seen::Job(one) => &one.runs.next_page_token,
            Seen::Resources(page) => &page.next_page_token,
            _ => "",
        }
    }
}
