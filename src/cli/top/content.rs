//! What the views show, as rows: a function of what was read, the time and the width. It calls
//! nothing and decides nothing; where Enter leads and what an action is about stands in the rows.

mod job;
mod jobs;
mod needs;
mod overview;
mod parts;
mod resource;
mod resources;
mod scheduler;
mod schedulers;
mod system;
mod task;
mod timeline;
mod why;

pub(super) use parts::{Look, Page};

use super::seen::Seen;

/// The rows of a view.
pub(super) fn page(seen: &Seen, look: &Look) -> Page {
    match seen {
        Seen::Overview(seen) => overview::page(seen, look),
        Seen::Schedulers(list) => schedulers::page(list, look),
        Seen::Scheduler(one) => scheduler::page(one, look),
        Seen::Task(one) => task::page(one, look),
        Seen::Jobs(jobs) => jobs::page(jobs, look),
        Seen::Job(one) => job::page(one, look),
        Seen::Resources(list) => resources::page(list, look),
        Seen::Resource(one) => resource::page(one, look),
        Seen::System(system) => system::page(system, look),
    }
}

#[cfg(test)]
mod tests;
