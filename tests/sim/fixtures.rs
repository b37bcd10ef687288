//! What tasks, reports and settings are made of, made once: most of a life is spent in the core, not in allocations.

use crate::rng::Rng;
use rallypoint::core::{
    Delivery, LateOrder, OnFailure, Packed, ReleaseMode, Report, RetryPolicy, Settings, Spec,
    TaskError, TaskOptions, TaskResult, Time, Work,
};
use std::{sync::Arc, time::Duration};

/// What a poisoned text begins with: the model journal refuses a batch that holds one.
pub(crate) const POISON: &str = "!";

pub(crate) struct Fixtures {
    pub sql: Work,
    pub specs: Vec<Arc<Spec>>,
    pub noop: Arc<Spec>,
    pub failed: Arc<TaskError>,
    pub timed_out: Arc<TaskError>,
    pub overdue: Arc<TaskError>,
    pub poisoned_error: Arc<TaskError>,
    pub poisoned_result: Arc<TaskResult>,
}

impl Fixtures {
    pub(crate) fn new() -> Self {
        let sql = Work::Sql {
            target: "app".into(),
        };
        let spec = |options| {
            Arc::new(Spec {
                work: sql.clone(),
                options,
            })
        };
        let retry = |attempts| RetryPolicy {
            max_attempts: Some(attempts),
            max_losses: Some(2),
            initial: Some(Duration::from_millis(200)),
            ..RetryPolicy::default()
        };
        let plain = TaskOptions::default;
        let specs = vec![
            spec(plain()),
            spec(plain()),
            spec(plain()),
            spec(TaskOptions {
                retry: retry(3),
                ..plain()
            }),
            spec(TaskOptions {
                retry: retry(2),
                timeout: Some(Duration::from_secs(1)),
                ..plain()
            }),
            spec(TaskOptions {
                delivery: Some(Delivery::AtMostOnce),
                retry: retry(3),
                ..plain()
            }),
            spec(TaskOptions {
                deadline: Some(Duration::from_secs(4)),
                retry: retry(3),
                ..plain()
            }),
        ];
        let error = |code: &str, message: &str| {
            Arc::new(TaskError {
                code: code.into(),
                message: message.into(),
            })
        };
        Fixtures {
            noop: Arc::new(Spec {
                work: Work::Noop,
                options: plain(),
            }),
            failed: error("22012", "division by zero"),
            timed_out: error("TIMEOUT", "too long"),
            overdue: error("DEADLINE", "too late"),
            poisoned_error: error("XX000", POISON),
            poisoned_result: Arc::new(TaskResult {
                rows_json: POISON.into(),
                ..TaskResult::default()
            }),
            specs,
            sql,
        }
    }

    /// The spec of some tasks.
    pub(crate) fn spec(&self, now: Time, rng: &mut Rng) -> Arc<Spec> {
        match rng.below(20) {
            0..=1 => self.noop.clone(),
            2 => {
                let not_before = Some(now + rng.up_to(Duration::from_secs(5)));
                Arc::new(Spec {
                    work: self.sql.clone(),
                    options: TaskOptions {
                        not_before,
                        ..TaskOptions::default()
                    },
                })
            }
            _ => rng.one_of(&self.specs).clone(),
        }
    }

    /// Bodies of `count` tasks, of which one may be poisoned.
    pub(crate) fn bodies(&self, count: usize, poisoned: bool, rng: &mut Rng) -> Packed {
        if poisoned {
            return Packed::new((0..count).map(|_| POISON.as_bytes()));
        }
        // No two tasks have the same one.
        let texts: Vec<[u8; 9]> = (0..count)
            .map(|_| {
                let mut text = [b'.'; 9];
                text[1..].copy_from_slice(&rng.next().to_be_bytes());
                text
            })
            .collect();
        Packed::new(texts.iter().map(|text| &text[..]))
    }

    /// How an attempt that was not stopped ends.
    pub(crate) fn report(&self, faults: bool, rng: &mut Rng) -> Report {
        let failed = |error: &Arc<TaskError>, transient| Report::Failed {
            error: error.clone(),
            transient,
        };
        match rng.below(100) {
            0..=11 => failed(&self.failed, false),
            12..=16 if faults => failed(&self.failed, true),
            17..=18 if faults => Report::TimedOut(self.timed_out.clone()),
            19..=20 if faults => Report::Stopped,
            21 if faults => failed(&self.poisoned_error, false),
            22 if faults => Report::Succeeded(Some(self.poisoned_result.clone())),
            _ => Report::Succeeded(None),
        }
    }
}

/// What a caller sets on a new scheduler.
pub(crate) fn settings(poisoned: bool, rng: &mut Rng) -> Arc<Settings> {
    let idle_timeout = if rng.percent(10) {
        Duration::from_secs(10)
    } else {
        Duration::from_secs(24 * 3600)
    };
    Arc::new(Settings {
        display_name: if poisoned {
            POISON.into()
        } else {
            String::new()
        },
        max_parallelism: rng.percent(50).then(|| 1 + rng.below(3) as u32),
        weight: *rng.one_of(&[1.0, 1.0, 3.0]),
        on_failure: *rng.one_of(&[OnFailure::Continue, OnFailure::Halt, OnFailure::CancelRest]),
        late_order: *rng.one_of(&[LateOrder::Reject, LateOrder::Join]),
        on_abandon: *rng.one_of(&[ReleaseMode::Finish, ReleaseMode::Cancel]),
        idle_timeout,
        ..Settings::default()
    })
}
