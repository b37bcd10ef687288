//! What a shard shows of a scheduler, compared with the model.

use super::rules::{Model, State, Task};
use crate::core::{
    Blocker, DoneNo, Handle, Order, Phase, Reply, SchedulerState, Seq, Verb,
    fairness::quota::Usage, tests::world::World,
};

pub(super) fn compare(w: &mut World, s: Handle, model: &Model) {
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
    let above = |order: i64| model.halt.is_some_and(|halt| order > halt);
    let blocked = |task: &&Task| task.order.is_some_and(above);
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
    compare_states(w, s, model);
    compare_explanations(w, s, model);
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

/// Each task is in the state it should be in, and each phase has the tasks it should, as a whole
/// and from any place on.
fn compare_states(w: &mut World, s: Handle, model: &Model) {
    let phase = |task: &Task| phase_of(model, task);
    let places = (1..=model.tasks.len() as i64)
        .map(|seq| w.remembered.place(s, seq))
        .collect();
    let Reply::Located(found) = w.call(s, Verb::Locate(places)) else {
        panic!("located")
    };
    let found: Vec<_> = found
        .into_iter()
        .map(|found| found.map_or(Phase::Done, |(state, _)| state.phase()))
        .collect();
    assert_eq!(found, model.tasks.iter().map(phase).collect::<Vec<_>>());
    for wanted in [
        Phase::Blocked,
        Phase::Queued,
        Phase::Running,
        Phase::Retrying,
        Phase::Done,
    ] {
        for order in [None, model.current().map(Order), Some(Order(3))] {
            if wanted != Phase::Done || order.is_none() {
                compare_selection(w, s, model, &[wanted], order);
            }
            let waiting = [Phase::Queued, Phase::Blocked, Phase::Retrying];
            compare_selection(w, s, model, &waiting, order);
        }
    }
}

/// Of a waiting task nothing but the want of a slot is in the way exactly when it would start given
/// one; and something is, or it would run.
fn compare_explanations(w: &mut World, s: Handle, model: &Model) {
    let mut with_slots = model.clone();
    with_slots.slots = 10_000;
    with_slots.start();
    for (at, task) in model.tasks.iter().enumerate() {
        let seq = at as i64 + 1;
        let place = w.remembered.place(s, seq);
        let Reply::Explained(explanation) = w.call(s, Verb::Explain(place)) else {
            panic!("explained")
        };
        let blockers = explanation.map(|explanation| explanation.blockers);
        match (task.state, &blockers) {
            (State::Ended(_), None) => {}
            (State::Running { .. }, Some(blockers)) => assert!(blockers.is_empty()),
            (State::Waiting, Some(blockers)) => {
                let starts = matches!(with_slots.tasks[at].state, State::Running { .. });
                let free_to_start = blockers.iter().all(Blocker::is_about_slots);
                assert_eq!(free_to_start, starts, "task {seq}: {blockers:?}");
                assert!(!blockers.is_empty(), "task {seq} does not run");
            }
            (state, explained) => panic!("task {seq}: {state:?} is explained as {explained:?}"),
        }
    }
}

fn phase_of(model: &Model, task: &Task) -> Phase {
    let above = |order: i64| model.halt.is_some_and(|halt| order > halt);
    let halted = task.order.is_some_and(above);
    let open = task.order.is_none() || task.order == model.current();
    match task.state {
        State::Ended(_) => Phase::Done,
        State::Running { .. } => Phase::Running,
        State::Waiting if open && !halted && !model.paused => Phase::Queued,
        State::Waiting => Phase::Blocked,
    }
}

fn compare_selection(
    w: &mut World,
    s: Handle,
    model: &Model,
    phases: &[Phase],
    order: Option<Order>,
) {
    let is = |task: &Task| {
        phases.contains(&phase_of(model, task))
            && (order.is_none() || task.order.map(Order) == order)
    };
    let tasks = model.tasks.iter().enumerate().rev();
    let all = tasks
        .filter(|(_, task)| is(task))
        .map(|(at, _)| Seq(at as i64 + 1));
    let (before, limit) = (Seq(1 + model.ended % 40), 1 + model.ended as usize % 7);
    let some: Vec<_> = all
        .clone()
        .filter(|seq| *seq < before)
        .take(limit)
        .collect();
    let all: Vec<_> = all.collect();
    for (before, limit, expected) in [(Seq(i64::MAX), 1_000, all), (before, limit, some)] {
        let select = Verb::Select {
            before,
            phases: phases.to_vec(),
            order,
            limit,
        };
        let Reply::Selected { seqs, next } = w.call(s, select) else {
            panic!("selected")
        };
        assert_eq!(seqs, expected, "{phases:?} {order:?}");
        let last = expected.last().copied();
        let more = last.filter(|last| expected.len() == limit && last.0 > 1);
        assert_eq!(next, more);
    }
}
