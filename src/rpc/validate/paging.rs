//! Pages of the lists. A page token names the last row returned and the query it belongs to, and is
//! valid for that query in that namespace only. It grants no access: rows are always read within
//! the caller's namespace.

use super::{filter, hash::PayloadHash, scalar};
use crate::{
    core::{Attempt, Handle, Namespace, SchedulerFilter, TaskFilter, TaskId},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use uuid::Uuid;

const DEFAULT_PAGE_SIZE: usize = 100;
const MAX_PAGE_SIZE: i32 = 1000;

/// A validated ListSchedulersRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListSchedulers {
    /// Rows per page.
    pub size: usize,
    /// Only rows older than this one.
    pub before: Option<Handle>,
    /// Which of them.
    pub filter: SchedulerFilter,
    /// Makes the token of the next page.
    pub token: PageToken,
}

/// A validated ListTasksRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListTasks {
    pub handle: Handle,
    /// Rows per page.
    pub size: usize,
    /// Only tasks, or events, with lower numbers.
    pub before: Option<i64>,
    /// Which of them.
    pub filter: TaskFilter,
    /// Makes the token of the next page.
    pub token: PageToken,
}

/// A validated ListAttemptsRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListAttempts {
    pub id: TaskId,
    /// Attempts per page.
    pub size: usize,
    /// Only later attempts than this one.
    pub after: Attempt,
    /// Makes the token of the next page.
    pub token: PageToken,
}

/// A validated ListExecutionsRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListExecutions {
    /// Slots per page.
    pub size: usize,
    /// How many slots the pages before had.
    pub after: usize,
    /// Makes the token of the next page.
    pub token: PageToken,
}

/// Makes and reads the page tokens of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageToken(u64);

impl PageToken {
    pub(super) fn new(hash: PayloadHash, namespace: &Namespace) -> Self {
        let mut hash = hash;
        hash.bytes(namespace.0.as_bytes());
        PageToken(hash.finish() as u64)
    }

    /// The token of the page that follows the row `last`.
    pub(crate) fn after(self, last: u128) -> String {
        format!("{:016x}{last:032x}", self.0)
    }

    /// The row of a token, if `of` takes it for one.
    pub(super) fn read<T>(
        self,
        v: &mut Violations,
        text: &str,
        of: impl FnOnce(u128) -> Option<T>,
    ) -> Option<T> {
        if text.is_empty() {
            return None;
        }
        let good = text.len() == 48
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let parts = good.then(|| text.split_at(16));
        let last = parts.filter(|(of, _)| u64::from_str_radix(of, 16) == Ok(self.0));
        let last = last.and_then(|(_, last)| u128::from_str_radix(last, 16).ok());
        let last = last.and_then(of);
        if last.is_none() {
            let message = "pass `next_page_token` of the previous page with the same filters";
            v.add(
                Path::Root.field("page_token"),
                Reason::PageTokenInvalid,
                message,
            );
        }
        last
    }
}

impl ListSchedulers {
    /// Validates a request of a caller in `namespace`.
    pub(crate) fn new(
        request: &api::ListSchedulersRequest,
        namespace: &Namespace,
    ) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let size = size(&mut v, request.page_size);
        let none = api::SchedulerFilter::default();
        let asked = request.filter.as_ref().unwrap_or(&none);
        let filter = filter::schedulers(&mut v, Path::Root.field("filter"), asked);
        let mut hash = PayloadHash::new("ListSchedulers");
        hash.scheduler_filter(asked);
        let token = PageToken::new(hash, namespace);
        let of = |last| Some(Handle::from_uuid(Uuid::from_u128(last)));
        let before = token.read(&mut v, &request.page_token, of);
        v.into_result(ListSchedulers {
            size,
            before,
            filter,
            token,
        })
    }
}

impl ListTasks {
    /// Validates a request of a caller in `namespace`.
    pub(crate) fn new(
        request: &api::ListTasksRequest,
        namespace: &Namespace,
    ) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
        let size = size(&mut v, request.page_size);
        let none = api::TaskFilter::default();
        let asked = request.filter.as_ref().unwrap_or(&none);
        let filter = filter::tasks(&mut v, Path::Root.field("filter"), asked);
        let mut hash = PayloadHash::new("ListTasks");
        hash.bytes(request.handle.as_bytes());
        hash.task_filter(asked);
        let token = PageToken::new(hash, namespace);
        let of = |last| i64::try_from(last).ok().filter(|number| *number > 0);
        let before = token.read(&mut v, &request.page_token, of);
        v.into_result(ListTasks {
            handle,
            size,
            before,
            filter,
            token,
        })
    }
}

impl ListAttempts {
    /// Validates a request of a caller in `namespace`.
    pub(crate) fn new(
        request: &api::ListAttemptsRequest,
        namespace: &Namespace,
    ) -> Result<Self, Violations> {
        let id = super::task_id(request.id.as_ref())?;
        let mut v = Violations::default();
        let size = size(&mut v, request.page_size);
        let mut hash = PayloadHash::new("ListAttempts");
        hash.bytes(id.handle.to_string().as_bytes());
        hash.number(id.seq.0);
        let token = PageToken::new(hash, namespace);
        let of = |last| i32::try_from(last).ok().filter(|number| *number < i32::MAX);
        let after = token.read(&mut v, &request.page_token, of);
        v.into_result(ListAttempts {
            id,
            size,
            after: Attempt(after.unwrap_or_default()),
            token,
        })
    }
}

impl ListExecutions {
    /// Validates a request. Operators see the slots of all namespaces.
    pub(crate) fn new(request: &api::ListExecutionsRequest) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let size = match request.page_size {
            0 => MAX_PAGE_SIZE as usize,
            asked => size(&mut v, asked),
        };
        let token = PageToken(PayloadHash::new("ListExecutions").finish() as u64);
        let of = |after| usize::try_from(after).ok();
        let after = token.read(&mut v, &request.page_token, of);
        v.into_result(ListExecutions {
            size,
            after: after.unwrap_or_default(),
            token,
        })
    }
}

fn size(v: &mut Violations, size: i32) -> usize {
    match size {
        0 => DEFAULT_PAGE_SIZE,
        1..=MAX_PAGE_SIZE => size as usize,
        _ => {
            v.add(
                Path::Root.field("page_size"),
                Reason::PageSizeOutOfRange,
                "must be 1 to 1000, or 0 for the default",
            );
            DEFAULT_PAGE_SIZE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_HIGH: u128 = 1 << 63;

    fn namespace() -> Namespace {
        Namespace("default".into())
    }

    fn id() -> String {
        Uuid::now_v7().to_string()
    }

    #[test]
    fn a_list_of_tasks_begins_below_a_number_that_a_task_may_have() {
        let mut request = api::ListTasksRequest {
            handle: id(),
            ..Default::default()
        };
        let first = ListTasks::new(&request, &namespace()).expect("the first page");
        for (number, before) in [
            (1, Some(1)),
            (TOO_HIGH - 1, Some(i64::MAX)),
            (0, None),
            (TOO_HIGH, None),
            (u128::MAX, None),
        ] {
            request.page_token = first.token.after(number);
            let page = ListTasks::new(&request, &namespace());
            assert_eq!(page.ok().and_then(|page| page.before), before, "{number}");
        }
    }

    #[test]
    fn a_list_of_attempts_begins_after_a_number_that_an_attempt_may_have() {
        let task = api::TaskId {
            handle: id(),
            seq: 1,
        };
        let mut request = api::ListAttemptsRequest {
            id: Some(task),
            ..Default::default()
        };
        let first = ListAttempts::new(&request, &namespace()).expect("the first page");
        for (number, after) in [
            (1, Some(Attempt(1))),
            (i32::MAX as u128 - 1, Some(Attempt(i32::MAX - 1))),
            (i32::MAX as u128, None),
            (1 << 31, None),
            (u128::MAX, None),
        ] {
            request.page_token = first.token.after(number);
            let page = ListAttempts::new(&request, &namespace());
            assert_eq!(page.ok().map(|page| page.after), after, "{number}");
        }
    }
}
