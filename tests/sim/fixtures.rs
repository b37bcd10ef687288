//! What tasks and reports are made of, made once: most of a scenario is spent in the core, not in
//! allocations.

use crate::rng::Rng;
use rallypoint::core::{
    Delivery, Mode, Packed, Report, RetryPolicy, Spec, TaskError, TaskOptions, TaskResult, Time,
    Want, Work,
};
use std::{sync::Arc, time::Duration};

/// What a poisoned text begins with: the model journal refuses a batch that holds one.
pub(crate) const POISON: &str = "!";

pub(crate) struct Fixtures {
    /// The second one is small.
    pub targets: [Work; 2],
    specs: Vec<Arc<Spec>>,
    /// Specs of tasks that hold resources.
    holding: Vec<Arc<Spec>>,
    noop: Arc<Spec>,
    failures: [Arc<TaskError>; 2],
    pub timed_out: Arc<TaskError>,
    pub overdue: Arc<TaskError>,
    poisoned_error: Arc<TaskError>,
    poisoned_result: Arc<TaskResult>,
    /// The same with exactly-once tasks, for lives with targets that know their markers.
    with_markers: Option<Box<Fixtures>>,
}

impl Fixtures {
    pub(crate) fn new() -> Self {
        let exactly_once = TaskOptions {
            delivery: Some(Delivery::ExactlyOnce),
            ..TaskOptions::default()
        };
        let of = |retry, deadline| TaskOptions {
            retry,
            deadline,
            ..exactly_once.clone()
        };
        let seconds = Duration::from_secs;
        let more = [
            of(RetryPolicy::default(), None),
            of(retry(3), None),
            of(retry(2), Some(seconds(4))),
        ];
        Fixtures {
            with_markers: Some(Box::new(Fixtures::of(more.into()))),
            ..Fixtures::of(Vec::new())
        }
    }

    pub(crate) fn with_markers(&self) -> &Fixtures {
        self.with_markers.as_deref().unwrap_or(self)
    }

    fn of(more: Vec<TaskOptions>) -> Self {
        let targets = ["app", "small"].map(|target| Work::Sql {
            target: target.into(),
        });
        let spec = |options| {
            Arc::new(Spec {
                work: targets[0].clone(),
                options,
                trace: None,
            })
        };
        let error = |code: &str, message: &str| {
            Arc::new(TaskError {
                code: code.into(),
                message: message.into(),
            })
        };
        let elsewhere = Arc::new(Spec {
            work: targets[1].clone(),
            options: TaskOptions::default(),
            trace: None,
        });
        let mut specs: Vec<_> = all_options().into_iter().chain(more).map(spec).collect();
        specs.extend([elsewhere.clone(), elsewhere]);
        let holding = specs[..7].iter().zip(wants().into_iter().cycle());
        let holding = holding.map(|(spec, wants)| {
            let mut spec = (**spec).clone();
            spec.options.resources = wants.into();
            Arc::new(spec)
        });
        Fixtures {
            noop: Arc::new(Spec {
                work: Work::Noop,
                options: TaskOptions::default(),
                trace: None,
            }),
            failures: [
                error("22012", "division by zero"),
                error("23505", "already there"),
            ],
            timed_out: error("TIMEOUT", "too long"),
            overdue: error("DEADLINE", "too late"),
            poisoned_error: error("XX000", POISON),
            poisoned_result: Arc::new(TaskResult {
                rows_json: POISON.into(),
                ..TaskResult::default()
            }),
            holding: holding.collect(),
            specs,
            targets,
            with_markers: None,
        }
    }

    /// The spec of tasks without options.
    pub(crate) fn plain(&self) -> Arc<Spec> {
        self.specs[0].clone()
    }

    /// The spec of some tasks that hold resources.
    pub(crate) fn holding(&self, rng: &mut Rng) -> Arc<Spec> {
        rng.one_of(&self.holding).clone()
    }

    /// The spec of some tasks.
    pub(crate) fn spec(&self, now: Time, rng: &mut Rng) -> Arc<Spec> {
        match rng.below(20) {
            0..=1 => self.noop.clone(),
            2 => {
                let not_before = Some(now + rng.up_to(Duration::from_secs(5)));
                let deadline = rng.percent(30).then(|| rng.up_to(Duration::from_secs(6)));
                Arc::new(Spec {
                    work: rng.one_of(&self.targets).clone(),
                    options: TaskOptions {
                        not_before,
                        deadline,
                        ..TaskOptions::default()
                    },
                    trace: None,
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
            0..=11 => failed(rng.one_of(&self.failures), false),
            12..=16 if faults => failed(rng.one_of(&self.failures), true),
            17..=18 if faults => Report::TimedOut(self.timed_out.clone()),
            19..=20 if faults => Report::Stopped,
            21 if faults => failed(&self.poisoned_error, false),
            22 if faults => Report::Succeeded(Some(self.poisoned_result.clone())),
            _ => Report::Succeeded(None),
        }
    }
}

/// What tasks hold: never more than there is of it.
fn wants() -> [Vec<Want>; 5] {
    let want = |(name, mode): (&str, Mode)| Want {
        name: name.into(),
        mode,
    };
    let one = Mode::Shared(1);
    [
        vec![("lock", Mode::Exclusive)],
        vec![("pool", one)],
        vec![("key/1", Mode::Exclusive), ("pool", one)],
        vec![("key/2", Mode::Exclusive), ("pool", one), ("rw", one)],
        vec![("rw", Mode::Exclusive)],
    ]
    .map(|wants| wants.into_iter().map(want).collect())
}

fn retry(attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts: Some(attempts),
        max_losses: Some(2),
        initial: Some(Duration::from_millis(200)),
        ..RetryPolicy::default()
    }
}

/// Options of some tasks: limits of time and of attempts, and what may follow a loss.
fn all_options() -> Vec<TaskOptions> {
    let (plain, seconds) = (TaskOptions::default, Duration::from_secs);
    let steady = RetryPolicy {
        max_attempts: Some(4),
        multiplier: Some(1.5),
        max: Some(Duration::from_millis(700)),
        jitter: Some(0.5),
        non_retryable: vec!["23505".into()],
        ..retry(4)
    };
    vec![
        plain(),
        plain(),
        plain(),
        TaskOptions {
            retry: retry(3),
            ..plain()
        },
        TaskOptions {
            retry: steady,
            ..plain()
        },
        TaskOptions {
            retry: retry(2),
            timeout: Some(seconds(1)),
            ..plain()
        },
        TaskOptions {
            delivery: Some(Delivery::AtMostOnce),
            retry: retry(3),
            ..plain()
        },
        TaskOptions {
            deadline: Some(seconds(4)),
            retry: retry(3),
            ..plain()
        },
        TaskOptions {
            deadline: Some(seconds(3)),
            timeout: Some(seconds(1)),
            ..plain()
        },
    ]
}
