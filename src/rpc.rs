//! The door for callers over gRPC. It translates: request → validated core types → coordinator → answer. It never decides
//! and keeps no state of its own; every limit of the transport is set in `server`.

mod auth;
mod convert;
mod errors;
mod executions;
mod forward;
mod peers;
mod readiness;
mod reason;
mod refusal;
mod route;
mod scheduler;
mod server;
mod status;
mod validate;
mod violations;

pub use executions::Probes;
pub use peers::poke;
pub use reason::Reason;
pub use server::{Config, peer_routes, serve};
pub use validate::Targets;
