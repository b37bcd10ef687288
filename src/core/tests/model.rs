//! Random command sequences against a model that is naive and obviously right: vectors and linear scans.

use super::world::{World, free, order, plain, sql};
use crate::core::{
    Command, DoneNo, Handle, LateOrder, OnFailure, Order, Outcome, Phase, Reject, ReleaseMode,
    Reply, Report, SchedulerState, Seq, Settings, SettingsField, Update, Verb,
    fairness::quota::Usage,
};
use proptest::prelude::*;
use std::sync::Arc;

/// What happens next. Numbers are picked modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Submit(Vec<Option<i64>>),
    Report(usize, bool),
    Stop(usize),
    Cancel(i64),
    Pause,
    Resume(bool),
    Limit(Option<u32>),
    Slots(u32),
    Release(bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Running { cancel: bool },
    Ended(Outcome),
}

struct Task {
    order: Option<i64>,
    state: State,
}

/// The rules, the slow way.
struct Model {
    on_failure: OnFailure,
    late: LateOrder,
    tasks: Vec<Task>,
    limit: Option<u32>,
    slots: u32,
    paused: bool,
    halt: Option<i64>,
    released: Option<ReleaseMode>,
    ended: i64,
}

impl Model {
    fn unfinished(&self) -> impl Iterator<Item = &Task> {
        self.tasks
            .iter()
            .filter(|task| !matches!(task.state, State::Ended(_)))
    }

    fn current(&self) -> Option<i64> {
        self.unfinished().filter_map(|task| task.order).min()
    }

    fn running(&self) -> Vec<i64> {
        let running = |(at, task): (usize, &Task)| {
            matches!(task.state, State::Running { .. }).then_some(at as i64 + 1)
        };
        self.tasks.iter().enumerate().filter_map(running).collect()
    }

    /// Starts whatever may start, lowest numbers first.
    fn start(&mut self) {
        let reserve = if self.slots < 4 {
            0
        } else {
            (self.slots / 10).max(1)
        };
        loop {
            let running = self.running().len() as u32;
            // The reserve is for schedulers that run nothing.
            let slots = if running == 0 {
                self.slots
            } else {
                self.slots - reserve
            };
            if self.paused || running >= slots.min(self.limit.unwrap_or(u32::MAX)) {
                return;
            }
            let current = self.current();
            let may = |task: &Task| {
                let turn = task.order.is_none() || task.order == current;
                let halted =
                    matches!((task.order, self.halt), (Some(order), Some(halt)) if order > halt);
                task.state == State::Waiting && turn && !halted
            };
            let Some(at) = self.tasks.iter().position(may) else {
                return;
            };
            self.tasks[at].state = State::Running { cancel: false };
        }
    }

    fn end(&mut self, at: usize, outcome: Outcome) {
        self.tasks[at].state = State::Ended(outcome);
        self.ended += 1;
        let (true, Some(order)) = (outcome.is_failure(), self.tasks[at].order) else {
            return;
        };
        match self.on_failure {
            OnFailure::Continue => {}
            OnFailure::CancelRest => self.cancel_above(order),
            OnFailure::Halt => {
                self.halt = Some(self.halt.map_or(order, |halt| halt.min(order)));
                if self.released.is_some() {
                    self.cancel_above(order);
                }
            }
        }
    }

    fn cancel_above(&mut self, above: i64) {
        for at in 0..self.tasks.len() {
            if self.tasks[at].state == State::Waiting
                && self.tasks[at].order.is_some_and(|order| order > above)
            {
                self.end(at, Outcome::Cancelled);
            }
        }
    }

    fn submit(&mut self, orders: &[Option<i64>]) -> Result<i64, ()> {
        let (current, first) = (self.current(), self.tasks.len() as i64 + 1);
        let late = |order: &Option<i64>| matches!((order, current), (Some(order), Some(current)) if *order < current);
        if self.released.is_some() || (self.late == LateOrder::Reject && orders.iter().any(late)) {
            return Err(());
        }
        for order in orders {
            let order = if late(order) { current } else { *order };
            self.tasks.push(Task {
                order,
                state: State::Waiting,
            });
        }
        Ok(first)
    }

    fn release(&mut self, mode: ReleaseMode) {
        if self.released.is_some()
            && (mode == ReleaseMode::Finish || self.released == Some(ReleaseMode::Cancel))
        {
            return;
        }
        self.released = Some(mode);
        self.paused = false;
        if mode == ReleaseMode::Finish {
            if let Some(halt) = self.halt {
                self.cancel_above(halt);
            }
            return;
        }
        for at in 0..self.tasks.len() {
            match self.tasks[at].state {
                State::Waiting => self.end(at, Outcome::Cancelled),
                State::Running { .. } => self.tasks[at].state = State::Running { cancel: true },
                State::Ended(_) => {}
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![1 => Just(None), 4 => (1..6i64).prop_map(Some)];
    prop_oneof![
        4 => prop::collection::vec(order, 1..6).prop_map(Step::Submit),
        8 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(at, well)| Step::Report(at, well)),
        1 => any::<usize>().prop_map(Step::Stop),
        2 => (1..30i64).prop_map(Step::Cancel),
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
        Step::Submit(orders) => {
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
        Step::Report(at, _) | Step::Stop(at) => report(w, s, model, *at, step),
        Step::Cancel(seq) => {
            let reply = w.call(s, Verb::Cancel(w.remembered.place(s, *seq)));
            match model
                .tasks
                .get_mut(*seq as usize - 1)
                .map(|task| &mut task.state)
            {
                None => assert!(matches!(reply, Reply::Rejected(Reject::UnknownTask))),
                Some(State::Running { cancel }) => *cancel = true,
                Some(State::Waiting) => model.end(*seq as usize - 1, Outcome::Cancelled),
                Some(State::Ended(_)) => {}
            }
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
            let settings = Settings {
                max_parallelism: *limit,
                ..Settings::default()
            };
            w.call(
                s,
                Verb::Update(Arc::new(Update {
                    settings,
                    fields: vec![SettingsField::MaxParallelism],
                })),
            );
            model.limit = *limit;
        }
        Step::Slots(total) => {
            w.command(Command::Slots {
                work: sql(),
                total: *total,
            });
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

fn compare(w: &mut World, s: Handle, model: &Model) {
    assert_eq!(w.running(s), model.running());
    let mut outcomes = w.outcomes(s);
    outcomes.sort_by_key(|(seq, _)| *seq);
    let ended = |(at, task): (usize, &Task)| match task.state {
        State::Ended(outcome) => Some((at as i64 + 1, outcome)),
        _ => None,
    };
    assert_eq!(
        outcomes,
        model
            .tasks
            .iter()
            .enumerate()
            .filter_map(ended)
            .collect::<Vec<_>>()
    );
    let unfinished = model.unfinished().count() as i64;
    let progress = w.progress(s);
    assert_eq!(
        (progress.done_no, progress.pending),
        (DoneNo(model.ended), unfinished)
    );
    let blocked = |task: &&Task| matches!((task.order, model.halt), (Some(order), Some(halt)) if order > halt);
    assert_eq!(
        progress.blocked,
        model.unfinished().filter(blocked).count() as i64
    );
    let view = w.view(s);
    assert_eq!(view.current_order.map(|order| order.0), model.current());
    let counts = view.counts;
    assert_eq!(
        counts.blocked + counts.queued + counts.running + counts.retrying,
        unfinished
    );
    let status = w.status();
    assert_eq!(
        (status.counts, status.oldest_queued.is_some()),
        (counts, counts.queued > 0)
    );
    let state = match (model.released, unfinished) {
        (None, _) => SchedulerState::Open,
        (Some(_), 0) => SchedulerState::Released,
        (Some(_), _) => SchedulerState::Releasing,
    };
    assert_eq!(view.image.state, state);
    compare_standings(w, s, model);
    // Every body counts for one KiB.
    let namespace = w.shard.fair.namespace(&view.image.namespace);
    assert_eq!(
        w.shard.quotas.load(namespace),
        Usage {
            tasks: unfinished,
            bytes: unfinished << 10
        }
    );
}

/// Each task stands where it should, and each phase has the tasks it should, as a whole and from any place on.
fn compare_standings(w: &mut World, s: Handle, model: &Model) {
    let current = model.current();
    let phase = |task: &Task| {
        let halted = matches!((task.order, model.halt), (Some(order), Some(halt)) if order > halt);
        match task.state {
            State::Ended(_) => Phase::Done,
            State::Running { .. } => Phase::Running,
            State::Waiting if (task.order.is_none() || task.order == current) && !halted => {
                Phase::Queued
            }
            State::Waiting => Phase::Blocked,
        }
    };
    let places = (1..=model.tasks.len() as i64)
        .map(|seq| w.remembered.place(s, seq))
        .collect();
    let Reply::Located(found) = w.call(s, Verb::Locate(places)) else {
        panic!("located")
    };
    let found: Vec<_> = found
        .into_iter()
        .map(|found| found.map_or(Phase::Done, |(standing, _)| standing.phase()))
        .collect();
    assert_eq!(found, model.tasks.iter().map(phase).collect::<Vec<_>>());
    let (before, limit) = (Seq(1 + model.ended % 40), 1 + model.ended as usize % 7);
    for wanted in [
        Phase::Blocked,
        Phase::Queued,
        Phase::Running,
        Phase::Retrying,
        Phase::Done,
    ] {
        for order in [None, current.map(Order), Some(Order(3))] {
            if wanted == Phase::Done && order.is_some() {
                continue;
            }
            let is = |task: &Task| {
                phase(task) == wanted && (order.is_none() || task.order.map(Order) == order)
            };
            let all = model
                .tasks
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, task)| is(task))
                .map(|(at, _)| Seq(at as i64 + 1));
            let (all, some): (Vec<_>, Vec<_>) = (
                all.clone().collect(),
                all.filter(|seq| *seq < before).take(limit).collect(),
            );
            for (before, limit, expected) in [(Seq(i64::MAX), 1_000, all), (before, limit, some)] {
                let Reply::Selected { seqs, next } = w.call(
                    s,
                    Verb::Select {
                        before,
                        phase: wanted,
                        order,
                        limit,
                    },
                ) else {
                    panic!("selected")
                };
                assert_eq!(seqs, expected, "{wanted:?} {order:?}");
                assert_eq!(
                    next,
                    expected
                        .last()
                        .copied()
                        .filter(|last| expected.len() == limit && last.0 > 1)
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_runs_and_how_it_ends_is_as_the_rules_say(
        on_failure in prop_oneof![Just(OnFailure::Continue), Just(OnFailure::Halt), Just(OnFailure::CancelRest)],
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
            on_failure, late, slots, tasks: Vec::new(), limit: None, paused: false, halt: None, released: None, ended: 0,
        };
        for step in &steps {
            apply(&mut w, s, &mut model, step);
            compare(&mut w, s, &model);
        }
    }
}
