//! Calls that belong to another replica: where the owner is, and how it is reached. What is
//! forwarded are messages, decoded here as at the owner: `unary` and `scheduler::resumable_stream`
//! send them.

pub(crate) mod about;
pub(crate) mod forwarded_streams;
pub(crate) mod peer_service;
pub(crate) mod route;
pub(crate) mod successor;
pub(crate) mod unary;
