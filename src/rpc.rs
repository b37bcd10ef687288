//! The door for callers over gRPC. It translates: request → validated core types → coordinator → answer. It never decides
//! and keeps no state of its own; every limit of the transport is set in `server`.

mod auth;
mod convert;
mod errors;
mod readiness;
mod reason;
mod refusal;
mod scheduler;
mod server;
mod status;
mod validate;
mod violations;

pub use reason::Reason;
pub use server::{Config, peer_routes, routes, serve};
pub use status::Probes;
pub use validate::Targets;
