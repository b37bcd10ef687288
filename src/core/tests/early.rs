//! Which tasks start while the ends of others are not durable yet.

use super::world::{NONE, Task, World, error, free, order, plain, sql, submission};
use crate::core::{
    Action, Command, Delivery, Handle, Output, Report, SlotCounts, Time, Unwritten, Update, Verb,
};

/// A scheduler of two slots, each of which counts for two tasks in the register, whose first two
/// tasks run.
fn two_run(tasks: impl IntoIterator<Item = Task>) -> (World, Handle) {
    let mut w = World::new(2);
    let slots = SlotCounts {
        window: 4,
        ..SlotCounts::of(2)
    };
    w.command(Command::Slots { work: sql(), slots });
    let s = w.open(plain);
    w.submit(s, tasks);
    assert_eq!(w.running(s), [1, 2]);
    (w, s)
}

/// These are decided, and not durable: returns the tasks that start all the same.
fn start_meanwhile(
    w: &mut World,
    in_flight: &Unwritten,
    commands: &[Command],
) -> (Vec<i64>, Output) {
    let mut out = Output::default();
    for command in commands {
        w.shard.apply(w.now, None, command, &mut out);
    }
    w.shard.start_meanwhile(w.now, Some(in_flight), &mut out);
    let mut seqs = Vec::new();
    for action in std::mem::take(&mut out.early) {
        let Action::Dispatch(assignment) = action else {
            panic!("{action:?} waits for nothing");
        };
        seqs.push(assignment.first.0);
        w.running.push(assignment);
    }
    (seqs, out)
}

/// These tasks end well.
fn ends(w: &mut World, s: Handle, seqs: &[i64]) -> Command {
    let reports = seqs
        .iter()
        .map(|seq| w.completion(s, *seq, Report::Succeeded(None)));
    Command::Completed(reports.collect())
}

/// The tasks that start while the end of task 1 is not durable.
fn after_the_first(tasks: impl IntoIterator<Item = Task>) -> Vec<i64> {
    let (mut w, s) = two_run(tasks);
    let ended = ends(&mut w, s, &[1]);
    start_meanwhile(&mut w, &Unwritten::default(), &[ended]).0
}

#[test]
fn the_next_task_of_an_order_does_not_wait_until_the_end_of_the_last_one_is_durable() {
    assert_eq!(after_the_first(vec![order(7); 4]), [3]);
    assert_eq!(after_the_first(vec![free(); 4]), [3]);
}

#[test]
fn the_next_order_waits_until_the_ends_of_the_last_one_are_durable() {
    let (mut w, s) = two_run([order(1), order(1), order(2)]);
    let ended = ends(&mut w, s, &[1, 2]);
    let (started, out) = start_meanwhile(&mut w, &Unwritten::default(), &[ended]);
    assert_eq!(started, NONE);
    assert_eq!(start_meanwhile(&mut w, &out.unwritten, &[]).0, NONE);
    assert_eq!(start_meanwhile(&mut w, &Unwritten::default(), &[]).0, [3]);
}

#[test]
fn what_needs_a_row_before_it_starts_waits_for_it() {
    for delivery in [Delivery::AtMostOnce, Delivery::ExactlyOnce] {
        let once = free().with(|options| options.delivery = Some(delivery));
        assert_eq!(after_the_first([free(), free(), once]), NONE);
    }
    let later = free().with(|options| options.not_before = Some(Time(0)));
    assert_eq!(after_the_first([free(), free(), later]), NONE);
}

#[test]
fn a_task_waits_until_its_submission_is_durable() {
    let (mut w, s) = two_run([free(), free()]);
    let submitted = World::say(s, Verb::Submit(submission(None, [free()]).into()));
    let ended = ends(&mut w, s, &[1]);
    let (started, out) = start_meanwhile(&mut w, &Unwritten::default(), &[submitted, ended]);
    assert_eq!(started, NONE);
    assert_eq!(start_meanwhile(&mut w, &out.unwritten, &[]).0, NONE);
    assert_eq!(start_meanwhile(&mut w, &Unwritten::default(), &[]).0, [3]);
}

#[test]
fn nothing_of_a_scheduler_starts_before_a_change_of_it_is_durable() {
    let (mut w, s) = two_run(vec![free(); 4]);
    let update = Update {
        settings: Default::default(),
        fields: Vec::new(),
    };
    let updated = World::say(s, Verb::Update(update.into()));
    let ended = ends(&mut w, s, &[1]);
    assert_eq!(
        start_meanwhile(&mut w, &Unwritten::default(), &[updated, ended]).0,
        NONE
    );
}

#[test]
fn a_failed_task_that_is_tried_again_holds_its_scheduler_back_until_that_is_durable() {
    let again = free().with(|options| options.retry.max_attempts = Some(2));
    let (mut w, s) = two_run(vec![again; 4]);
    let report = Report::Failed {
        error: error("22012"),
        transient: false,
    };
    let failed = Command::Completed(vec![w.completion(s, 1, report)]);
    assert_eq!(
        start_meanwhile(&mut w, &Unwritten::default(), &[failed]).0,
        NONE
    );
}

fn exactly_once() -> Task {
    free().with(|options| options.delivery = Some(Delivery::ExactlyOnce))
}

#[test]
fn a_lost_exactly_once_task_holds_its_scheduler_back_until_that_and_its_end_are_durable() {
    let (mut w, s) = two_run([exactly_once(), exactly_once(), free(), free()]);
    let lost = Command::Completed(vec![w.completion(s, 1, Report::Lost)]);
    let (started, out) = start_meanwhile(&mut w, &Unwritten::default(), &[lost]);
    assert_eq!(started, NONE);
    assert_eq!(start_meanwhile(&mut w, &out.unwritten, &[]).0, NONE);
    let committed = w.stale(s, 1, 1, Report::Succeeded(None));
    let resolved = Command::Completed(vec![committed]);
    let (started, out) = start_meanwhile(&mut w, &Unwritten::default(), &[resolved]);
    assert_eq!(started, NONE);
    assert_eq!(start_meanwhile(&mut w, &out.unwritten, &[]).0, NONE);
    assert_eq!(start_meanwhile(&mut w, &Unwritten::default(), &[]).0, [3]);
}

#[test]
fn what_a_target_says_of_a_lost_task_frees_no_slot() {
    let (mut w, s) = two_run([exactly_once(), free()]);
    let other = w.open(plain);
    w.submit(other, vec![free(); 10]);
    w.report(s, 1, Report::Lost);
    assert_eq!(w.running(other), [1]);
    let committed = w.stale(s, 1, 1, Report::Succeeded(None));
    let resolved = Command::Completed(vec![committed]);
    let ended = [ends(&mut w, s, &[2]), ends(&mut w, other, &[1])];
    let commands = [resolved].into_iter().chain(ended).collect::<Vec<_>>();
    let (started, _) = start_meanwhile(&mut w, &Unwritten::default(), &commands);
    assert_eq!(
        started,
        [2, 3],
        "two slots are free, and the window is four"
    );
}

#[test]
fn no_more_start_than_the_next_owner_takes_to_be_in_doubt() {
    let (mut w, s) = two_run(vec![free(); 10]);
    let ended = ends(&mut w, s, &[1, 2]);
    let (started, out) = start_meanwhile(&mut w, &Unwritten::default(), &[ended]);
    assert_eq!(started, [3, 4]);
    let ended = ends(&mut w, s, &[3, 4]);
    let (started, _) = start_meanwhile(&mut w, &out.unwritten, &[ended]);
    assert_eq!(started, NONE, "two ended in flight, two in the open batch");
    assert_eq!(
        start_meanwhile(&mut w, &Unwritten::default(), &[]).0,
        [5, 6]
    );
}
