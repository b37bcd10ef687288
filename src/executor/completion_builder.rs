//! Makes the completions of an executor: what became of an assignment, where and when it ran, and
//! what its target said.

use super::sql::{
    attempt::Attempted,
    markers::{self, Found, Marker},
};
use crate::{
    clock::Clock,
    core::{
        Assignment, Completion, Report, TaskError, Time, Unresolved,
        model::diagnostics::Diagnostics,
    },
};
use bytes::Bytes;
use std::sync::Arc;

pub(super) struct Completions {
    clock: Clock,
    replica: Arc<str>,
    /// What is known of most attempts: that they ran here.
    only_where: Bytes,
}

impl Completions {
    pub(super) fn new(clock: Clock, replica: &str) -> Self {
        let here = Diagnostics {
            replica: replica.to_owned(),
            ..Diagnostics::default()
        };
        Completions {
            clock,
            only_where: encoded(&here),
            replica: replica.into(),
        }
    }

    /// The replica on which the executor runs.
    pub(super) fn replica(&self) -> &Arc<str> {
        &self.replica
    }

    /// The completion of an assignment that ends now.
    pub(super) fn of(
        &self,
        assignment: &Assignment,
        started: Time,
        slot: u32,
        attempted: Attempted,
    ) -> Completion {
        let Assignment {
            handle,
            first,
            attempt,
            ..
        } = *assignment;
        let completion = Completion {
            handle,
            first,
            attempt,
            report: attempted.report,
            started,
            ended: self.clock.now(),
            slot,
            backend_pid: attempted.backend_pid,
            diagnostics: match attempted.backend_pid {
                0 => Bytes::new(),
                _ => self.known(attempted.said),
            },
        };
        match attempted.marker {
            None => completion,
            Some(marker) => self.of_marker(completion, &marker),
        }
    }

    /// How a task ended that was lost, as its target says.
    pub(super) fn resolved(&self, unresolved: &Unresolved, found: Found) -> Completion {
        let now = self.clock.now();
        let lost = Completion {
            handle: unresolved.handle,
            first: unresolved.seq,
            attempt: unresolved.attempt,
            report: Report::Lost,
            started: now,
            ended: now,
            slot: 0,
            backend_pid: 0,
            diagnostics: Bytes::new(),
        };
        match found {
            Found::Nothing => lost,
            Found::Marker(marker) => self.of_marker(lost, &marker),
            Found::Foreign => Completion {
                report: Report::Failed {
                    error: Arc::new(markers::foreign().into_error()),
                    transient: false,
                },
                ..lost
            },
        }
    }

    fn of_marker(&self, of: Completion, marker: &Marker) -> Completion {
        marker.completion(Completion {
            diagnostics: encoded(marker.said()),
            ..of
        })
    }

    fn known(&self, said: Diagnostics) -> Bytes {
        if said == Diagnostics::default() {
            return self.only_where.clone();
        }
        let replica = self.replica.to_string();
        encoded(&Diagnostics { replica, ..said })
    }
}

/// The report of an attempt that has panicked.
pub(super) fn panicked() -> Report {
    let error = TaskError {
        code: "INTERNAL".into(),
        message: "the executor failed while it ran this task".into(),
    };
    Report::Failed {
        error: Arc::new(error),
        transient: true,
    }
}

/// As JSON, which plain data always have.
fn encoded(known: &Diagnostics) -> Bytes {
    serde_json::to_vec(known).unwrap_or_default().into()
}
