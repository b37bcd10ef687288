//! CancelTasks: which tasks, and where the page begins.

use super::{filter, hash::PayloadHash, paging::PageToken, scalar};
use crate::{
    core::{Handle, Namespace, Phase, Seq, TaskFilter},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;

/// Characters of a filter that the log shows: with each task.
const MAX_TEXT: usize = 120;
const UNFINISHED: [Phase; 4] = [
    Phase::Blocked,
    Phase::Queued,
    Phase::Running,
    Phase::Retrying,
];

/// A validated CancelTasksRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CancelTasks {
    pub handle: Handle,
    /// Which tasks, as they were submitted.
    pub filter: TaskFilter,
    /// The states that are meant, all of tasks that have not ended.
    pub phases: Vec<Phase>,
    /// In the words of the request.
    pub filter_text: String,
    pub dry_run: bool,
    /// Only tasks up to this one; `None`: to the last one there is, as this is the first page.
    pub last: Option<Seq>,
    /// Only tasks with lower numbers; `None`: this is the first page.
    pub before: Option<Seq>,
    token: PageToken,
}

impl CancelTasks {
    /// Validates a request of a caller in `namespace`.
    pub(crate) fn new(
        request: &api::CancelTasksRequest,
        namespace: &Namespace,
    ) -> Result<Self, Violations> {
        let mut v = Violations::default();
        let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
        let path = Path::Root.field("filter");
        if request.filter.is_none() {
            let message = "say which tasks: a filter without conditions means all unfinished ones";
            v.add(path, Reason::FilterInvalid, message);
        }
        let none = api::TaskFilter::default();
        let asked = request.filter.as_ref().unwrap_or(&none);
        let mut filter = filter::tasks(&mut v, path, asked);
        let mut phases = std::mem::take(&mut filter.phases);
        if phases.is_empty() {
            phases = UNFINISHED.into();
        }
        refuse_ends(&mut v, path, asked);
        let last_path = Path::Root.field("last_seq");
        let last = request.last_seq;
        let last = last.map(|last| scalar::seq(&mut v, last_path, last));
        let mut hash = PayloadHash::new("CancelTasks");
        hash.bytes(request.handle.as_bytes());
        hash.task_filter(asked);
        hash.number(request.dry_run.into());
        hash.number(request.last_seq.unwrap_or_default());
        let token = PageToken::new(hash, namespace);
        let page = token.read(&mut v, &request.page_token, page);
        v.into_result(CancelTasks {
            handle,
            filter,
            phases,
            filter_text: text(asked),
            dry_run: request.dry_run,
            last: page.map(|(last, _)| last).or(last),
            before: page.map(|(_, before)| before),
            token,
        })
    }

    /// Whether some of the waiting tasks are meant by their state, and others are not.
    pub(crate) fn tells_waiting_apart(&self) -> bool {
        let waiting = UNFINISHED.iter().filter(|phase| **phase != Phase::Running);
        let asked = waiting.map(|phase| self.phases.contains(phase));
        let asked: Vec<bool> = asked.collect();
        asked.contains(&true) && asked.contains(&false)
    }

    /// The token of the page that looks on before a task, of tasks up to `last`.
    pub(crate) fn next_page(&self, before: Seq, last: Seq) -> String {
        let (before, last) = (before.0 as u64, last.0 as u64);
        self.token
            .after(u128::from(last) << 64 | u128::from(before))
    }
}

/// What a token says of its page: the last task that counts, and before which one it looks on.
fn page(number: u128) -> Option<(Seq, Seq)> {
    let seq = |number: u128| i64::try_from(number).ok().map(Seq);
    Some((seq(number >> 64)?, seq(number & u128::from(u64::MAX))?))
}

/// What has ended is not cancelled.
fn refuse_ends(v: &mut Violations, path: Path<'_>, asked: &api::TaskFilter) {
    let message = "only tasks that have not ended can be cancelled: leave it out";
    for (field, is_set) in [
        ("outcomes", !asked.outcomes.is_empty()),
        ("error_codes", !asked.error_codes.is_empty()),
        ("ended_from", asked.ended_from.is_some()),
        ("ended_before", asked.ended_before.is_some()),
    ] {
        if is_set {
            v.add(path.field(field), Reason::FilterInvalid, message);
        }
    }
    for (index, state) in asked.states().enumerate() {
        if state == api::TaskState::Done {
            let path = path.field("states");
            v.add(path.index(index), Reason::FilterInvalid, message);
        }
    }
}

/// The conditions in words, for the log.
fn text(asked: &api::TaskFilter) -> String {
    let order = asked.effective_order.map(|order| format!("order {order}"));
    let state = |state: api::TaskState| {
        let name = state.as_str_name().trim_start_matches("TASK_STATE_");
        name.to_lowercase()
    };
    let states: Vec<_> = asked.states().map(state).collect();
    let states = Some(states.join(" or ")).filter(|states| !states.is_empty());
    let mut labels: Vec<_> = asked.labels.iter().collect();
    labels.sort_unstable();
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let from = asked.submitted_from.as_ref();
    let from = from.map(|from| format!("submitted from {from}"));
    let before = asked.submitted_before.as_ref();
    let before = before.map(|before| format!("submitted before {before}"));
    let all = order.into_iter().chain(states).chain(labels);
    let all: Vec<_> = all.chain(from).chain(before).collect();
    match all.is_empty() {
        true => "all".to_owned(),
        false => all.join(", ").chars().take(MAX_TEXT).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn request(filter: Option<api::TaskFilter>) -> api::CancelTasksRequest {
        api::CancelTasksRequest {
            handle: "01890000-0000-7000-8000-000000000000".into(),
            filter,
            ..Default::default()
        }
    }

    fn validated(request: &api::CancelTasksRequest) -> Result<CancelTasks, Violations> {
        CancelTasks::new(request, &Namespace("one".into()))
    }

    #[test]
    fn a_filter_is_written_in_words() {
        let filter = api::TaskFilter {
            effective_order: Some(5),
            states: vec![2, 4],
            labels: HashMap::from([("b".into(), "2".into()), ("a".into(), "1".into())]),
            submitted_from: Some(prost_types::Timestamp {
                seconds: 1_772_366_400,
                nanos: 0,
            }),
            ..Default::default()
        };
        let words = |filter| {
            validated(&request(Some(filter)))
                .expect("right")
                .filter_text
        };
        let text = words(filter);
        assert_eq!(
            text,
            "order 5, queued or retrying, a=1, b=2, submitted from 2026-03-01T12:00:00Z"
        );
        assert_eq!(words(api::TaskFilter::default()), "all");
    }

    #[test]
    fn a_token_holds_for_its_call_and_keeps_what_the_first_page_has_fixed() {
        let first = request(Some(api::TaskFilter::default()));
        let token = validated(&first).expect("right").next_page(Seq(7), Seq(90));
        let next = api::CancelTasksRequest {
            page_token: token,
            ..first
        };
        let read = validated(&next).expect("right");
        assert_eq!((read.before, read.last), (Some(Seq(7)), Some(Seq(90))));
        let others = [
            api::CancelTasksRequest {
                dry_run: true,
                ..next.clone()
            },
            api::CancelTasksRequest {
                last_seq: Some(80),
                ..next.clone()
            },
        ];
        for other in others {
            assert!(validated(&other).is_err(), "{other:?}");
        }
    }
}
