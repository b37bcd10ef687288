//! What the rules promise, in virtual time: no clock, no journal, no sleeping.
//!
//! [`world::World`] drives one shard as the loop does, remembers its records and can rebuild it
//! from them.

mod calls;
mod cancel_rest;
mod cancel_tasks;
mod checkpoints;
mod early;
mod exactly_once;
mod explain;
mod failure;
mod fairness;
mod idle;
mod in_doubt;
mod incremental;
mod jobs;
mod large_backlogs;
mod line;
mod listing;
mod lookahead;
mod model;
mod orders;
mod parallelism;
mod quotas;
mod recovery;
mod resources;
mod retried_tasks;
mod retries;
mod scheduler_names;
mod snapshots;
mod target_pauses;
mod task_resources;
mod time_limits;
pub(crate) mod world;
