//! Rallypoint coordinates parallel work on Postgres. `ARCHITECTURE.md` is the map; the modules
//! below are its rooms. The package is a program: what is public here serves its tests and benches.
//! Callers in Rust use the crate `rallypoint-client`.

pub(crate) mod backoff;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod coordinator;
#[doc(hidden)]
pub mod core;
pub(crate) mod database_url;
#[doc(hidden)]
pub mod executor;
#[doc(hidden)]
pub mod executor_protocol;
#[doc(hidden)]
pub mod forecast;
#[doc(hidden)]
pub mod hub;
#[doc(hidden)]
pub mod identity;
#[doc(hidden)]
pub mod journal;
pub(crate) mod likeness;
#[doc(hidden)]
pub mod metrics;
pub(crate) mod page;
#[doc(hidden)]
pub mod peer;
#[doc(hidden)]
pub mod postgres;
pub(crate) mod rpc;
#[doc(hidden)]
pub mod server;
pub(crate) mod socket;
#[doc(hidden)]
pub mod toml_file;
#[doc(hidden)]
pub mod traces;
