//! The messages of a stream in API form. Used by streams served here and by those resumed
//! elsewhere.

use crate::{
    coordinator::{End, Page},
    core::Until,
};
use futures_util::Stream;
use rallypoint_client::api;
use std::pin::Pin;
use tonic::Status;

/// The messages of a stream.
pub(crate) type DoneStream =
    Pin<Box<dyn Stream<Item = Result<api::SynchronizationResponse, Status>> + Send>>;

/// One page of events as one message.
pub(crate) fn message(page: Page) -> api::SynchronizationResponse {
    let mut done = Vec::new();
    for (done_no, events) in &page.done {
        done.extend((0..events.count).map(|index| super::event(*done_no, events, index, false)));
    }
    api::SynchronizationResponse {
        done,
        pending: page.pending,
        end: page.end.map(end),
        ..Default::default()
    }
}

fn end(end: End) -> api::End {
    let (reason, blocked, halt) = match end {
        End::Goal => (api::end::Reason::Goal, 0, None),
        End::Failure => (api::end::Reason::Failure, 0, None),
        End::Halted { blocked, halt } => {
            (api::end::Reason::Halted, blocked, Some(super::halt(&halt)))
        }
        End::Released => (api::end::Reason::Released, 0, None),
    };
    api::End {
        reason: reason.into(),
        blocked,
        halt,
    }
}

/// The condition that ends a stream.
pub(crate) fn until(until: Until) -> api::Until {
    use api::until::Kind;
    let kind = match until {
        Until::All => Kind::All(()),
        Until::Order(order) => Kind::Order(order.0),
        Until::Count(count) => Kind::Count(i64::try_from(count).unwrap_or(i64::MAX)),
        Until::FirstFailure => Kind::FirstFailure(()),
        Until::Forever => Kind::Forever(()),
    };
    api::Until { kind: Some(kind) }
}
