//! Calls that belong to another replica: where the owner is, and how a call reaches it.

pub(crate) mod layer;
pub(crate) mod peer_service;
pub(crate) mod route;
