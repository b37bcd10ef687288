//! Synchronization: the pages of the coordinator's cursor, each as a message. There is no queue: the next page is read when
//! the transport has room for it, and dropping the stream closes the cursor.

use super::{super::convert, Schedulers, follow::Follow, validate};
use crate::{
    api,
    coordinator::{End, Page},
    core::{Caller, Until},
};
use futures_util::{Stream, stream};
use std::pin::Pin;
use tonic::Status;

/// The messages of a stream.
pub type DoneStream =
    Pin<Box<dyn Stream<Item = Result<api::SynchronizationResponse, Status>> + Send>>;

impl Schedulers {
    pub(super) async fn synchronize(
        &self,
        caller: Caller,
        request: &api::SynchronizationRequest,
    ) -> Result<DoneStream, Status> {
        let watch = validate::synchronization(request)?;
        let follow = Follow::open(self.clone(), caller, watch).await?;
        Ok(Box::pin(stream::unfold(follow, |mut follow| async move {
            let message = follow.next().await?;
            Some((message, follow))
        })))
    }
}

/// A page as the API says it.
pub(super) fn message(page: Page) -> api::SynchronizationResponse {
    let mut done = Vec::new();
    for (done_no, events) in &page.done {
        done.extend((0..events.count).map(|index| convert::event(*done_no, events, index, false)));
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
        End::Halted { blocked, halt } => (
            api::end::Reason::Halted,
            blocked,
            Some(convert::halt(&halt)),
        ),
        End::Released => (api::end::Reason::Released, 0, None),
    };
    api::End {
        reason: reason.into(),
        blocked,
        halt,
    }
}

/// As the API says it.
pub(super) fn until(until: Until) -> api::Until {
    use api::until::Kind;
    let kind = match until {
        Until::All => Kind::All(api::Unit {}),
        Until::Order(order) => Kind::Order(order.0),
        Until::Count(count) => Kind::Count(i64::try_from(count).unwrap_or(i64::MAX)),
        Until::FirstFailure => Kind::FirstFailure(api::Unit {}),
        Until::Forever => Kind::Forever(api::Unit {}),
    };
    api::Until { kind: Some(kind) }
}
