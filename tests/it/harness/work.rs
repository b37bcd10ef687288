//! Tasks as tests write them: what to run first, then how.

use rallypoint_client::api::{self, sql_value::Kind as Value, task::Kind};
use std::time::{Duration, SystemTime};

/// A task to be submitted.
#[derive(Clone, Debug)]
pub struct Work(api::Task);

/// SQL on the target `app`.
pub(crate) fn sql(statement: impl Into<String>) -> Work {
    of(Kind::Sql(api::SqlTask {
        statement: statement.into(),
        ..Default::default()
    }))
}

/// SQL that takes `ms` milliseconds.
pub(crate) fn sleep(ms: u64) -> Work {
    sql(format!("select pg_sleep({})", ms as f64 / 1000.0))
}

/// SQL that fails with 22012.
pub(crate) fn failing() -> Work {
    sql("select 1/0")
}

/// A task that does nothing.
pub(crate) fn noop() -> Work {
    of(Kind::Noop(api::NoopTask::default()))
}

/// The kind of the slots for SQL on this target.
pub(crate) fn slots_of(target: &str) -> Option<api::SlotKind> {
    Some(api::SlotKind {
        kind: Some(api::slot_kind::Kind::SqlTarget(target.to_owned())),
    })
}

fn of(kind: Kind) -> Work {
    Work(api::Task {
        kind: Some(kind),
        ..Default::default()
    })
}

impl Work {
    pub fn order(mut self, order: i64) -> Work {
        self.0.order = Some(order);
        self
    }

    pub fn on(mut self, name: &str) -> Work {
        if let Some(Kind::Sql(task)) = &mut self.0.kind {
            task.target = name.to_owned();
        }
        self
    }

    pub fn timeout(self, ms: u64) -> Work {
        self.with(|options| options.timeout = Some(duration(ms)))
    }

    pub fn deadline(self, ms: u64) -> Work {
        self.with(|options| options.total_timeout = Some(duration(ms)))
    }

    pub fn rows(self, rows: i32) -> Work {
        self.with(|options| options.result_rows = Some(rows))
    }

    /// Retried at once, at most `attempts` attempts in all.
    pub fn attempts(self, attempts: i32) -> Work {
        let initial = Some(duration(1));
        self.with(|options| {
            options.retry = Some(api::RetryPolicy {
                max_attempts: Some(attempts),
                initial_backoff: initial,
                ..Default::default()
            });
        })
    }

    /// Lost attempts are repeated at once, at most `losses` of them.
    pub fn losses(self, losses: i32) -> Work {
        let initial = Some(duration(1));
        self.with(|options| {
            options.retry = Some(api::RetryPolicy {
                max_losses: Some(losses),
                initial_backoff: initial,
                max_backoff: initial,
                ..Default::default()
            });
        })
    }

    /// Retried once, after so long.
    pub fn retry_in(self, ms: u64) -> Work {
        self.with(|options| {
            options.retry = Some(api::RetryPolicy {
                max_attempts: Some(2),
                initial_backoff: Some(duration(ms)),
                ..Default::default()
            });
        })
    }

    pub fn not_before(self, at: SystemTime) -> Work {
        self.with(|options| options.not_before = Some(at.into()))
    }

    /// Never started twice.
    pub fn at_most_once(self) -> Work {
        self.with(|options| options.delivery = api::Delivery::AtMostOnce.into())
    }

    /// With this label besides others.
    pub fn label(self, key: &str, value: &str) -> Work {
        self.with(|options| {
            options.labels.insert(key.to_owned(), value.to_owned());
        })
    }

    /// What its session begins with.
    pub fn session(self, session: api::SessionOptions) -> Work {
        self.with(|options| options.session = Some(session))
    }

    /// What it does and its marker are one transaction.
    pub fn exactly_once(self) -> Work {
        self.with(|options| options.delivery = api::Delivery::ExactlyOnce.into())
    }

    /// With these values for `$1`, `$2`, …
    pub fn params(mut self, values: &[&str]) -> Work {
        if let Some(Kind::Sql(task)) = &mut self.0.kind {
            let value = |text: &&str| api::SqlValue {
                kind: Some(Value::Text((*text).to_owned())),
            };
            task.params = values.iter().map(value).collect();
        }
        self
    }

    /// `count` copies.
    pub fn times(self, count: usize) -> Vec<Work> {
        vec![self; count]
    }

    pub fn with(mut self, set: impl FnOnce(&mut api::TaskOptions)) -> Work {
        set(self.0.options.get_or_insert_default());
        self
    }
}

impl From<Work> for api::Task {
    fn from(work: Work) -> api::Task {
        work.0
    }
}

pub(crate) fn duration(ms: u64) -> prost_types::Duration {
    Duration::from_millis(ms).try_into().expect("a duration")
}
