//! What a task is: its work, its options, its outcome. Plain data, shared by every layer.

use crate::core::{Order, SessionOptions, Time, Trace, Want};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

/// What kind of work a task is, and where it runs. Its text form (`noop`, `sql/app`) names the kind
/// of slot it needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Work {
    /// Succeeds at once, without a session.
    Noop,
    /// SQL text on a named target.
    Sql {
        /// The target's name.
        target: Arc<str>,
    },
}

/// What tasks of one run have in common, besides their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What to run, and where.
    pub work: Work,
    /// How to run it.
    #[serde(default, skip_serializing_if = "TaskOptions::is_default")]
    pub options: TaskOptions,
    /// Where they are shown in a trace, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<Trace>>,
}

/// How a task is run. `None`: the scheduler's default, then the default of the accessor of that
/// name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskOptions {
    /// Not before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Limit of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Limit from submission to outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// When to try again.
    #[serde(skip_serializing_if = "RetryPolicy::is_default")]
    pub retry: RetryPolicy,
    /// What a crash may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Rows of the result to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_rows: Option<u32>,
    /// What its session begins with.
    #[serde(skip_serializing_if = "SessionOptions::is_default")]
    pub session: SessionOptions,
    /// What an attempt holds while it runs: each name once, sorted by name.
    #[serde(skip_serializing_if = "is_empty")]
    pub resources: Arc<[Want]>,
    /// Free labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// When a failed attempt is followed by another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryPolicy {
    /// Attempts that reported an error or timed out; default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Attempts lost with their host or ended by a transient error; default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    /// Wait before the second attempt; default 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Duration>,
    /// Factor from wait to wait; default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    /// Longest wait; default 5 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Duration>,
    /// Random share of the wait, 0 to 1; default 0.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Error codes that are never retried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_retryable: Vec<String>,
}

/// What a crash may do to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// A lost attempt is followed by another one.
    AtLeastOnce,
    /// Never started twice.
    AtMostOnce,
    /// What it did and the marker that says so are committed together; whether a lost attempt did
    /// it is found out before anything follows.
    ExactlyOnce,
}

/// How a task ended. Exactly one per task. The numbers are those of the journal and of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum Outcome {
    /// Its work is done.
    Succeeded = 1,
    /// Its last attempt reported an error.
    Failed = 2,
    /// By a caller, a release or CANCEL_REST.
    Cancelled = 3,
    /// Its timeout or deadline passed.
    TimedOut = 4,
    /// Lost too often.
    Exhausted = 5,
}

/// Where an unfinished task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Waits for an earlier order, a halt or its `not_before`.
    Blocked {
        /// Its `not_before`, when that is what it waits for.
        next_at: Option<Time>,
    },
    /// Waits for a slot or the scheduler's limit.
    Queued,
    /// An attempt runs.
    Running {
        /// When it was handed out.
        since: Time,
    },
    /// Waits for its next attempt.
    Retrying {
        /// When that may start.
        next_at: Time,
    },
}

/// A [`TaskState`] without its times, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Phase {
    Blocked,
    Queued,
    Running,
    Retrying,
    Done,
}

impl TaskState {
    /// Without its times.
    pub fn phase(self) -> Phase {
        match self {
            TaskState::Blocked { .. } => Phase::Blocked,
            TaskState::Queued => Phase::Queued,
            TaskState::Running { .. } => Phase::Running,
            TaskState::Retrying { .. } => Phase::Retrying,
        }
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskError {
    /// SQLSTATE, or a reason in capitals.
    pub code: String,
    /// For people; at most [`super::limits::ERROR_BYTES`].
    pub message: String,
}

impl TaskError {
    /// Of a task that was cancelled: `said` is by whom, and what was meant.
    pub fn cancelled(said: &str) -> TaskError {
        TaskError::new("CANCELLED", said)
    }

    /// An error whose message is cut where it is too long.
    pub fn new(code: &str, message: &str) -> TaskError {
        let most = message.floor_char_boundary(super::limits::ERROR_BYTES);
        TaskError {
            code: code.into(),
            message: message[..most].into(),
        }
    }
}

/// What an attempt brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskResult {
    /// Rows affected or returned by the last statement.
    pub rows_affected: i64,
    /// The first rows as a JSON array of objects; empty when none were asked for.
    pub rows_json: Bytes,
    /// Rows or bytes were left out.
    pub truncated: bool,
}

/// Concatenated byte strings: the bodies of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// All of them.
    pub bytes: Bytes,
    /// Where each one ends.
    pub ends: Vec<u32>,
}

impl Packed {
    /// Packs `items`.
    pub fn new<'a>(items: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for item in items {
            bytes.extend_from_slice(item);
            ends.push(bytes.len() as u32);
        }
        Packed {
            bytes: bytes.into(),
            ends,
        }
    }

    /// The item at `index` (from 0). Panics when there is none.
    pub fn get(&self, index: usize) -> Bytes {
        self.bytes.slice(self.range(index))
    }

    /// The item at `index` (from 0), borrowed. Panics when there is none.
    pub fn slice(&self, index: usize) -> &[u8] {
        &self.bytes[self.range(index)]
    }

    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start as usize..self.ends[index] as usize
    }

    /// How many items.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// `count` consecutive tasks of one order and one spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How many.
    pub count: u32,
    /// The order asked for.
    pub order: Option<Order>,
    /// What they share.
    pub spec: Arc<Spec>,
}

impl Work {
    /// Whether it occupies a session of an executor, and therefore has a body to send there. Work
    /// without one ends when it is handed out.
    pub fn has_session(&self) -> bool {
        match self {
            Work::Noop => false,
            Work::Sql { .. } => true,
        }
    }
}

impl TaskOptions {
    /// Nothing is set.
    pub fn is_default(&self) -> bool {
        *self == TaskOptions::default()
    }

    /// Whether a first attempt is on record before it starts, whatever else there is: one that must
    /// not start twice or whose fate must be known before it starts again, one that holds
    /// resources, and one that waited for a time, which a later owner cannot infer from the task's
    /// number.
    pub fn records_start(&self) -> bool {
        let must_be_known = match self.delivery() {
            Delivery::AtMostOnce | Delivery::ExactlyOnce => true,
            Delivery::AtLeastOnce => self.retry.ends_with_a_loss(),
        };
        must_be_known || self.not_before.is_some() || !self.resources.is_empty()
    }

    /// These options, and where they say nothing, `fallback`'s.
    pub fn or(&self, fallback: &TaskOptions) -> TaskOptions {
        TaskOptions {
            not_before: self.not_before.or(fallback.not_before),
            timeout: self.timeout.or(fallback.timeout),
            deadline: self.deadline.or(fallback.deadline),
            retry: if self.retry.is_default() {
                fallback.retry.clone()
            } else {
                self.retry.clone()
            },
            delivery: self.delivery.or(fallback.delivery),
            result_rows: self.result_rows.or(fallback.result_rows),
            session: self.session.or(&fallback.session),
            resources: match self.resources.is_empty() {
                true => fallback.resources.clone(),
                false => self.resources.clone(),
            },
            labels: fallback
                .labels
                .iter()
                .chain(&self.labels)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        }
    }

    /// What a crash may do; AT_LEAST_ONCE unless said otherwise.
    pub fn delivery(&self) -> Delivery {
        self.delivery.unwrap_or(Delivery::AtLeastOnce)
    }
}

impl RetryPolicy {
    /// Nothing is set.
    pub fn is_default(&self) -> bool {
        *self == RetryPolicy::default()
    }
}

impl Outcome {
    /// Counts as a failure of its order (cancelled does not).
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Outcome::Failed | Outcome::TimedOut | Outcome::Exhausted
        )
    }

    /// From the journal's number.
    pub fn from_number(number: i16) -> Option<Self> {
        [
            Outcome::Succeeded,
            Outcome::Failed,
            Outcome::Cancelled,
            Outcome::TimedOut,
            Outcome::Exhausted,
        ]
        .into_iter()
        .find(|outcome| *outcome as i16 == number)
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Noop => f.write_str("noop"),
            Work::Sql { target } => write!(f, "sql/{target}"),
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            None if text == "noop" => Ok(Work::Noop),
            Some(("sql", target)) => Ok(Work::Sql {
                target: target.into(),
            }),
            _ => Err(format!("unknown kind of work: {text}")),
        }
    }
}

impl From<Work> for String {
    fn from(work: Work) -> String {
        work.to_string()
    }
}

impl TryFrom<String> for Work {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

fn is_empty(wants: &Arc<[Want]>) -> bool {
    wants.is_empty()
}
