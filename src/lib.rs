//! Rallypoint coordinates parallel work on Postgres. `ARCHITECTURE.md` is the map; the modules below are its rooms.

pub mod api;
pub mod cli;
pub mod client;
pub mod clock;
pub mod coordinator;
pub mod core;
pub mod executor;
pub mod journal;
pub mod peer;
pub mod postgres;
pub mod remote;
pub mod rpc;
pub mod serve;
