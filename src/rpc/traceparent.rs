//! The caller's span, as W3C Trace Context names it in the metadata of a call. It belongs to the
//! call as its task in the runtime does: whoever submits tasks for the call, or sends it on to the
//! owner of the shard, finds it there. A traceparent that cannot be read counts as none.

use crate::core::Traceparent;
use futures_util::future::Either;
use tonic::metadata::{MetadataMap, MetadataValue};

/// Metadata key of the caller's span.
const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static PARENT: Traceparent;
}

/// Carries a call out in which [`current`] is what its metadata say. No `async fn`, which would be
/// twice as large as the call (decision 0229).
pub(super) fn within<F: Future>(
    metadata: &MetadataMap,
    call: F,
) -> impl Future<Output = F::Output> {
    match read(metadata) {
        Some(parent) => Either::Left(PARENT.scope(parent, call)),
        None => Either::Right(call),
    }
}

/// The span of the caller of the present call, if it has said one.
pub(super) fn current() -> Option<Traceparent> {
    PARENT.try_with(|parent| *parent).ok()
}

/// Says the span of the caller to the replica that carries the call out in the place of this one.
pub(super) fn pass_on(metadata: &mut MetadataMap) {
    let value = current().and_then(|parent| MetadataValue::try_from(parent.to_string()).ok());
    if let Some(value) = value {
        metadata.insert(TRACEPARENT, value);
    }
}

fn read(metadata: &MetadataMap) -> Option<Traceparent> {
    let mut values = metadata.get_all(TRACEPARENT).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok()?.parse().ok(),
        _ => None,
    }
}
