//! The places one can be at, and how they are called.

use super::units::short;

/// A view, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Schedulers,
    Scheduler(String),
    Task(String, i64),
    Jobs,
    Job(String),
    Resources,
    Resource(String),
    System,
}

/// The views without a subject, as commands call them; what stands first is the name.
pub(super) const VIEWS: [(&[&str], Place); 5] = [
    (&["overview", "pulse", "home"], Place::Overview),
    (&["schedulers", "sched"], Place::Schedulers),
    (&["jobs"], Place::Jobs),
    (&["resources", "res", "locks"], Place::Resources),
    (
        &["system", "sys", "targets", "replicas", "executors"],
        Place::System,
    ),
];

impl Place {
    /// What it is called above the rows.
    pub(super) fn title(&self) -> String {
        match self {
            Place::Overview => "overview".to_owned(),
            Place::Schedulers => "schedulers".to_owned(),
            Place::Scheduler(handle) => format!("scheduler {}", short(handle)),
            Place::Task(_, seq) => format!("task {seq}"),
            Place::Jobs => "jobs".to_owned(),
            Place::Job(name) => format!("job {name}"),
            Place::Resources => "resources".to_owned(),
            Place::Resource(name) => format!("resource {name}"),
            Place::System => "system".to_owned(),
        }
    }

    /// Whether `/` asks for rows here.
    pub(super) fn is_list(&self) -> bool {
        use Place::{Jobs, Resources, Scheduler, Schedulers};
        matches!(self, Schedulers | Scheduler(_) | Jobs | Resources)
    }

    /// What `/` takes here, for who has written nothing yet.
    pub(super) fn filter_words(&self) -> &'static str {
        match self {
            Place::Schedulers => "open halted name:nightly key=value, or words of a row",
            Place::Scheduler(_) => "failed order:200 code:40001 key=value, or words of a row",
            _ => "words of a row",
        }
    }

    /// Whether its rows come in pages.
    pub(super) fn has_pages(&self) -> bool {
        self.is_list() || matches!(self, Place::Job(_))
    }
}
