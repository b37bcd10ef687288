//! The generated types of `proto/rallypoint`: messages and client stubs of `rallypoint.v1`; with
//! the feature `server` also its server stubs, descriptors, and what replicas say to each other.
#![allow(missing_docs, clippy::all)]

tonic::include_proto!("rallypoint.v1");

/// Descriptors of all messages and services, for server reflection.
#[cfg(feature = "server")]
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// What replicas say to each other, on their own port; not part of what callers see.
#[cfg(feature = "server")]
pub mod peer {
    tonic::include_proto!("rallypoint.peer.v1");
}
