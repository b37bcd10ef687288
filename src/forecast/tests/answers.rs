//! What forecasts say of single cases, and that they say when they do not know.

use super::world::{Law, World, history};
use crate::{
    core::{
        Command, Handle, KindSnapshot, Namespace, OnFailure, Order, Run, Seq, SlotCounts, Spec,
        Verb, Work,
    },
    forecast::{Ending, Forecast, Observations, Omission, Question, Reason, forecast},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{sync::Arc, time::Duration};

/// Tasks of the first kind last two seconds.
const TWO: Law = Law::Constant(2.0);

pub(super) fn seen(laws: &[Law], each: usize) -> Observations {
    let rng = &mut SmallRng::seed_from_u64(3);
    let all = (0..laws.len()).flat_map(|kind| history(laws, kind, each, 0.0, rng));
    Observations::new(all.collect::<Vec<_>>())
}

fn briefly() -> Question {
    Question {
        runs: Some(80),
        ..Question::default()
    }
}

fn ask(world: &mut World, handle: Handle, seen: &Observations, question: &Question) -> Forecast {
    let snapshot = world.snapshot(handle);
    let question = Question {
        runs: briefly().runs,
        ..question.clone()
    };
    forecast(&snapshot, seen, &question, |_| true)
}

pub(super) fn simply(world: &mut World, handle: Handle, seen: &Observations) -> Forecast {
    ask(world, handle, seen, &Question::default())
}

/// Seconds from now on until the p50 and the p90 of an end.
#[track_caller]
pub(super) fn seconds(world: &World, ending: &Ending) -> (f64, f64) {
    let of = |at: Option<crate::core::Time>| {
        let at = at.unwrap_or_else(|| panic!("it is not known: {ending:?}"));
        at.since(world.now).as_secs_f64()
    };
    (of(ending.p50), of(ending.p90))
}

#[track_caller]
pub(super) fn assert_about(found: f64, expected: f64) {
    let off = (found / expected - 1.0).abs();
    assert!(off < 0.06, "{found} instead of {expected}");
}

#[test]
fn tasks_that_always_last_as_long_end_when_they_must() {
    let mut w = World::new(1, 2, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(Some(100), 0, 6), (Some(200), 0, 4)]);
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    assert_about(seconds(&w, &made.all).0, 10.0);
    assert_about(seconds(&w, &made.orders[0].end).0, 6.0);
    assert_eq!((made.unfinished, made.orders[1].unfinished), (10, 4));
}

#[test]
fn a_running_task_has_a_part_of_its_time_behind_it() {
    let mut w = World::new(1, 1, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 0, 2)]);
    let later = w.now + Duration::from_millis(1_500);
    w.run(later, None);
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    assert_about(seconds(&w, &made.all).0, 2.5);
}

#[test]
fn with_more_slots_it_ends_sooner() {
    let mut w = World::new(1, 2, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 0, 32)]);
    let question = Question {
        slots: [(super::world::sql(), 16)].into(),
        ..Question::default()
    };
    let made = ask(&mut w, s, &seen(&[TWO], 50), &question);
    assert_eq!(made.slots, [(super::world::sql(), 16)]);
    let (p50, _) = seconds(&w, &made.all);
    assert!(
        (3.8..6.5).contains(&p50),
        "{p50} s with a reserve of one slot"
    );
}

#[test]
fn a_task_ends_within_its_order() {
    let mut w = World::new(1, 1, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(Some(1), 0, 3), (Some(2), 0, 3)]);
    let snapshot = w.snapshot_with(s, &[Seq(2), Seq(6), Seq(9)]);
    let made = forecast(&snapshot, &seen(&[TWO], 50), &briefly(), |_| true);
    let tasks: Vec<i64> = made.tasks.iter().map(|(task, _)| task.0).collect();
    assert_eq!(tasks, [2, 6], "there is no ninth task");
    assert_about(seconds(&w, &made.tasks[0].1).0, 4.0);
    assert_about(seconds(&w, &made.tasks[1].1).0, 12.0);
}

#[test]
fn another_scheduler_in_the_same_slots_takes_its_share() {
    let mut w = World::new(1, 2, vec![TWO]);
    let (s, other) = (w.open(|_| {}), w.open(|_| {}));
    w.submit(s, &[(None, 0, 10)]);
    w.submit(other, &[(None, 0, 1_000)]);
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    let (p50, _) = seconds(&w, &made.all);
    assert!((17.0..24.0).contains(&p50), "half of the slots: {p50}");
}

#[test]
fn of_a_competitor_that_nobody_has_seen_end_a_task_it_is_said_what_is_guessed() {
    let mut w = World::new(1, 2, vec![TWO]);
    let (s, other) = (w.open(|_| {}), w.open(|_| {}));
    w.submit(s, &[(None, 0, 10)]);
    w.submit(other, &[(None, 0, 1_000)]);
    let mut snapshot = w.snapshot(s);
    assert!(snapshot.others[0].usual.is_empty(), "nothing has ended");
    snapshot.others[0].image.namespace = Namespace("closed".into());
    let made = forecast(&snapshot, &seen(&[TWO], 50), &briefly(), |_| true);
    let (p50, _) = seconds(&w, &made.all);
    assert!((15.0..28.0).contains(&p50), "half of the slots: {p50}");
    assert!(made.omissions.contains(&Omission::OthersGuessed(1)));
    let later = w.now + Duration::from_secs(7);
    w.run(later, None);
    let mut snapshot = w.snapshot(s);
    assert!(!snapshot.others[0].usual.is_empty(), "something has");
    snapshot.others[0].image.namespace = Namespace("closed".into());
    let made = forecast(&snapshot, &seen(&[TWO], 50), &briefly(), |_| true);
    assert!(!made.omissions.contains(&Omission::OthersGuessed(1)));
}

#[test]
fn with_few_ended_tasks_it_is_less_sure_than_with_many() {
    let laws = [Law::LogNormal(1.0, 0.8)];
    let ratio = |each| {
        let mut w = World::new(1, 4, laws.to_vec());
        let s = w.open(|_| {});
        w.submit(s, &[(None, 0, 400)]);
        let made = simply(&mut w, s, &seen(&laws, each));
        let (p50, p90) = seconds(&w, &made.all);
        p90 / p50
    };
    let (few, many) = (ratio(6), ratio(600));
    assert!(few > 1.2 && many < 1.1, "{few} and {many}");
}

#[test]
fn tasks_of_which_nothing_was_seen_are_unknown_and_those_before_them_are_not() {
    let mut w = World::new(1, 2, vec![TWO, TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(Some(1), 0, 4), (Some(2), 1, 4)]);
    let made = simply(&mut w, s, &Observations::default());
    let few = |reason: &Reason| matches!(reason, Reason::TooFewSeen { seen: 0, .. });
    assert!(made.all.p50.is_none() && made.all.reasons.iter().all(few));
    // Of the first order enough have ended, of the second one as few as nothing at all.
    let mut snapshot = w.snapshot(s);
    let elsewhere = Work::Sql {
        target: "elsewhere".into(),
    };
    snapshot.kinds.push(KindSnapshot {
        work: elsewhere.clone(),
        total: 2,
        announced: true,
    });
    let later = snapshot.scheduler.waiting.iter_mut();
    for one in later.filter(|one| one.order == Some(Order(2))) {
        let spec = Spec::clone(&one.spec);
        let work = elsewhere.clone();
        one.spec = Arc::new(Spec { work, ..spec });
    }
    let made = forecast(&snapshot, &seen(&[TWO], 50), &briefly(), |_| true);
    assert_about(seconds(&w, &made.orders[0].end).0, 4.0);
    assert!(made.all.p50.is_none() && made.all.reasons.iter().all(few));
}

#[test]
fn a_new_kind_of_task_is_like_its_relatives_if_these_are_several() {
    let alike = |kinds: usize| {
        let laws = vec![TWO; kinds + 1];
        let mut w = World::new(1, 2, laws.clone());
        let s = w.open(|_| {});
        w.submit(s, &[(None, kinds, 4)]);
        let made = simply(&mut w, s, &seen(&laws[..kinds], 20));
        made.all.p50.is_some()
    };
    assert!(!alike(1) && !alike(2) && alike(3));
}

#[test]
fn what_stands_still_is_unknown_and_says_why() {
    let known = seen(&[TWO], 50);
    let mut w = World::new(1, 2, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 0, 4)]);
    w.call(s, Verb::Pause);
    let made = simply(&mut w, s, &known);
    assert_eq!(
        (made.all.p50, &made.all.reasons[..]),
        (None, &[Reason::Paused][..])
    );
    let mut w = World::new(1, 0, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 0, 4)]);
    let made = simply(&mut w, s, &known);
    let is_slots = |reason: &Reason| matches!(reason, Reason::NoSlots { away: true, .. });
    assert!(made.all.reasons.iter().all(is_slots), "{made:?}");
}

#[test]
fn a_failure_that_may_halt_it_makes_the_end_of_later_orders_unknown() {
    let rng = &mut SmallRng::seed_from_u64(5);
    let known = Observations::new(history(&[TWO], 0, 100, 0.3, rng));
    let mut w = World::new(1, 2, vec![TWO]);
    let s = w.open(|settings| settings.on_failure = OnFailure::Halt);
    w.submit(s, &[(Some(1), 0, 4), (Some(2), 0, 4)]);
    let made = simply(&mut w, s, &known);
    assert_about(seconds(&w, &made.orders[0].end).0, 4.0);
    let may_halt = |reason: &Reason| matches!(reason, Reason::MayHalt(10..));
    assert!(made.all.reasons.iter().any(may_halt), "{:?}", made.all);
}

#[test]
fn millions_of_tasks_are_run_in_groups_and_end_as_they_would_alone() {
    let law = Law::Exponential(0.01);
    let mut w = World::new(1, 3, vec![law]);
    let s = w.open(|_| {});
    w.submit(s, &[(Some(1), 0, 3_000_000), (Some(2), 0, 6)]);
    let made = simply(&mut w, s, &seen(&[law], 2_000));
    let mean = made.basis[0].mean;
    assert_about(seconds(&w, &made.all).0, 3_000_000.0 * mean / 3.0);
    let grouped = |one: &Omission| matches!(one, Omission::Grouped(100..));
    assert!(made.omissions.iter().any(grouped), "{:?}", made.omissions);
}

#[test]
fn slots_of_kinds_that_only_others_need_are_not_in_the_answer() {
    let mut w = World::new(1, 2, vec![TWO]);
    let (s, other) = (w.open(|_| {}), w.open(|_| {}));
    w.submit(s, &[(None, 0, 2)]);
    w.submit(other, &[(None, 0, 2)]);
    let secret = Work::Sql {
        target: "secret".into(),
    };
    let elsewhere = Command::Slots {
        work: secret.clone(),
        slots: SlotCounts::of(7),
    };
    w.command(elsewhere);
    let mut there = Spec::clone(&super::world::spec(0));
    there.work = secret.clone();
    let run = Run {
        count: 9,
        order: None,
        spec: Arc::new(there),
    };
    w.submit_runs(other, vec![run]);
    let made = simply(&mut w, s, &seen(&[TWO], 50));
    assert_eq!(made.slots, [(super::world::sql(), 2)]);
    let whole = format!("{made:?}");
    assert!(!whole.contains("secret"), "{whole}");
}

#[test]
fn an_unfinished_task_that_was_not_copied_is_unknown_and_not_ended() {
    let mut w = World::new(1, 2, vec![TWO]);
    let s = w.open(|_| {});
    w.submit(s, &[(Some(1), 0, 4), (Some(2), 0, 4)]);
    let later = w.now + Duration::from_millis(2_500);
    w.run(later, None);
    let mut snapshot = w.snapshot_with(s, &[Seq(1), Seq(4), Seq(7)]);
    // As if the second order had been too much to be looked at: its numbers are made up.
    let spans = snapshot.scheduler.waiting.iter_mut();
    for span in spans.filter(|span| span.order == Some(Order(2))) {
        span.assumed = true;
    }
    let made = forecast(&snapshot, &seen(&[TWO], 50), &briefly(), |_| true);
    let tasks: Vec<i64> = made.tasks.iter().map(|(task, _)| task.0).collect();
    assert_eq!(tasks, [4, 7], "the first one has ended");
    assert!(made.tasks[0].1.p90.is_some());
    assert_eq!(made.tasks[1].1, Ending::unknown(Reason::TooManyTasks));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let laws = [Law::LogNormal(1.0, 0.8)];
    let mut w = World::new(1, 4, laws.to_vec());
    let s = w.open(|_| {});
    w.submit(s, &[(Some(1), 0, 20), (Some(2), 0, 20)]);
    let known = seen(&laws, 30);
    let (one, same) = (simply(&mut w, s, &known), simply(&mut w, s, &known));
    assert_eq!(one.all, same.all);
}

#[test]
fn a_new_kind_of_task_that_outlasts_its_relatives_is_not_like_them() {
    let mut w = World::new(1, 2, vec![TWO, TWO, TWO, Law::Constant(60.0)]);
    let s = w.open(|_| {});
    w.submit(s, &[(None, 3, 4)]);
    let relatives = seen(&[TWO; 3], 20);
    for (seconds, known) in [(1, true), (3, false), (30, false)] {
        let later = w.now + Duration::from_secs(seconds);
        w.run(later, None);
        let made = simply(&mut w, s, &relatives);
        assert_eq!(made.all.p50.is_some(), known, "{seconds} s later");
    }
    let few = |reason: &Reason| matches!(reason, Reason::TooFewSeen { seen: 60, .. });
    assert!(simply(&mut w, s, &relatives).all.reasons.iter().all(few));
}
