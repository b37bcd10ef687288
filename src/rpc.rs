//! The gRPC API for callers. It translates: request → validated core types → coordinator →
//! response. It never decides anything and keeps no state of its own; the limits of the
//! transport are set in `connections` and `server`.

mod audit;
mod auth;
mod authorization;
mod connections;
mod convert;
mod deadline;
mod errors;
mod expiry;
mod fetched;
pub(crate) mod forwarding;
mod gateway;
mod job;
mod message_budget;
mod observed;
mod operator;
mod polled_again;
mod resource;
mod room;
mod scheduler;
mod server;
mod starting;
mod status;
mod traceparent;
mod unfetched;
mod validate;

pub(crate) use audit::Audit;
pub(crate) use convert::{duration, slot_kind, task_id, timestamp};
pub(crate) use forwarding::peer_service::request_poll;
pub(crate) use gateway::Hosts;
pub(crate) use server::{Config, MAX_CONNECTIONS, peer_routes, serve};
pub(crate) use starting::serve_unready;
pub(crate) use status::{executions::StatusSource, slots::Slots};
pub(crate) use validate::{Allowed, Targets};
