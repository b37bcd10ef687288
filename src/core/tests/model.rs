//! Random command sequences against a model that is naive and obviously right: vectors and linear
//! scans.

mod compare;
mod rules;

use super::world::{World, free, order, plain, slots, sql};
use crate::core::{
    Cancel, Handle, LateOrder, OnFailure, Outcome, Reject, ReleaseMode, Reply, Report, TaskRange,
    TaskRef, Verb,
};
use compare::compare;
use proptest::prelude::*;
use rules::{Model, State};
use std::sync::Arc;

/// What happens next. Numbers are picked modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Submit(Vec<Option<i64>>),
    Report(usize, bool),
    Stop(usize),
    Cancel(i64),
    /// First task, how many, and whether those that wait and those that run.
    CancelSome(i64, usize, bool, bool),
    Pause,
    Resume(bool),
    Limit(Option<u32>),
    Slots(u32),
    Release(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![1 => Just(None), 4 => (1..6i64).prop_map(Some)];
    prop_oneof![
        4 => prop::collection::vec(order, 1..6).prop_map(Step::Submit),
        8 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(at, well)| Step::Report(at, well)),
        1 => any::<usize>().prop_map(Step::Stop),
        2 => (1..30i64).prop_map(Step::Cancel),
        2 => (1..30i64, 0..12usize, any::<bool>(), any::<bool>())
            .prop_map(|(first, count, waiting, running)| {
                Step::CancelSome(first, count, waiting, running)
            }),
        1 => Just(Step::Pause),
        2 => any::<bool>().prop_map(Step::Resume),
        1 => prop::option::of(1..5u32).prop_map(Step::Limit),
        1 => (0..12u32).prop_map(Step::Slots),
        1 => prop::bool::weighted(0.3).prop_map(Step::Release),
    ]
}

/// Does `step` to both.
fn apply(w: &mut World, s: Handle, model: &mut Model, step: &Step) {
    match step {
        Step::Submit(orders) => submit(w, s, model, orders),
        Step::Report(at, _) | Step::Stop(at) => report(w, s, model, *at, step),
        Step::Cancel(seq) => cancel(w, s, model, *seq),
        Step::CancelSome(first, count, waiting, running) => {
            cancel_some(w, s, model, (*first, *count), (*waiting, *running));
        }
        Step::Pause => {
            w.call(s, Verb::Pause);
            model.paused = true;
        }
        Step::Resume(ignore_failures) => {
            w.call(
                s,
                Verb::Resume {
                    ignore_failures: *ignore_failures,
                },
            );
            model.paused = false;
            model.halt = model.halt.filter(|_| !ignore_failures);
        }
        Step::Limit(limit) => {
            // Refused when it is over, and then it changes nothing.
            w.try_limit(s, *limit);
            model.limit = *limit;
        }
        Step::Slots(total) => {
            w.command(slots(sql(), *total));
            model.slots = *total;
        }
        Step::Release(cancel) => {
            let mode = if *cancel {
                ReleaseMode::Cancel
            } else {
                ReleaseMode::Finish
            };
            w.release(s, mode);
            model.release(mode);
        }
    }
    model.start();
}

fn submit(w: &mut World, s: Handle, model: &mut Model, orders: &[Option<i64>]) {
    let tasks = orders.iter().map(|o| o.map_or_else(free, order));
    let answer = w.try_submit(s, None, tasks);
    if let Err(reject) = &answer {
        assert!(
            matches!(reject, Reject::OrderClosed { .. } | Reject::Released),
            "{reject:?}"
        );
    }
    assert_eq!(
        answer.map(|(first, _)| first).map_err(drop),
        model.submit(orders)
    );
}

fn cancel(w: &mut World, s: Handle, model: &mut Model, seq: i64) {
    let cancel = Cancel::one(w.remembered.place(s, seq));
    let reply = w.call(s, Verb::Cancel(Arc::new(cancel)));
    let task = model.tasks.get_mut(seq as usize - 1);
    match task.map(|task| &mut task.state) {
        None => assert!(matches!(reply, Reply::Rejected(Reject::UnknownTask))),
        Some(State::Running { cancel }) => *cancel = true,
        Some(State::Waiting) => model.end(seq as usize - 1, Outcome::Cancelled),
        Some(State::Ended(_)) => {}
    }
}

/// Cancels what waits and what runs among some tasks, newest first, after a count that says how
/// many these are.
fn cancel_some(
    w: &mut World,
    s: Handle,
    model: &mut Model,
    (first, count): (i64, usize),
    (waiting, running): (bool, bool),
) {
    let all = first..=model.tasks.len() as i64;
    let seqs: Vec<i64> = all.rev().take(count).collect();
    let places: Vec<_> = seqs.iter().map(|seq| w.remembered.place(s, *seq)).collect();
    let of_one_range =
        |one: &TaskRef, next: &TaskRef| (one.seq.0, one.order) == (next.seq.0 + 1, next.order);
    let ranges = places.chunk_by(of_one_range).map(|part| TaskRange {
        first: part[part.len() - 1].seq,
        last: part[0].seq,
        order: part[0].order,
    });
    let cancel = Cancel {
        tasks: ranges.collect(),
        waiting,
        running,
        dry_run: true,
        filter: None,
    };
    let counted = w.cancel_tasks(s, cancel.clone());
    let cancelled = w.cancel_tasks(
        s,
        Cancel {
            dry_run: false,
            ..cancel
        },
    );
    assert_eq!(counted, cancelled);
    let mut expected = (0, 0);
    for seq in seqs.iter().map(|seq| *seq as usize - 1) {
        match &mut model.tasks[seq].state {
            State::Running { cancel } if running => {
                *cancel = true;
                expected.1 += 1;
            }
            State::Waiting if waiting => {
                model.end(seq, Outcome::Cancelled);
                expected.0 += 1;
            }
            _ => {}
        }
    }
    assert_eq!(cancelled, expected);
}

fn report(w: &mut World, s: Handle, model: &mut Model, at: usize, step: &Step) {
    let running = model.running();
    let Some(seq) = running.get(at % running.len().max(1)) else {
        return;
    };
    let task = *seq as usize - 1;
    let cancel = model.tasks[task].state == State::Running { cancel: true };
    match step {
        Step::Stop(_) => {
            w.report(s, *seq, Report::Stopped);
            if cancel {
                model.end(task, Outcome::Cancelled)
            } else {
                model.tasks[task].state = State::Waiting
            }
        }
        Step::Report(_, true) => {
            w.succeed(s, [*seq]);
            model.end(task, Outcome::Succeeded);
        }
        _ => {
            w.fail(s, *seq);
            model.end(
                task,
                if cancel {
                    Outcome::Cancelled
                } else {
                    Outcome::Failed
                },
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_runs_and_how_it_ends_is_as_the_rules_say(
        on_failure in prop_oneof![
            Just(OnFailure::Continue),
            Just(OnFailure::Halt),
            Just(OnFailure::CancelRest)
        ],
        late in prop_oneof![Just(LateOrder::Reject), Just(LateOrder::Join)],
        slots in 0..12u32,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut w = World::new(slots);
        let s = w.open(|settings| {
            plain(settings);
            (settings.on_failure, settings.late_order) = (on_failure, late);
        });
        let mut model = Model {
            on_failure,
            late,
            slots,
            tasks: Vec::new(),
            limit: None,
            paused: false,
            halt: None,
            released: None,
            ended: 0,
        };
        for step in &steps {
            apply(&mut w, s, &mut model, step);
            compare(&mut w, s, &model);
        }
    }
}
