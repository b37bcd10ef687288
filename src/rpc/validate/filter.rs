//! The filters of lists.

use super::scalar;
use crate::{
    core::{Outcome, Phase, SchedulerFilter, SchedulerState, TaskFilter, Window},
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;

const MAX_OUTCOMES: usize = 10;
const MAX_ERROR_CODES: usize = 100;

/// Which tasks are meant.
pub(super) fn tasks(v: &mut Violations, path: Path<'_>, asked: &api::TaskFilter) -> TaskFilter {
    if asked.outcomes.len() > MAX_OUTCOMES {
        let message = format!("at most {MAX_OUTCOMES} outcomes");
        v.add(path.field("outcomes"), Reason::FilterInvalid, message);
    }
    TaskFilter {
        phases: each(v, path.field("states"), &asked.states, phase),
        outcomes: each(v, path.field("outcomes"), &asked.outcomes, outcome),
        error_codes: error_codes(v, path.field("error_codes"), &asked.error_codes),
        order: asked
            .effective_order
            .map(|order| scalar::order(v, path.field("effective_order"), order)),
        labels: scalar::labels(v, path.field("labels"), &asked.labels),
        submitted: Window {
            from: time(v, path.field("submitted_from"), &asked.submitted_from),
            before: time(v, path.field("submitted_before"), &asked.submitted_before),
        },
        ended: Window {
            from: time(v, path.field("ended_from"), &asked.ended_from),
            before: time(v, path.field("ended_before"), &asked.ended_before),
        },
    }
}

/// Which schedulers are meant.
pub(super) fn schedulers(
    v: &mut Violations,
    path: Path<'_>,
    asked: &api::SchedulerFilter,
) -> SchedulerFilter {
    let name = &asked.display_name;
    SchedulerFilter {
        name: scalar::name(v, path.field("name"), &asked.name),
        states: each(v, path.field("states"), &asked.states, scheduler_state),
        display_name: Some(name).filter(|name| !name.is_empty()).cloned(),
        labels: scalar::labels(v, path.field("labels"), &asked.labels),
        opened: Window {
            from: time(v, path.field("opened_from"), &asked.opened_from),
            before: time(v, path.field("opened_before"), &asked.opened_before),
        },
        halted: asked.halted,
    }
}

/// Values of an enumeration, each once. That nothing is specified is no value to look for.
fn each<E: TryFrom<i32>, T: PartialEq>(
    v: &mut Violations,
    path: Path<'_>,
    numbers: &[i32],
    meaning: fn(E) -> Option<T>,
) -> Vec<T> {
    let mut values = Vec::new();
    for (index, number) in numbers.iter().enumerate() {
        let path = path.index(index);
        let Some(value) = scalar::enumeration(v, path, *number) else {
            continue;
        };
        match meaning(value) {
            None => v.add(path, Reason::EnumUnknown, "name a value, or leave it out"),
            Some(value) if values.contains(&value) => {}
            Some(value) => values.push(value),
        }
    }
    values
}

fn error_codes(v: &mut Violations, path: Path<'_>, codes: &[String]) -> Vec<String> {
    if codes.len() > MAX_ERROR_CODES {
        let message = format!("at most {MAX_ERROR_CODES} codes");
        v.add(path, Reason::FilterInvalid, message);
    }
    for (index, code) in codes.iter().enumerate().take(MAX_ERROR_CODES) {
        if !scalar::is_error_code(code) {
            v.add(path.index(index), Reason::FilterInvalid, scalar::ERROR_CODE);
        }
    }
    codes.to_vec()
}

fn time(
    v: &mut Violations,
    path: Path<'_>,
    time: &Option<prost_types::Timestamp>,
) -> Option<crate::core::Time> {
    time.as_ref().and_then(|time| scalar::time(v, path, time))
}

fn phase(state: api::TaskState) -> Option<Phase> {
    match state {
        api::TaskState::Blocked => Some(Phase::Blocked),
        api::TaskState::Queued => Some(Phase::Queued),
        api::TaskState::Running => Some(Phase::Running),
        api::TaskState::Retrying => Some(Phase::Retrying),
        api::TaskState::Done => Some(Phase::Done),
        api::TaskState::Unspecified => None,
    }
}

fn outcome(outcome: api::Outcome) -> Option<Outcome> {
    // The numbers of the core are those of the API.
    Outcome::from_number(outcome as i16)
}

fn scheduler_state(state: api::SchedulerState) -> Option<SchedulerState> {
    match state {
        api::SchedulerState::Open => Some(SchedulerState::Open),
        api::SchedulerState::Releasing => Some(SchedulerState::Releasing),
        api::SchedulerState::Released => Some(SchedulerState::Released),
        api::SchedulerState::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_as_many_outcomes_as_the_api_says() {
        for (count, is_valid) in [(10, true), (11, false)] {
            let mut v = Violations::default();
            let asked = api::TaskFilter {
                outcomes: vec![api::Outcome::Failed.into(); count],
                ..Default::default()
            };
            let filter = tasks(&mut v, Path::Root.field("filter"), &asked);
            assert_eq!(filter.outcomes, [Outcome::Failed], "each once");
            assert_eq!(v.into_result(()).is_ok(), is_valid, "{count}");
        }
    }
}
