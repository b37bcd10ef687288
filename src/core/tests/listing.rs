//! Where tasks stand, and the newest ones of a phase.

use super::world::{World, free, order, plain};
use crate::core::{Handle, Order, Phase, Reply, Seq, TaskState, Verb};

#[test]
fn every_unfinished_task_can_be_located() {
    let mut w = World::new(1);
    let s = w.open(plain);
    let later = w.now + std::time::Duration::from_secs(60);
    w.submit(
        s,
        [
            order(1),
            order(1),
            order(2),
            free().with(|o| o.not_before = Some(later)),
        ],
    );
    let places = (1..=5).map(|seq| w.remembered.place(s, seq)).collect();
    let Reply::Located(found) = w.call(s, Verb::Locate(places)) else {
        panic!("located")
    };
    let states: Vec<_> = found
        .into_iter()
        .map(|one| one.map(|(state, attempt)| (state, attempt.0)))
        .collect();
    let expected = [
        Some((TaskState::Running { since: w.now }, 1)),
        Some((TaskState::Queued, 0)),
        Some((TaskState::Blocked { next_at: None }, 0)),
        Some((
            TaskState::Blocked {
                next_at: Some(later),
            },
            0,
        )),
        None,
    ];
    assert_eq!(states, expected);
}

fn select(
    w: &mut World,
    s: Handle,
    before: i64,
    phase: Phase,
    order: Option<i64>,
) -> (Vec<i64>, Option<i64>) {
    match w.call(
        s,
        Verb::Select {
            before: Seq(before),
            phases: vec![phase],
            order: order.map(Order),
            limit: 3,
        },
    ) {
        Reply::Selected { seqs, next } => (
            seqs.iter().map(|seq| seq.0).collect(),
            next.map(|next| next.0),
        ),
        other => panic!("a select was answered with {other:?}"),
    }
}

#[test]
fn tasks_that_wait_for_a_time_are_among_the_blocked_or_the_retrying() {
    let mut w = World::new(2);
    let s = w.open(plain);
    let later = w.now + std::time::Duration::from_secs(60);
    let retried = || order(1).with(|o| o.retry.max_attempts = Some(2));
    let waiting = |o: i64| order(o).with(move |options| options.not_before = Some(later));
    w.submit(
        s,
        [
            retried(),
            retried(),
            waiting(1),
            waiting(2),
            order(2),
            free(),
            free(),
            free(),
        ],
    );
    w.fail(s, 1);
    w.fail(s, 2);
    assert_eq!(w.running(s), [6, 7]);
    assert_eq!(
        select(&mut w, s, 99, Phase::Blocked, None),
        (vec![5, 4, 3], Some(3))
    );
    assert_eq!(select(&mut w, s, 3, Phase::Blocked, None), (vec![], None));
    assert_eq!(
        select(&mut w, s, 99, Phase::Blocked, Some(2)),
        (vec![5, 4], None)
    );
    assert_eq!(
        select(&mut w, s, 5, Phase::Blocked, Some(2)),
        (vec![4], None)
    );
    assert_eq!(
        select(&mut w, s, 99, Phase::Retrying, None),
        (vec![2, 1], None)
    );
    assert_eq!(
        select(&mut w, s, 99, Phase::Retrying, Some(2)),
        (vec![], None)
    );
    assert_eq!(select(&mut w, s, 99, Phase::Queued, None), (vec![8], None));
    assert_eq!(select(&mut w, s, 99, Phase::Done, None), (vec![], None));
}

#[test]
fn a_long_search_is_taken_up_again_where_it_ended() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, [order(1)]);
    for at in 0..12_000 {
        // None is like the one before it, so each is a span.
        let soon = w.now + std::time::Duration::from_secs(60 + at);
        w.submit(s, [order(2).with(|o| o.not_before = Some(soon))]);
    }
    assert_eq!(
        select(&mut w, s, i64::MAX, Phase::Queued, None),
        (vec![1], None),
        "nothing else is looked at"
    );
    let (found, next) = select(&mut w, s, i64::MAX, Phase::Retrying, None);
    assert!(
        found.is_empty() && next.is_some_and(|next| next > 1_000),
        "{found:?} {next:?}"
    );
    let (found, next) = select(&mut w, s, next.unwrap(), Phase::Done, None);
    assert_eq!((found, next), (vec![], None));
}
