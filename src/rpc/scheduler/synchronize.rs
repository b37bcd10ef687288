//! Synchronization: the coordinator's cursor, cut into messages that every client can take. There is no queue: the next
//! message is made when the transport has room for it, and dropping the stream closes the cursor.

use super::{super::convert, Schedulers, follow::Follow, validate};
use crate::{
    api,
    coordinator::{End, Page},
    core::{Caller, Done, DoneNo, Until},
};
use futures_util::{Stream, stream};
use std::{collections::VecDeque, pin::Pin};
use tonic::Status;

/// Bytes of a message, about; none is over 1 MiB.
const MESSAGE_BYTES: usize = 768 << 10;
/// Bytes of an event without error and result, at most.
const EVENT_BYTES: usize = 96;

/// The messages of a stream.
pub type DoneStream = Pin<Box<dyn Stream<Item = Result<api::SynchronizationResponse, Status>> + Send>>;

impl Schedulers {
    pub(super) async fn synchronize(&self, caller: Caller, request: &api::SynchronizationRequest) -> Result<DoneStream, Status> {
        let watch = validate::synchronization(request)?;
        let follow = Follow::open(self.clone(), caller, watch).await?;
        Ok(Box::pin(stream::unfold(follow, |mut follow| async move {
            let message = follow.next().await?;
            Some((message, follow))
        })))
    }
}

/// What is left of a page.
#[derive(Default)]
pub(super) struct Rest {
    done: VecDeque<(DoneNo, Done)>,
    /// How many of the first one's tasks have been told.
    told: u32,
    pending: i64,
    end: Option<End>,
}

impl Rest {
    /// All of a page.
    pub fn new(page: Page) -> Rest {
        Rest { done: page.done.into(), told: 0, pending: page.pending, end: page.end }
    }

    /// Nothing is left to be told.
    pub fn is_told(&self) -> bool {
        self.done.is_empty()
    }

    /// The next message: what fits into one.
    pub fn message(&mut self) -> api::SynchronizationResponse {
        let mut message = api::SynchronizationResponse { pending: self.pending, ..Default::default() };
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES
            && let Some((done_no, done)) = self.done.front()
        {
            if self.told < done.count {
                let event = convert::event(*done_no, done, self.told, false);
                bytes += size(&event);
                message.done.push(event);
                self.told += 1;
            } else {
                self.done.pop_front();
                self.told = 0;
            }
        }
        if self.done.front().is_some_and(|(_, done)| done.count == self.told) {
            self.done.pop_front();
            self.told = 0;
        }
        if self.done.is_empty() {
            message.end = self.end.take().map(end);
        }
        message
    }
}

fn size(event: &api::AsyncDone) -> usize {
    let error = event.error.as_ref().map_or(0, |error| error.code.len() + error.message.len());
    EVENT_BYTES + error + event.result.as_ref().map_or(0, |result| result.rows_json.len())
}

fn end(end: End) -> api::End {
    let (reason, blocked, halt) = match end {
        End::Goal => (api::end::Reason::Goal, 0, None),
        End::Failure => (api::end::Reason::Failure, 0, None),
        End::Halted { blocked, halt } => (api::end::Reason::Halted, blocked, Some(convert::halt(&halt))),
        End::Released => (api::end::Reason::Released, 0, None),
    };
    api::End { reason: reason.into(), blocked, halt }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Attempt, Outcome, Seq, TaskError, TaskResult, Time};
    use prost::Message;
    use std::sync::Arc;

    fn done(first: i64, count: u32, error: usize, result: usize) -> Done {
        let error = (error > 0).then(|| Arc::new(TaskError { code: "XX000".into(), message: "x".repeat(error) }));
        let result = (result > 0).then(|| Arc::new(TaskResult { rows_json: vec![b'1'; result].into(), ..Default::default() }));
        Done {
            first: Seq(first),
            count,
            order: Some(crate::core::Order(i64::MAX >> 10)),
            outcome: Outcome::Succeeded,
            attempt: Attempt(i32::MAX),
            started: Some(Time(i64::MAX)),
            ended: Time(i64::MAX),
            slot: 0,
            backend_pid: 0,
            error,
            result,
        }
    }

    /// Takes the whole rest apart.
    fn messages(mut rest: Rest) -> Vec<api::SynchronizationResponse> {
        let mut messages = vec![rest.message()];
        while !rest.done.is_empty() {
            messages.push(rest.message());
        }
        messages
    }

    #[test]
    fn every_event_is_told_once_in_messages_of_at_most_a_mebibyte() {
        let rest = Rest {
            done: [
                (DoneNo(1), done(500, 30_000, 0, 0)),
                (DoneNo(30_001), done(1, 40, 8 << 10, 64 << 10)),
                (DoneNo(30_041), done(70, 1, 0, 0)),
            ]
            .into(),
            end: Some(End::Goal),
            ..Rest::default()
        };
        let messages = messages(rest);
        let numbers: Vec<i64> = messages.iter().flat_map(|message| &message.done).map(|done| done.done_no).collect();
        assert_eq!(numbers, (1..=30_041).collect::<Vec<_>>());
        assert!(messages.iter().all(|message| message.encoded_len() <= 1 << 20));
        assert_eq!(messages.iter().filter(|message| message.end.is_some()).count(), 1);
        assert!(messages.last().is_some_and(|message| message.end.is_some() && !message.done.is_empty()));
        assert_eq!(messages[0].done[29].seq, 529);
    }

    #[test]
    fn a_large_result_is_left_to_get_task() {
        let rest = Rest { done: [(DoneNo(1), done(1, 1, 0, (64 << 10) + 1))].into(), ..Rest::default() };
        let event = messages(rest).remove(0).done.remove(0);
        assert!(event.result_omitted && event.result.is_none());
    }
}
