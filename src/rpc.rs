//! The door for callers over gRPC. It translates: request → validated core types → coordinator → answer. It never decides
//! and keeps no state of its own; every limit of the transport is set in `server`.

pub mod reason;
pub mod validate;
pub mod violations;
