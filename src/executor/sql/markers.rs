//! The markers of EXACTLY_ONCE tasks as a target keeps them: what one says, how it is asked for,
//! and when it goes. Pure.
//!
//! Invariant: a marker is there if and only if what its attempt did is.

use super::error::Failure;
use crate::{
    core::{
        Completion, Report, TaskId, TaskResult, Time, Unresolved, model::diagnostics::Diagnostics,
    },
    executor::pg_client::Row,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What makes a database ready for markers; those who log in for tasks are to be let in besides.
pub const SETUP: &str = include_str!("markers.sql");

/// What a marker says: how the attempt ended that has committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(super) attempt: i32,
    pub(super) started: Time,
    pub(super) ended: Time,
    pub(super) slot: u32,
    pub(super) backend_pid: i32,
    pub(super) rows_affected: i64,
    pub(super) truncated: bool,
    pub(super) said: Diagnostics,
    /// In a column of its own: JSON within JSON would be longer.
    #[serde(skip)]
    pub(super) rows: Bytes,
}

/// What a target says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has not committed.
    Nothing,
    /// It has.
    Marker(Box<Marker>),
    /// A marker that no attempt has completed: somebody else has written it.
    Foreign,
}

impl Marker {
    pub(crate) fn result(&self) -> TaskResult {
        TaskResult {
            rows_affected: self.rows_affected,
            rows_json: self.rows.clone(),
            truncated: self.truncated,
        }
    }

    pub(crate) fn said(&self) -> &Diagnostics {
        &self.said
    }

    /// The completion of the attempt that has committed, for whoever waits for one of that number.
    pub(crate) fn completion(&self, of: Completion) -> Completion {
        Completion {
            report: Report::Succeeded(Some(Arc::new(self.result()))),
            started: self.started,
            ended: self.ended,
            slot: self.slot,
            backend_pid: self.backend_pid,
            ..of
        }
    }
}

impl Found {
    /// From the columns of [`lookup`].
    pub(crate) fn of(row: &Row) -> Self {
        let column = |at: usize| row.get(at).and_then(Option::as_deref);
        if column(0) != Some("t") {
            return Found::Nothing;
        }
        match column(1).map(serde_json::from_str::<Marker>) {
            Some(Ok(marker)) => Found::Marker(Box::new(Marker {
                rows: Bytes::copy_from_slice(column(2).unwrap_or_default().as_bytes()),
                ..marker
            })),
            _ => Found::Foreign,
        }
    }
}

/// Asks for the marker of a task.
pub(crate) fn lookup(task: TaskId) -> String {
    format!(
        "-- find_marker
        select known, task_outcome, task_result
        from rallypoint.marker_of('{}', {})",
        task.handle, task.seq.0
    )
}

/// Deletes markers of tasks that are long on record elsewhere: those that ended before `before`.
pub(crate) fn prune(before: Time, most: u32) -> String {
    format!(
        "-- prune_markers
        select rallypoint.prune_markers({}, {most})",
        before.0
    )
}

/// The task that an attempt was of.
pub(crate) fn task(unresolved: &Unresolved) -> TaskId {
    TaskId {
        handle: unresolved.handle,
        seq: unresolved.seq,
    }
}

/// The error of a task whose marker is somebody else's.
pub(crate) fn foreign() -> Failure {
    Failure::refused(
        "MARKER_INVALID",
        "the target has a marker of this task that no attempt has completed: \
         something else has written it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            attempt: 2,
            started: Time(5),
            ended: Time(7),
            slot: 3,
            backend_pid: 4,
            rows_affected: 9,
            truncated: true,
            said: Diagnostics::default(),
            rows: Bytes::from_static(b"[{\"a\":1}]"),
        }
    }

    #[test]
    fn a_marker_says_what_was_written_into_it() {
        let marker = marker();
        let outcome = serde_json::to_string(&marker).unwrap();
        let rows = String::from_utf8(marker.rows.to_vec()).unwrap();
        let row = vec![Some("t".into()), Some(outcome), Some(rows)];
        assert_eq!(Found::of(&row), Found::Marker(Box::new(marker)));
    }

    #[test]
    fn only_what_an_attempt_has_completed_is_a_marker() {
        assert_eq!(
            Found::of(&vec![Some("f".into()), None, None]),
            Found::Nothing
        );
        for outcome in [None, Some("{}".into()), Some("no JSON".into())] {
            let row = vec![Some("t".into()), outcome, None];
            assert_eq!(Found::of(&row), Found::Foreign);
        }
    }
}
