//! Every metric, declared once: its name with the unit, its labels, and what it means. One set per
//! server. Whoever counts has a clone; whoever scrapes sets the levels and has all of it written.
//!
//! Labels are few and their values are known beforehand: kinds of work, configured targets, words
//! of the API. Never a handle, a task, a namespace or anything that a caller makes up.

mod calls;
mod declared;
mod jobs;
mod journal;
mod replica;
mod tasks;
mod traces;

pub use calls::CallMetrics;
pub use declared::{Count, Declared, Histogram, Kind, Level};
pub use jobs::{JobMetrics, ResourceMetrics};
pub use journal::JournalMetrics;
pub use replica::ReplicaMetrics;
pub use tasks::{SlotMetrics, TargetMetrics, TaskMetrics};
pub use traces::TraceMetrics;

use crate::core::Work;
use declared::Declarations;
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// The metrics of a server. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

/// The families, by what they are about.
#[derive(Debug)]
pub struct Families {
    /// Who owns the shard, and how the process is.
    pub replica: ReplicaMetrics,
    /// What is written.
    pub journal: JournalMetrics,
    /// Tasks, slots and attempts.
    pub tasks: TaskMetrics,
    /// Databases on which tasks run.
    pub targets: TargetMetrics,
    /// Named resources.
    pub resources: ResourceMetrics,
    /// Recurring jobs.
    pub jobs: JobMetrics,
    /// Connections, calls and streams.
    pub calls: CallMetrics,
    /// Spans of traces.
    pub traces: TraceMetrics,
    registry: Registry,
    declared: Vec<Declared>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut to = Declarations::default();
        let (replica, journal) = (ReplicaMetrics::new(&mut to), JournalMetrics::new(&mut to));
        let (tasks, targets) = (TaskMetrics::new(&mut to), TargetMetrics::new(&mut to));
        let (resources, jobs) = (ResourceMetrics::new(&mut to), JobMetrics::new(&mut to));
        let (calls, traces) = (CallMetrics::new(&mut to), TraceMetrics::new(&mut to));
        let (registry, declared) = to.into_parts();
        Metrics(Arc::new(Families {
            replica,
            journal,
            tasks,
            targets,
            resources,
            jobs,
            calls,
            traces,
            registry,
            declared,
        }))
    }
}

impl std::ops::Deref for Metrics {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.0
    }
}

impl Metrics {
    /// Every family, in the order of the page that describes them.
    pub fn declared(&self) -> &[Declared] {
        &self.declared
    }

    /// What a scrape gets: OpenMetrics 1.0 as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// The labels `kind` and `target` of some work.
pub fn of_work(work: &Work) -> [&str; 2] {
    match work {
        Work::Noop => ["noop", ""],
        Work::Sql { target } => ["sql", target],
    }
}
