//! RetryFailed: which tasks, and where the page begins.

use super::{filter, hash::PayloadHash, paging::PageToken, scalar};
use crate::{
    core::{DoneNo, Handle, Namespace, Outcome, Request, TaskFilter},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use uuid::Uuid;

/// A validated RetryFailedRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetryFailed {
    pub handle: Handle,
    /// One of its own, if the caller has given none.
    pub request: Request,
    pub filter: TaskFilter,
    /// `None`: the first page.
    pub page: Option<RetryFailedPage>,
    token: PageToken,
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryFailedPage {
    /// After the task with this event.
    pub after: DoneNo,
    /// Tasks whose events come after this one are on no page.
    pub last: DoneNo,
    /// The events of the tasks ascend from page to page.
    pub ascends: bool,
}

/// Of the number in a page token: [`RetryFailedPage::ascends`].
const ASCENDS: u128 = 1 << 127;

impl RetryFailed {
    /// Validates a request of a caller in `namespace`.
    pub(crate) fn new(
        request: &api::RetryFailedRequest,
        namespace: &Namespace,
    ) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
        let id = scalar::request_id(&mut v, Path::Root.field("request_id"), &request.request_id);
        let none = api::TaskFilter::default();
        let asked = request.filter.as_ref().unwrap_or(&none);
        let path = Path::Root.field("filter");
        let mut filter = filter::tasks(&mut v, path, asked);
        for (index, outcome) in asked.outcomes.iter().enumerate() {
            if *outcome == api::Outcome::Succeeded as i32 {
                v.add(
                    path.field("outcomes").index(index),
                    Reason::FilterInvalid,
                    "tasks that succeeded are not retried: submit them with ExecAsync",
                );
            }
        }
        if filter.outcomes.is_empty() {
            filter.outcomes = [Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted].into();
        }
        for (field, is_set) in [
            ("states", !asked.states.is_empty()),
            ("submitted_from", asked.submitted_from.is_some()),
            ("submitted_before", asked.submitted_before.is_some()),
            ("ended_from", asked.ended_from.is_some()),
            ("ended_before", asked.ended_before.is_some()),
        ] {
            if is_set {
                let message = "RetryFailed knows no such condition: leave it out";
                v.add(path.field(field), Reason::FilterInvalid, message);
            }
        }
        let mut hash = PayloadHash::new("RetryFailed");
        hash.bytes(request.handle.as_bytes());
        hash.task_filter(asked);
        // Older versions give the pages another sequence.
        let mut by_order = hash.clone();
        by_order.number(1);
        let token = PageToken::new(by_order, namespace);
        let page = token.read(&mut v, &request.page_token, page);
        hash.bytes(request.page_token.as_bytes());
        v.into_result(RetryFailed {
            handle,
            request: Request {
                id: id.unwrap_or_else(Uuid::now_v7),
                hash: hash.finish(),
            },
            filter,
            page,
            token,
        })
    }

    /// This page; `last`: the last event there is, if it is the first one.
    pub(crate) fn page_after(&self, last: DoneNo) -> RetryFailedPage {
        self.page.unwrap_or(RetryFailedPage {
            after: DoneNo(0),
            last,
            ascends: false,
        })
    }

    /// The token of a page.
    pub(crate) fn token(&self, page: RetryFailedPage) -> String {
        let (after, last) = (page.after.0 as u64, page.last.0 as u64);
        let ascends = if page.ascends { ASCENDS } else { 0 };
        self.token
            .after(ascends | u128::from(last) << 64 | u128::from(after))
    }
}

/// What a token says of its page.
fn page(number: u128) -> Option<RetryFailedPage> {
    let event = |number: u128| i64::try_from(number).ok().map(DoneNo);
    Some(RetryFailedPage {
        after: event(number & u128::from(u64::MAX))?,
        last: event((number & !ASCENDS) >> 64)?,
        ascends: number & ASCENDS != 0,
    })
}
