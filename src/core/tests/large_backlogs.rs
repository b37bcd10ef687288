//! Backlogs made to be expensive: what one batch does about them is limited, and all of it together
//! is in proportion to the backlog.

use super::world::{World, free, on_failure, order, plain, sql};
use crate::core::{
    Command, Delivery, DoneNo, Epoch, Handle, OnFailure, Order, Outcome, ReleaseMode, Reply,
    Report, Seq, TaskOptions, Time, Unreported, Until, Verb, model::limits::Limits,
    scheduler::queue::step_counter::steps_of,
};
use std::time::Duration;

/// Small slices, so that small backlogs have many of them.
fn small() -> Limits {
    Limits {
        slice: 20,
        timers_per_batch: 20,
        ..Limits::default()
    }
}

/// Steps and rows of one batch: a few for each part of a slice.
const STEPS: u64 = 200;
const ROWS: usize = 45;

/// Batches until nothing is due; the steps of all of them. None of them is long.
fn settle(w: &mut World) -> u64 {
    let mut all = 0;
    while w.shard.next_due() <= w.now + Limits::DEFAULT.slice_pause {
        w.now = w.now.max(w.shard.next_due());
        let steps = steps_of(|| drop(w.commands([])));
        assert!(
            steps <= STEPS && w.last_rows <= ROWS,
            "{steps} steps and {} rows in one batch",
            w.last_rows
        );
        all += steps;
    }
    all
}

fn not_before(at: Time) -> impl Fn(&mut TaskOptions) + Copy {
    move |options| options.not_before = Some(at)
}

fn deadline(options: &mut TaskOptions) {
    options.deadline = Some(Duration::from_secs(1));
}

fn retried(options: &mut TaskOptions) {
    options.retry.max_attempts = Some(3);
}

#[test]
fn spans_that_wake_between_others_are_put_back_a_few_at_a_time() {
    let mut w = World::limited(0, small());
    let s = w.open(plain);
    let later = w.now + Duration::from_secs(1);
    let pairs = (0..1_000).flat_map(|_| [free(), free().with(not_before(later))]);
    w.submit(s, pairs);
    w.now = later;
    assert!(settle(&mut w) <= 8 * 2_000);
    assert_eq!(w.view(s).counts.queued, 2_000);
}

#[test]
fn a_scheduler_with_one_due_span_does_not_wait_for_one_with_many() {
    let mut w = World::limited(0, small());
    let (many, one) = (w.open(plain), w.open(plain));
    let later = w.now + Duration::from_secs(1);
    w.submit(
        many,
        (0..1_000).flat_map(|_| [free(), free().with(not_before(later))]),
    );
    let soon = later + Duration::from_millis(1);
    w.submit(one, [free().with(not_before(soon))]);
    w.now = soon + Duration::from_millis(1);
    w.commands([]);
    w.commands([]);
    assert_eq!(w.view(one).counts.queued, 1);
    assert!(w.view(many).counts.queued < 1_100);
}

#[test]
fn deadlines_that_pass_together_end_tasks_a_few_at_a_time() {
    let mut w = World::limited(0, small());
    let s = w.open(plain);
    for _ in 0..600 {
        w.submit(s, [free().with(deadline)]);
    }
    w.seconds(0.5);
    w.now = w.now + Duration::from_secs(1);
    assert!(settle(&mut w) <= 12 * 600);
    assert_eq!(w.outcomes(s).len(), 600);
}

#[test]
fn attempts_that_last_get_their_rows_a_few_at_a_time() {
    let mut w = World::limited(1_000, small());
    let s = w.open(plain);
    w.submit(s, vec![free(); 1_000]);
    // The service stood still; then it is due for all of them.
    w.now = w.now + Duration::from_secs(60);
    let steps = settle(&mut w);
    assert!(steps <= 4 * 1_000, "{steps} steps");
    for seq in [1, 500, 900] {
        assert_eq!(w.remembered.attempts(s, seq).len(), 1, "task {seq}");
    }
}

#[test]
fn schedulers_that_pay_no_checkpoint_are_looked_at_a_few_at_a_time() {
    let limits = Limits {
        checkpoint_total: 0,
        checkpoint_min: 1,
        range_cost: u32::MAX,
        checkpoint_ranges: 200,
        ..small()
    };
    let mut w = World::limited(0, limits);
    for _ in 0..500 {
        let s = w.open(plain);
        w.submit(s, [free().noop(), order(1)]);
        w.succeed(s, [1]);
    }
    w.take_over();
    let steps = steps_of(|| drop(w.commands([])));
    assert!(steps <= STEPS, "{steps} steps");
}

#[test]
fn a_cancellation_passes_once_over_what_it_leaves_alone() {
    let mut w = World::limited(1, small());
    let s = w.open(on_failure(OnFailure::CancelRest));
    let later = w.now + Duration::from_secs(3_600);
    w.submit(s, [order(1)]);
    for _ in 0..500 {
        // What waits for its time lies between, in orders that go on and in orders that do not.
        w.submit(
            s,
            [free(), order(2)].map(|task| task.with(not_before(later))),
        );
    }
    let steps = steps_of(|| w.fail(s, 1));
    assert!(steps <= STEPS, "{steps} steps");
    assert!(settle(&mut w) <= 12 * 1_000);
    assert_eq!(w.progress(s).pending, 500);
}

#[test]
fn a_cancellation_passes_once_over_orders_that_came_later() {
    let mut w = World::limited(1, small());
    let s = w.open(on_failure(OnFailure::CancelRest));
    w.submit(s, [order(1), order(1)]);
    w.submit(s, vec![order(2); 1_000]);
    w.fail(s, 1);
    w.submit(s, (3..500).map(order));
    assert!(settle(&mut w) <= 8 * 1_500);
    assert_eq!(w.progress(s).pending, 498);
}

/// So many calls of one task each that wait for their next attempt.
fn retrying(tasks: i64) -> (World, Handle) {
    let mut w = World::limited(2 * tasks as u32, small());
    let s = w.open(plain);
    for _ in 0..tasks {
        w.submit(s, [free().with(retried)]);
    }
    (1..=tasks).for_each(|seq| w.fail(s, seq));
    (w, s)
}

#[test]
fn a_recovery_of_calls_that_wait_for_their_retry_is_in_proportion_to_them() {
    for tasks in [100, 400] {
        let (mut w, s) = retrying(tasks);
        let steps = steps_of(|| w.take_over());
        assert!(steps <= 30 * tasks as u64, "{steps} steps for {tasks}");
        w.set_slots(0);
        w.now = w.now + Duration::from_secs(60);
        assert!(settle(&mut w) <= 12 * tasks as u64);
        assert_eq!(w.view(s).counts.queued, tasks);
    }
}

#[test]
fn what_is_in_doubt_is_judged_a_few_at_a_time_and_the_answer_comes_last() {
    let mut w = World::limited(10, small());
    let all: Vec<Handle> = (0..50).map(|_| w.open(plain)).collect();
    for s in &all {
        w.submit(*s, vec![free(); 10]);
    }
    w.running.clear();
    w.take_over();
    let in_doubt = |w: &World| -> u32 {
        let running = |s: &Handle| w.shard.schedulers.expect(*s).running.in_doubt;
        all.iter().map(running).sum()
    };
    assert_eq!(in_doubt(&w), 500);
    let cleared = Command::Cleared {
        work: Some(sql()),
        unreported: Unreported::MayHaveBegun,
        since: Epoch(0),
    };
    let mut left = 500;
    let mut replies = Vec::new();
    let steps = steps_of(|| replies = w.commands([cleared]));
    assert!(steps <= STEPS, "{steps} steps");
    while replies.is_empty() {
        assert!(w.last_rows <= ROWS, "{} rows in one batch", w.last_rows);
        assert!(in_doubt(&w) < left || left == 0);
        left = in_doubt(&w);
        replies = w.commands([]);
    }
    assert!(matches!(replies[..], [Reply::Cleared]));
    assert_eq!((left, in_doubt(&w)), (0, 0));
}

#[test]
fn a_report_about_a_task_that_is_cleared_and_not_judged_yet_comes_too_late() {
    let mut w = World::limited(
        1,
        Limits {
            slice: 1,
            ..small()
        },
    );
    let all: Vec<Handle> = (0..3).map(|_| w.open(plain)).collect();
    for s in &all {
        w.submit(
            *s,
            [free().with(|o| o.delivery = Some(Delivery::AtMostOnce))],
        );
    }
    w.set_slots(3);
    let last = all[2];
    let late = w.assignment(last, 1).clone();
    w.running.clear();
    w.take_over();
    w.clear(Unreported::MayHaveBegun);
    w.stops.clear();
    w.reported(&[late]);
    assert_eq!(w.stops, [(1, 1)]);
    w.running.clear();
    settle(&mut w);
    assert_eq!(w.outcome(last, 1), Some(Outcome::Exhausted));
}

#[test]
fn timers_are_as_many_as_schedulers_that_live() {
    let mut w = World::new(0);
    for _ in 0..500 {
        let s = w.open(plain);
        w.submit(s, [free().with(deadline)]);
        w.cancel(s, 1);
        w.release(s, ReleaseMode::Finish);
    }
    assert_eq!(w.shard.timers.len(), 0);
    w.open(plain);
    assert_eq!(w.shard.timers.len(), 1);
}

#[test]
fn deadlines_are_noted_of_unfinished_tasks_alone() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, vec![free().with(deadline); 100]);
    for seq in (2..=100).rev() {
        w.cancel(s, seq);
        let noted = w.shard.schedulers.expect(s).ledger.deadlines.count();
        assert_eq!(noted, 1, "after task {seq}");
    }
    w.cancel(s, 1);
    let scheduler = w.shard.schedulers.expect(s);
    assert_eq!(scheduler.ledger.deadlines.count(), 0);
}

#[test]
fn tasks_that_were_recovered_together_keep_their_own_attempts() {
    let mut w = World::new(1);
    let s = w.open(plain);
    w.submit(s, vec![free().with(retried); 3]);
    w.fail(s, 1);
    w.call(s, Verb::Pause);
    w.report(s, 2, Report::NotStarted);
    w.now = w.now + Duration::from_secs(60);
    w.rebuild();
    w.release(s, ReleaseMode::Cancel);
    assert_eq!(w.last_done, [(1, 1, 1), (2, 2, 0)]);
}

/// What a stream for these orders has to wait for.
fn outstanding(w: &mut World, s: Handle, order: i64, last_seq: Option<Seq>) -> i64 {
    let verb = Verb::Watch {
        after: DoneNo(0),
        until: Until::Order(Order(order)),
        last_seq,
    };
    match w.call(s, verb) {
        Reply::Watching { outstanding, .. } => outstanding,
        other => panic!("a stream was answered with {other:?}"),
    }
}

#[test]
fn a_stream_for_an_order_looks_at_the_orders_on_its_shorter_side() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, (1..=1_000).map(order));
    for (until, most) in [(0, 1), (10, 10), (500, 500), (990, 10), (2_000, 1)] {
        let mut found = 0;
        let steps = steps_of(|| found = outstanding(&mut w, s, until, None));
        assert_eq!(found, until.min(1_000));
        assert!(steps <= most + 2, "{steps} steps for order {until}");
    }
}

#[test]
fn a_stream_for_an_order_costs_the_same_however_many_orders_there_are() {
    let mut w = World::new(0);
    let s = w.open(plain);
    for first in [1, 10_001] {
        w.submit(s, (first..first + 10_000).map(|at| order(10 * at)));
    }
    let check = |w: &mut World, left: &dyn Fn(i64) -> bool| {
        for until in [5, 10_000, 103_450, 199_000, 200_000] {
            let mut found = 0;
            let steps = steps_of(|| found = outstanding(w, s, until, None));
            let up_to = (1..=until / 10).filter(|at| left(*at)).count() as i64;
            assert_eq!(found, up_to, "up to {until}");
            assert!(steps <= 400, "{steps} steps for order {until}");
        }
    };
    check(&mut w, &|_| true);
    // Nine of ten end, and what remains is counted in fewer blocks.
    for seq in (1..=20_000).filter(|seq| seq % 10 != 0) {
        w.cancel(s, seq);
    }
    check(&mut w, &|seq| seq % 10 == 0);
}

#[test]
fn a_resumed_stream_for_an_order_looks_at_what_came_since() {
    let mut w = World::new(0);
    let s = w.open(plain);
    let at = w.now + Duration::from_secs(60);
    let task = |seq: i64| match seq % 3 {
        0 => order(1),
        1 => order(1).with(deadline),
        _ => order(1).with(not_before(at)),
    };
    w.submit(s, (1..=900).map(task));
    w.submit(s, [order(1), order(2), order(1).with(not_before(at))]);
    let mut found = 0;
    let steps = steps_of(|| found = outstanding(&mut w, s, 1, Some(Seq(900))));
    assert_eq!(found, 900);
    assert!(steps <= 20, "{steps} steps");
    assert_eq!(outstanding(&mut w, s, 1, Some(Seq(901))), 901);
    assert_eq!(outstanding(&mut w, s, 1, Some(Seq(450))), 450);
}

#[test]
fn a_resumed_stream_for_an_order_looks_at_no_orders_that_have_got_nothing_since() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, (1..=10_000).map(order));
    w.submit(s, [order(3_000), order(10_001)]);
    let mut found = 0;
    let steps = steps_of(|| found = outstanding(&mut w, s, 10_000, Some(Seq(10_000))));
    assert_eq!(found, 10_000);
    assert!(steps <= 2_500, "{steps} steps");
}

#[test]
fn a_resumed_stream_looks_at_the_ranges_on_its_shorter_side() {
    let mut w = World::new(0);
    let s = w.open(plain);
    w.submit(s, vec![free(); 1_000]);
    for seq in (1..=1_000).step_by(2) {
        w.cancel(s, seq);
    }
    for (last, most) in [(0, 1), (21, 11), (500, 250), (979, 11), (999, 1)] {
        let verb = Verb::Watch {
            after: DoneNo(0),
            until: Until::All,
            last_seq: Some(Seq(last)),
        };
        let mut reply = None;
        let steps = steps_of(|| reply = Some(w.call(s, verb)));
        let Some(Reply::Watching { outstanding, .. }) = reply else {
            panic!("a stream was answered with {reply:?}")
        };
        assert_eq!(outstanding, last / 2);
        assert!(steps <= most + 2, "{steps} steps up to {last}");
    }
}
