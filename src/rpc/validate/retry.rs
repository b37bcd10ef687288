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
    /// Only tasks whose events come after this one.
    pub after: DoneNo,
    /// Up to this one; `None`: to the last one there is, as this is the first page.
    pub last: Option<DoneNo>,
    token: PageToken,
}

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
        let token = PageToken::new(hash.clone(), namespace);
        let page = token.read(&mut v, &request.page_token);
        hash.bytes(request.page_token.as_bytes());
        v.into_result(RetryFailed {
            handle,
            request: Request {
                id: id.unwrap_or_else(Uuid::now_v7),
                hash: hash.finish(),
            },
            ends,
            labels,
            after: DoneNo(page.unwrap_or_default() as i64),
            last: page.map(|page| DoneNo((page >> 64) as i64)),
            token,
        })
    }

    /// The token of the page that begins after an event, and ends with `last`.
    pub(crate) fn next_page(&self, after: DoneNo, last: DoneNo) -> String {
        let (after, last) = (after.0 as u64, last.0 as u64);
        self.token.after(u128::from(last) << 64 | u128::from(after))
    }

    /// Whether a task with these labels is meant.
    pub(crate) fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
    }
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
