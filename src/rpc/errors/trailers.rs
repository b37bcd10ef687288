//! An error that ends an answer which has begun: the last part of its body.

use bytes::Bytes;
use http_body::Frame;
use tonic::{Status, codegen::http::HeaderMap};

/// The trailers that say it. Fails when its details do not fit.
pub(in crate::rpc) fn of(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}
