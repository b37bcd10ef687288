//! Which retries lift a halt.

use crate::core::{
    Command, Handle, OnFailure, Settings, SettingsField, Update, Verb,
    tests::world::{NONE, World, free, on_failure, order, plain},
};
use std::{sync::Arc, time::Duration};

#[test]
fn a_halt_waits_for_a_successful_retry_of_each_failure() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(1), order(2)]);
    [1, 2, 3].into_iter().for_each(|seq| w.fail(s, seq));
    assert_eq!(w.retry(s, &[(1, 1), (3, 3)], order(1)), Ok(5));
    assert_eq!(
        w.running(s),
        [5, 6],
        "in their order, although 2 is current"
    );
    w.succeed(s, [5]);
    assert_eq!(w.halted_by(s), Some((1, vec![2, 3])));
    w.crash();
    w.succeed(s, [6]);
    assert_eq!(w.halted_by(s), Some((1, vec![2])));
    assert_eq!(w.running(s), NONE);
    assert_eq!(w.retry(s, &[(2, 2)], order(1)), Ok(7));
    w.succeed(s, [7]);
    assert_eq!(w.halted_by(s), None);
    assert_eq!(w.running(s), [4]);
}

#[test]
fn a_retry_that_fails_takes_the_place_of_its_task() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    w.retry(s, &[(1, 1)], order(1)).expect("accepted");
    w.fail(s, 3);
    assert_eq!(w.halted_by(s), Some((1, vec![3])));
    w.retry(s, &[(3, 2)], order(1)).expect("accepted");
    w.crash();
    w.succeed(s, [4]);
    assert_eq!((w.halted_by(s), w.running(s)), (None, vec![2]));
}

#[test]
fn a_cancelled_retry_makes_nothing_good_and_its_own_retry_does() {
    let mut w = World::new(0);
    let s = w.open(on_failure(OnFailure::Halt));
    w.set_slots(1);
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    w.call(s, Verb::Pause);
    w.retry(s, &[(1, 1)], order(1)).expect("accepted");
    w.cancel(s, 3);
    assert_eq!(w.halted_by(s), Some((1, vec![3])), "it is to be retried");
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    w.retry(s, &[(3, 1)], order(1)).expect("accepted");
    w.fail(s, 4);
    assert_eq!(w.halted_by(s), Some((1, vec![4])));
    w.retry(s, &[(4, 4)], order(1)).expect("accepted");
    w.succeed(s, [5]);
    assert_eq!((w.halted_by(s), w.running(s)), (None, vec![2]));
}

#[test]
fn a_retry_of_a_cancelled_task_lifts_no_halt() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2)]);
    w.cancel(s, 2);
    w.fail(s, 2);
    w.fail(s, 1);
    w.retry(s, &[(2, 0)], order(1)).expect("accepted");
    w.succeed(s, [4]);
    assert_eq!(w.halted_by(s), Some((1, vec![1])));
}

#[test]
fn a_failure_from_before_the_halt_is_none_of_those_it_waits_for() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1), order(2)]);
    w.fail(s, 1);
    let settings = Settings {
        on_failure: OnFailure::Halt,
        ..Settings::default()
    };
    let fields = vec![SettingsField::OnFailure];
    w.call(s, Verb::Update(Arc::new(Update { settings, fields })));
    w.fail(s, 2);
    w.retry(s, &[(1, 1)], order(1)).expect("accepted");
    w.succeed(s, [4]);
    assert_eq!(w.halted_by(s), Some((1, vec![2])));
}

#[test]
fn a_failure_that_was_not_counted_leaves_the_halt_to_resume() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2)]);
    w.fail(s, 1);
    let (settings, fields) = (Settings::default(), vec![SettingsField::OnFailure]);
    w.call(s, Verb::Update(Arc::new(Update { settings, fields })));
    w.fail(s, 2);
    w.retry(s, &[(1, 1), (2, 2)], order(1)).expect("accepted");
    w.succeed(s, [4, 5]);
    assert_eq!(w.halted_by(s), Some((1, vec![1])));
    assert_eq!(w.running(s), NONE);
}

/// What is known of a halt after an owner of an older version, under which more has failed: the row
/// that it has left, and whether it has written a checkpoint.
fn halt_after_an_older_version(on_failure_of_it: OnFailure, checkpoint: bool) -> (World, Handle) {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2), free()]);
    w.fail(s, 1);
    let halt = w.remembered.image(s).halt.clone();
    let settings = Settings {
        on_failure: on_failure_of_it,
        ..Settings::default()
    };
    let fields = vec![SettingsField::OnFailure];
    w.call(s, Verb::Update(Arc::new(Update { settings, fields })));
    w.fail(s, 2);
    if checkpoint {
        w.command(Command::Checkpoint(vec![s]));
    }
    w.remembered.with_halt(s, halt);
    w.crash_and_set_back(Duration::ZERO);
    (w, s)
}

#[test]
fn a_failure_that_an_older_version_did_not_count_leaves_the_halt_to_resume() {
    for checkpoint in [false, true] {
        let (mut w, s) = halt_after_an_older_version(OnFailure::Continue, checkpoint);
        w.retry(s, &[(2, 2)], order(1)).expect("accepted");
        w.succeed(s, [5]);
        assert_eq!(w.halted_by(s), Some((1, vec![1])), "{checkpoint}");
    }
}

#[test]
fn a_halt_goes_on_counting_under_the_next_owner_of_its_version() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(1), order(1), order(2), free()]);
    [1, 2, 4].into_iter().for_each(|seq| w.fail(s, seq));
    w.command(Command::Checkpoint(vec![s]));
    w.crash();
    w.retry(s, &[(1, 1), (2, 2)], order(1)).expect("accepted");
    w.succeed(s, [5, 6]);
    assert_eq!((w.halted_by(s), w.running(s)), (None, vec![3]));
}

#[test]
fn a_retry_that_fails_takes_the_place_of_its_task_whatever_on_failure_says_then() {
    for other in [OnFailure::Continue, OnFailure::CancelRest] {
        let mut w = World::new(100);
        let s = w.open(on_failure(OnFailure::Halt));
        w.submit(s, [order(1), order(1), order(2)]);
        w.fail(s, 1);
        w.fail(s, 2);
        let settings = Settings {
            on_failure: other,
            ..Settings::default()
        };
        let fields = vec![SettingsField::OnFailure];
        w.call(s, Verb::Update(Arc::new(Update { settings, fields })));
        w.retry(s, &[(1, 1)], order(1)).expect("accepted");
        w.fail(s, 4);
        assert_eq!(w.halted_by(s), Some((1, vec![4, 2])));
        w.crash();
        w.retry(s, &[(4, 3)], order(1)).expect("accepted");
        w.succeed(s, [5]);
        assert_eq!(w.halted_by(s), Some((1, vec![2])));
    }
}

#[test]
fn of_two_halted_orders_the_lower_one_opens_first() {
    let mut w = World::new(100);
    let s = w.open(on_failure(OnFailure::Halt));
    w.submit(s, [order(100)]);
    w.fail(s, 1);
    w.submit(s, [order(50), order(60), order(200)]);
    w.fail(s, 2);
    w.retry(s, &[(1, 1)], order(100)).expect("accepted");
    w.retry(s, &[(2, 2)], order(50)).expect("accepted");
    assert_eq!(w.running(s), [6]);
    w.succeed(s, [6]);
    assert_eq!(w.halted_by(s), Some((100, vec![1])));
    assert_eq!(w.running(s), [3]);
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [5]);
    w.succeed(s, [5]);
    assert_eq!((w.halted_by(s), w.running(s)), (None, vec![4]));
}

#[test]
fn a_halt_of_very_many_orders_counts_no_more_and_is_lifted_by_resume_alone() {
    let mut w = World::new(1);
    let s = w.open(on_failure(OnFailure::Halt));
    w.call(s, Verb::Pause);
    let overdue = |no| order(no).with(|o| o.deadline = Some(Duration::from_secs(1)));
    let counts = |w: &mut World| w.view(s).image.halt.expect("halted").failures.is_some();
    w.submit(s, (1..=1_000).map(overdue));
    w.seconds(2.0);
    assert!(counts(&mut w), "of each order");
    w.submit(s, [overdue(1_001)]);
    w.seconds(2.0);
    assert!(!counts(&mut w));
    w.crash();
    assert!(!counts(&mut w));
    let resume = Verb::Resume {
        ignore_failures: true,
    };
    w.call(s, resume);
    assert_eq!(w.halted_by(s), None);
}
