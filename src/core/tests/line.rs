//! Short tasks stand in line at their executor, so that a slot goes on at once.

use super::world::{Task, World, free, order, plain, sql};
use crate::core::{
    Action, Command, Completion, Delivery, Handle, Output, Report, Settings, SlotCounts, Time,
};
use std::time::Duration;

/// Slots, places in line and a window that is wide enough.
fn has_line(w: &mut World, total: u32, line: u32) {
    w.command(Command::Slots {
        work: sql(),
        slots: SlotCounts {
            window: total * 8,
            line,
            spare: total * 7 - line,
            ..SlotCounts::of(total)
        },
    });
}

/// Slots with a line of four, and a scheduler whose tasks were short so far.
fn short(slots: u32, set: impl FnOnce(&mut Settings)) -> (World, Handle) {
    let mut w = World::new(slots);
    let s = w.open(set);
    w.submit(s, vec![free(); 20]);
    while let Some(next) = w.running(s).first() {
        w.succeed(s, [*next]);
    }
    has_line(&mut w, slots, 4);
    (w, s)
}

/// How many of the tasks that were handed out had a free slot, and how many had none.
fn handed_out(w: &World, s: Handle) -> (usize, usize) {
    let mine = w.running.iter().filter(|one| one.handle == s);
    let (in_line, running): (Vec<_>, Vec<_>) = mine.partition(|one| one.leaves_free.is_some());
    (running.len(), in_line.len())
}

/// What is handed out of tasks like these after many short ones.
fn of_tasks(tasks: Vec<Task>) -> (usize, usize) {
    let (mut w, s) = short(2, plain);
    w.submit(s, tasks);
    handed_out(&w, s)
}

#[test]
fn tasks_stand_in_line_once_they_are_known_to_be_short() {
    let mut w = World::new(2);
    has_line(&mut w, 2, 4);
    let s = w.open(plain);
    w.submit(s, vec![free(); 9]);
    assert_eq!(handed_out(&w, s), (2, 0), "nobody knows yet");
    assert_eq!(of_tasks(vec![free(); 9]), (2, 4));
    assert_eq!(of_tasks(vec![free(); 3]), (2, 1));
}

#[test]
fn an_end_lets_the_next_in_line_have_the_slot() {
    let (mut w, s) = short(2, plain);
    let first = w.submit(s, vec![free(); 8]);
    w.succeed(s, [first]);
    assert_eq!(handed_out(&w, s), (1, 5), "one of these five runs by now");
    let slots = w.status().slots;
    let sql = slots.iter().find(|(work, ..)| *work == sql());
    assert_eq!(sql.map(|(_, total, busy, _)| (*total, *busy)), Some((2, 2)));
    w.succeed(s, (1..8).map(|at| first + at));
    assert_eq!(handed_out(&w, s), (0, 0));
    w.submit(s, vec![free(); 2]);
    assert_eq!(handed_out(&w, s), (2, 0), "both slots are free again");
}

#[test]
fn what_has_a_record_when_it_starts_or_must_not_be_lost_waits_for_a_slot() {
    let once = free().with(|options| options.delivery = Some(Delivery::AtMostOnce));
    assert_eq!(of_tasks(vec![once; 9]), (2, 0));
    let fragile = free().with(|options| options.retry.max_losses = Some(1));
    assert_eq!(of_tasks(vec![fragile; 9]), (2, 0));
    let later = free().with(|options| options.not_before = Some(Time(0)));
    assert_eq!(of_tasks(vec![later; 9]), (2, 0));
}

#[test]
fn who_stands_in_line_counts_under_the_limit() {
    let (mut w, s) = short(2, |settings| settings.max_parallelism = Some(3));
    w.submit(s, vec![free(); 9]);
    assert_eq!(handed_out(&w, s), (2, 1));
}

#[test]
fn long_tasks_have_no_line() {
    let (mut w, s) = short(2, plain);
    w.submit(s, vec![free(); 30]);
    w.advance(Duration::from_millis(50));
    while handed_out(&w, s).1 > 0 {
        let next = w.running(s)[0];
        w.succeed(s, [next]);
    }
    assert_eq!(handed_out(&w, s), (2, 0));
}

#[test]
fn a_line_that_is_given_back_is_closed_until_tasks_are_short_again() {
    let (mut w, s) = short(2, plain);
    w.submit(s, vec![free(); 40]);
    w.advance(Duration::from_millis(20));
    let in_line = w.running.iter().filter(|one| one.leaves_free.is_some());
    let waiting: Vec<i64> = in_line.map(|one| one.first.0).collect();
    for seq in waiting {
        w.report(s, seq, Report::NotStarted);
    }
    assert_eq!(handed_out(&w, s), (2, 0));
    for _ in 0..30 {
        let next = w.running(s)[0];
        w.succeed(s, [next]);
    }
    assert!(handed_out(&w, s).1 > 0);
}

#[test]
fn a_newcomer_has_the_reserve_however_long_the_line_is() {
    let (mut w, s) = short(10, plain);
    w.submit(s, vec![free(); 40]);
    assert_eq!(handed_out(&w, s), (9, 4), "one slot stays free");
    let newcomer = w.open(plain);
    let first = w.submit(newcomer, [free()]);
    assert_eq!(handed_out(&w, newcomer), (1, 0));
    w.succeed(newcomer, [first]);
    let before = handed_out(&w, s);
    w.submit(s, vec![free(); 5]);
    assert_eq!(
        handed_out(&w, s),
        before,
        "the reserve is to be filled first"
    );
}

#[test]
fn what_an_executor_has_that_is_away_takes_no_slots() {
    let (mut w, s) = short(4, plain);
    w.submit(s, vec![free(); 30]);
    let before = handed_out(&w, s);
    assert_eq!(before, (3, 4), "one slot stays free");
    let slots = SlotCounts {
        line: 2,
        window: 16,
        away: 7,
        away_in_line: 4,
        ..SlotCounts::of(2)
    };
    w.command(Command::Slots { work: sql(), slots });
    assert_eq!(handed_out(&w, s), (3 + 2, 4 + 2));
}

#[test]
fn who_stood_in_line_on_a_lost_host_has_used_nothing() {
    let (mut w, s) = short(2, plain);
    let first = w.submit(s, vec![free(); 6]);
    w.succeed(s, [first, first + 1]);
    assert_eq!(handed_out(&w, s), (0, 4));
    w.advance(Duration::from_millis(2_500));
    for seq in w.running(s) {
        let lost = Completion {
            slot: 0,
            ..w.completion(s, seq, Report::Lost)
        };
        w.command(Command::Completed(vec![lost]));
    }
    w.submit(s, vec![free(); 20]);
    assert_eq!(handed_out(&w, s).1, 0, "they were kept waiting");
    for _ in 0..6 {
        let next = w.running(s)[0];
        w.succeed(s, [next]);
    }
    assert!(handed_out(&w, s).1 > 0);
}

#[test]
fn no_more_is_handed_out_than_a_takeover_would_know() {
    let (mut w, s) = short(2, plain);
    w.command(Command::Slots {
        work: sql(),
        slots: SlotCounts {
            window: 3,
            line: 4,
            ..SlotCounts::of(2)
        },
    });
    w.submit(s, vec![free(); 9]);
    assert_eq!(handed_out(&w, s), (2, 1));
}

/// Whether a batch lingers with the ends of so many of these tasks, which come after many short
/// ones; those behind them begin meanwhile, if they can.
fn lingers_after(tasks: Vec<Task>, ends: i64, report: &Report) -> bool {
    let (mut w, s) = short(2, plain);
    let first = w.submit(s, tasks);
    let mut out = Output::default();
    for seq in first..first + ends {
        let ended = vec![w.completion(s, seq, report.clone())];
        (w.shard).apply(w.now, None, &Command::Completed(ended), &mut out);
        w.shard.start_meanwhile(w.now, None, &mut out);
        for action in std::mem::take(&mut out.early) {
            if let Action::Dispatch(assignment) = action {
                w.running.push(assignment);
            }
        }
    }
    w.shard.may_linger(&out)
}

#[test]
fn a_batch_lingers_as_long_as_nobody_waits_for_an_end_in_it() {
    let good = Report::Succeeded(None);
    let lingers = |tasks, ends| lingers_after(tasks, ends, &good);
    assert!(lingers(vec![free(); 20], 1));
    assert!(!lingers(vec![free(); 20], 0), "it is empty");
    assert!(!lingers(vec![free(); 6], 1), "nothing comes after these");
    assert!(lingers(vec![order(1); 20], 1));
    let opens = [vec![order(1)], vec![order(2)], vec![free(); 20]].concat();
    assert!(!lingers(opens, 1), "the next order waits for it");
    let once = free().with(|options| options.delivery = Some(Delivery::AtMostOnce));
    let recorded = [vec![free(); 6], vec![once; 9]].concat();
    assert!(!lingers(recorded, 1), "the next start has its row first");
    assert!(!lingers_after(vec![free(); 20], 1, &Report::Lost));
}

#[test]
fn a_batch_does_not_linger_while_a_free_slot_waits_for_it() {
    let opens = [vec![order(1)], vec![free(); 20], vec![order(2).noop()]].concat();
    assert!(
        !lingers_after(opens, 1, &Report::Succeeded(None)),
        "its SQL goes on, but a slot for no-ops is free"
    );
}

#[test]
fn a_batch_lingers_until_half_of_the_spare_window_is_used() {
    let lingers = |ends| lingers_after(vec![free(); 20], ends, &Report::Succeeded(None));
    assert!(lingers(4), "the window is 16, and 6 of it in hand");
    assert!(!lingers(5));
}
