//! The generated types of `proto/rallypoint/v1`.
#![allow(missing_docs, clippy::all)]

tonic::include_proto!("rallypoint.v1");

/// Descriptors of all messages and services, for server reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// What replicas say to each other, on their own port; not part of what callers see.
pub mod peer {
    tonic::include_proto!("rallypoint.peer.v1");
}
