//! The generated types of `proto/rallypoint/v1`.
#![allow(missing_docs, clippy::all)]

tonic::include_proto!("rallypoint.v1");

/// Descriptors of all messages and services, for server reflection.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
