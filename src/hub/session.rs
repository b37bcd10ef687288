//! Executors across replicas: the session between an executor and the replica that owns the shard.
//!
//! The executor's side looks for the owner, says hello with all it has, and does what it is told;
//! the owner's side passes on to the hub what it hears. Neither decides anything about tasks.

mod arrivals;
pub(crate) mod client;
pub mod machine;
pub mod message;
pub(crate) mod server;
pub(crate) mod wire;

pub(crate) use client::Remote;
pub(crate) use server::Sessions;
