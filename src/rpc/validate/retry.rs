//! RetryFailed: which tasks, and where the page begins.

use super::{hash::PayloadHash, paging::PageToken, scalar};
use crate::{
    core::{DoneNo, Handle, Namespace, Outcome, Request},
    journal::EndFilter,
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use std::{collections::BTreeMap, ops::RangeInclusive};
use uuid::Uuid;

const MAX_OUTCOMES: usize = 10;
const MAX_CODES: usize = 100;
const CODE_BYTES: RangeInclusive<usize> = 1..=64;

/// A validated RetryFailedRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetryFailed {
    pub handle: Handle,
    /// One of its own, if the caller has given none.
    pub request: Request,
    pub ends: EndFilter,
    labels: BTreeMap<String, String>,
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
        let mut outcomes = outcomes(&mut v, path.field("outcomes"), &asked.outcomes);
        if outcomes.is_empty() {
            outcomes = [Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted].into();
        }
        let order = asked.effective_order;
        let ends = EndFilter {
            outcomes,
            order: order.map(|order| scalar::order(&mut v, path.field("effective_order"), order)),
            codes: codes(&mut v, path.field("error_codes"), &asked.error_codes),
        };
        let labels = scalar::labels(&mut v, path.field("labels"), &asked.labels);
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
            ends,
            labels,
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

    /// Whether a task with these labels is meant.
    pub(crate) fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
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

fn outcomes(v: &mut Violations, path: Path<'_>, asked: &[i32]) -> Vec<Outcome> {
    if asked.len() > MAX_OUTCOMES {
        let message = format!("at most {MAX_OUTCOMES} outcomes");
        v.add(path, Reason::FilterInvalid, message);
        return Vec::new();
    }
    let mut outcomes = Vec::new();
    for (index, number) in asked.iter().enumerate() {
        let path = path.index(index);
        let outcome = scalar::enumeration(v, path, *number);
        match outcome.and_then(|outcome: api::Outcome| Outcome::from_number(outcome as i16)) {
            Some(Outcome::Succeeded) => v.add(
                path,
                Reason::FilterInvalid,
                "tasks that succeeded are not retried: submit them with ExecAsync",
            ),
            Some(outcome) => outcomes.push(outcome),
            None if outcome.is_some() => {
                v.add(
                    path,
                    Reason::FilterInvalid,
                    "name an outcome, or leave it out",
                );
            }
            None => {}
        }
    }
    outcomes
}

fn codes(v: &mut Violations, path: Path<'_>, asked: &[String]) -> Vec<String> {
    if asked.len() > MAX_CODES {
        let message = format!("at most {MAX_CODES} codes");
        v.add(path, Reason::FilterInvalid, message);
        return Vec::new();
    }
    for (index, code) in asked.iter().enumerate() {
        if !CODE_BYTES.contains(&code.len()) {
            let message = "a SQLSTATE or a reason in capitals, 1 to 64 bytes";
            v.add(path.index(index), Reason::FilterInvalid, message);
        }
    }
    asked.to_vec()
}
