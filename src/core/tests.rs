//! What the rules promise, in virtual time: no clock, no journal, no sleeping.
//!
//! [`world::World`] drives one shard as the loop does, remembers its records and can rebuild it from them.

mod bulk;
mod calls;
mod checkpoints;
mod failure;
mod fairness;
mod idle;
mod model;
mod orders;
mod parallelism;
mod quotas;
mod recovery;
mod remembered;
mod retries;
mod standings;
mod suspects;
mod time_limits;
mod upcoming;
pub mod world;
