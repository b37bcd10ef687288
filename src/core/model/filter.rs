//! Which tasks or schedulers are meant: conditions that must all be met. Values only; who looks for
//! them asks each part where it is known.

use crate::core::{Done, Order, Outcome, Phase, SchedulerImage, SchedulerState, Spec, Time};
use std::{collections::BTreeMap, sync::Arc};

/// Conditions on a task. What is empty or `None` admits every task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// One of these.
    pub phases: Vec<Phase>,
    /// Ended in one of these ways.
    pub outcomes: Vec<Outcome>,
    /// Ended with one of these codes.
    pub error_codes: Vec<String>,
    /// Of this effective order.
    pub order: Option<Order>,
    /// All of these labels.
    pub labels: BTreeMap<String, String>,
    /// When it was submitted.
    pub submitted: Window,
    /// When it ended.
    pub ended: Window,
}

/// Conditions on a scheduler. What is empty or `None` admits every scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerFilter {
    /// In one of these.
    pub states: Vec<SchedulerState>,
    /// With this name.
    pub name: Option<Arc<str>>,
    /// With this display name.
    pub display_name: Option<String>,
    /// All of these labels.
    pub labels: BTreeMap<String, String>,
    /// When it was opened.
    pub opened: Window,
    /// Only if a failure has halted it.
    pub halted: bool,
}

/// Times from one up to but excluding another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub from: Option<Time>,
    /// The first after it.
    pub before: Option<Time>,
}

impl TaskFilter {
    /// Only tasks that have ended are meant, by how or when they did.
    pub fn asks_for_ends(&self) -> bool {
        !self.outcomes.is_empty() || !self.error_codes.is_empty() || self.ended != Window::default()
    }

    /// What a task was submitted with.
    pub fn admits_submission(&self, order: Option<Order>, spec: &Spec, at: Time) -> bool {
        (self.order.is_none() || self.order == order)
            && self.submitted.contains(at)
            && self.admits_labels(spec)
    }

    /// The labels a task was submitted with.
    pub fn admits_labels(&self, spec: &Spec) -> bool {
        has_all(&spec.options.labels, &self.labels)
    }

    /// How a task ended.
    pub fn admits_end(&self, done: &Done) -> bool {
        let code = done.error.as_ref().map(|error| &error.code);
        (self.outcomes.is_empty() || self.outcomes.contains(&done.outcome))
            && (self.error_codes.is_empty()
                || code.is_some_and(|code| self.error_codes.contains(code)))
            && (self.order.is_none() || self.order == done.order)
            && self.ended.contains(done.ended)
    }

    /// Where a task stands.
    pub fn admits_phase(&self, phase: Phase) -> bool {
        self.phases.is_empty() || self.phases.contains(&phase)
    }
}

impl SchedulerFilter {
    /// Whether a scheduler is meant.
    pub fn admits(&self, image: &SchedulerImage) -> bool {
        let display_name = self.display_name.as_ref();
        (self.states.is_empty() || self.states.contains(&image.state))
            && (self.name.is_none() || self.name == image.name)
            && display_name.is_none_or(|name| *name == image.settings.display_name)
            && self.opened.contains(image.opened_at)
            && (!self.halted || image.halt.is_some())
            && has_all(&image.settings.labels, &self.labels)
    }
}

impl Window {
    /// Whether `at` lies in it.
    pub fn contains(&self, at: Time) -> bool {
        self.from.is_none_or(|from| from <= at) && self.before.is_none_or(|before| at < before)
    }
}

/// Whether all of `wanted` are among `labels`.
fn has_all(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}
