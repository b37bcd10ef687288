//! Reads of the journal: recovery, lists, events, bodies, status. Nothing here writes.

pub(crate) mod bodies;
pub(crate) mod body_chunks;
pub(crate) mod ended_attempts;
pub(crate) mod ended_tasks;
pub(crate) mod ends;
pub(crate) mod events;
mod job_pages;
mod jobs;
mod look;
mod outcome_index;
pub(crate) mod outcomes;
pub(crate) mod recovered;
pub(crate) mod recovery;
mod resources;
pub(crate) mod retention_pin;
pub(crate) mod retries;
pub(crate) mod scheduler_pages;
pub(crate) mod schedulers;
mod set_aside;
mod slot_gaps;
pub(crate) mod status;
mod target_pauses;
pub(crate) mod task_pages;
pub(crate) mod task_ranges;
pub(crate) mod task_search;
pub(crate) mod task_summaries;
pub(crate) mod tasks;

/// Statements of lists that find what is rare by an index, for a test to explain.
pub fn indexed_statements() -> [&'static str; 16] {
    [
        task_search::ROWS_OF_LABEL,
        task_search::ROWS_OF_ORDER,
        task_search::SUBMISSIONS_AT,
        task_search::ENDS_AT,
        task_search::FIRST_LABELLED,
        task_pages::ROWS_LABELLED,
        task_pages::FLOOR_OF_ORDER,
        look::LOOK_BACK,
        look::LOOK_FORWARD,
        look::LOOK_BACK_BY_OUTCOME,
        look::LOOK_FORWARD_BY_OUTCOME,
        scheduler_pages::SCHEDULERS_LABELLED,
        scheduler_pages::SCHEDULERS_IN_STATES,
        ended_attempts::RECENT_ENDS,
        ended_attempts::TEXT_HASHES,
        job_pages::RUN_OF,
    ]
}
