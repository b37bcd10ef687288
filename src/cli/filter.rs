//! Which tasks or schedulers a command is about, as options.

use super::{
    number::whole,
    when::{self, When},
};
use crate::core::model::limits::MAX_ORDER;
use clap::{Args, ValueEnum};
use rallypoint_client::api;
use std::{collections::HashMap, str::FromStr};

/// Conditions on tasks.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TaskConditions {
    #[command(flatten)]
    submitted: AsSubmitted,
    #[command(flatten)]
    now: AsOfNow,
    #[command(flatten)]
    ended: AsEnded,
    /// Only tasks that failed, timed out or were exhausted, the last ones first
    #[arg(long, conflicts_with = "outcomes")]
    failed: bool,
    /// Only tasks that ended since, the last ones first
    #[arg(long, value_name = "TIME")]
    ended_since: Option<When>,
}

/// Conditions on what tasks were submitted with.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AsSubmitted {
    /// Only tasks of this order
    #[arg(long, value_name = "N", value_parser = whole::<i64>(0..=MAX_ORDER))]
    order: Option<i64>,
    /// Only tasks with this label (repeatable: with all of them)
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
}

/// Conditions on where tasks stand, and since when.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AsOfNow {
    /// Only tasks in this state (repeatable)
    #[arg(long = "state", value_enum, value_delimiter = ',')]
    states: Vec<State>,
    /// Only tasks submitted since: 1h or 2d ago, 2026-03-01 (of UTC), or a time like
    /// 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
}

/// Conditions on how tasks ended.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AsEnded {
    /// Only tasks that ended so, the last ones first (repeatable)
    #[arg(long = "outcome", value_enum, value_delimiter = ',')]
    outcomes: Vec<Outcome>,
    /// Only tasks that ended with this SQLSTATE or reason (repeatable)
    #[arg(long = "error-code", visible_alias = "code")]
    #[arg(value_name = "CODE", value_delimiter = ',')]
    error_codes: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// Blocked, queued or retrying
    Waiting,
    Blocked,
    Queued,
    Running,
    Retrying,
    Done,
}

/// How failed tasks have ended, as the API has it.
pub(super) fn failures() -> Vec<i32> {
    use api::Outcome::{Exhausted, Failed, TimedOut};
    [Failed, TimedOut, Exhausted].map(i32::from).into()
}

/// Whether a task may end so, in the words of `--outcome`.
pub(super) fn is_outcome(word: &str) -> bool {
    <Outcome as ValueEnum>::from_str(word, false).is_ok()
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
    TimedOut,
    Exhausted,
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    key: String,
    value: String,
}

impl TaskConditions {
    /// As the API has them.
    pub(super) fn filter(&self) -> api::TaskFilter {
        let mut filter = api::TaskFilter {
            ended_from: self.ended_since.map(timestamp),
            ..api::TaskFilter::default()
        };
        self.submitted.add_to(&mut filter);
        self.now.add_to(&mut filter);
        self.ended.add_to(&mut filter);
        if self.failed {
            filter.outcomes = failures();
        }
        filter
    }
}

impl AsSubmitted {
    pub(super) fn add_to(&self, filter: &mut api::TaskFilter) {
        filter.effective_order = self.order;
        filter.labels = labels(&self.labels);
    }
}

impl AsOfNow {
    pub(super) fn add_to(&self, filter: &mut api::TaskFilter) {
        let states = self.states.iter().flat_map(|state| state.meaning());
        filter.states = states.map(|state| i32::from(*state)).collect();
        filter.submitted_from = self.since.map(timestamp);
    }
}

impl AsEnded {
    pub(super) fn add_to(&self, filter: &mut api::TaskFilter) {
        filter.outcomes = self.outcomes.iter().map(|one| one.number()).collect();
        filter.error_codes = self.error_codes.clone();
    }
}

impl State {
    fn meaning(self) -> &'static [api::TaskState] {
        use api::TaskState::{Blocked, Done, Queued, Retrying, Running};
        match self {
            State::Waiting => &[Blocked, Queued, Retrying],
            State::Blocked => &[Blocked],
            State::Queued => &[Queued],
            State::Running => &[Running],
            State::Retrying => &[Retrying],
            State::Done => &[Done],
        }
    }
}

impl Outcome {
    fn number(self) -> i32 {
        let outcome = match self {
            Outcome::Succeeded => api::Outcome::Succeeded,
            Outcome::Failed => api::Outcome::Failed,
            Outcome::Cancelled => api::Outcome::Cancelled,
            Outcome::TimedOut => api::Outcome::TimedOut,
            Outcome::Exhausted => api::Outcome::Exhausted,
        };
        outcome.into()
    }
}

/// An instant as the API has it.
pub(super) fn timestamp(when: When) -> prost_types::Timestamp {
    when::message(when.in_utc())
}

/// Labels as the API has them.
pub(super) fn labels(labels: &[Label]) -> HashMap<String, String> {
    let pair = |label: &Label| (label.key.clone(), label.value.clone());
    labels.iter().map(pair).collect()
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or("write it as KEY=VALUE")?;
        Ok(Label {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_key_and_a_value() {
        let label: Label = "a=b=c".parse().expect("a label");
        assert_eq!((label.key.as_str(), label.value.as_str()), ("a", "b=c"));
        assert!("a".parse::<Label>().is_err() && "=b".parse::<Label>().is_err());
    }
}
