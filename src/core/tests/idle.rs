//! Idle and ended schedulers.

use super::world::{World, free, order, plain};
use crate::core::{
    Command, DoneNo, Outcome, ReleaseMode, Reply, SchedulerState, Until, Verb,
    limits::{SLICE, TIMERS},
};
use std::time::Duration;

fn ten_seconds(settings: &mut crate::core::Settings) {
    settings.idle_timeout = Duration::from_secs(10);
}

fn watch(w: &mut World, s: crate::core::Handle) {
    let reply = w.call(s, Verb::Watch { after: DoneNo(0), until: Until::Forever, last_seq: None });
    assert!(matches!(reply, Reply::Watching { .. }), "{reply:?}");
}

#[test]
fn a_scheduler_nobody_uses_is_released() {
    let mut w = World::new(10);
    let s = w.open(ten_seconds);
    w.seconds(9.9);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Open);
    w.seconds(0.2);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn calls_streams_and_running_tasks_keep_a_scheduler_from_being_idle() {
    let mut w = World::new(10);
    let s = w.open(ten_seconds);
    w.seconds(9.0);
    w.submit(s, [free()]);
    w.seconds(30.0);
    watch(&mut w, s);
    w.succeed(s, [1]);
    w.seconds(30.0);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Open);
    w.command(Command::StreamClosed(s));
    w.seconds(9.9);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Open);
    w.seconds(0.2);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn a_scheduler_is_idle_only_from_the_end_of_its_last_task() {
    let mut w = World::new(10);
    let s = w.open(ten_seconds);
    w.submit(s, [free()]);
    w.seconds(30.0);
    w.succeed(s, [1]);
    w.seconds(9.9);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Open);
    w.seconds(0.2);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn an_abandoned_scheduler_can_cancel_what_it_has() {
    let mut w = World::new(0);
    let s = w.open(|settings| {
        ten_seconds(settings);
        settings.on_abandon = ReleaseMode::Cancel;
    });
    w.submit(s, [order(1), order(2)]);
    w.seconds(10.1);
    assert_eq!(w.outcomes(s).iter().filter(|(_, outcome)| *outcome == Outcome::Cancelled).count(), 2);
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn schedulers_that_fall_idle_together_are_released_in_slices() {
    let mut w = World::new(10);
    let all: Vec<_> = (0..3 * SLICE).map(|_| w.open(ten_seconds)).collect();
    w.crash();
    w.now = w.now + Duration::from_secs(10);
    let mut open = all.len();
    while open > 0 {
        w.commands([]);
        let still = all.iter().filter(|s| w.remembered.image(**s).state == SchedulerState::Open).count();
        assert_eq!(open - still, SLICE as usize, "of {open}");
        open = still;
    }
}

#[test]
fn one_that_is_used_again_before_its_slice_is_not_released() {
    let mut w = World::new(10);
    let all: Vec<_> = (0..2 * SLICE).map(|_| w.open(ten_seconds)).collect();
    let last = all[all.len() - 1];
    w.now = w.now + Duration::from_secs(10);
    w.commands([]);
    w.call(last, Verb::Pause);
    w.commands([]);
    let open: Vec<_> = all.iter().filter(|s| w.remembered.image(**s).state == SchedulerState::Open).collect();
    assert_eq!(open, [&last]);
    w.seconds(10.0);
    assert_eq!(w.remembered.image(last).state, SchedulerState::Released);
}

#[test]
fn many_timers_at_once_are_spread_over_batches() {
    let mut w = World::new(0);
    let later = w.now + Duration::from_secs(1);
    let all: Vec<_> = (0..TIMERS + 10).map(|_| w.open(plain)).collect();
    for s in &all {
        w.submit(*s, [free().with(|o| o.not_before = Some(later))]);
    }
    w.now = later;
    w.commands([]);
    assert_eq!(w.status().counts.queued, TIMERS as i64);
    assert_eq!(w.status().counts.queued, TIMERS as i64 + 10);
    assert!(w.shard.next_due() > later);
}

#[test]
fn an_ended_scheduler_leaves_memory_when_its_calls_cannot_be_repeated_any_more() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.release(s, ReleaseMode::Finish);
    w.seconds(899.0);
    assert!(w.shard.progress(s).is_some());
    w.seconds(2.0);
    assert!(w.shard.progress(s).is_none());
    assert!(matches!(w.call(s, Verb::Describe), Reply::Rejected(crate::core::Reject::UnknownHandle)));
}

#[test]
fn an_ended_scheduler_stays_in_memory_while_a_stream_is_open() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.release(s, ReleaseMode::Finish);
    watch(&mut w, s);
    w.seconds(2_000.0);
    assert!(w.shard.progress(s).is_some());
    w.command(Command::StreamClosed(s));
    w.seconds(901.0);
    assert!(w.shard.progress(s).is_none());
}

#[test]
fn a_core_built_anew_counts_the_streams_that_were_open_before() {
    let mut w = World::new(10);
    let s = w.open(plain);
    w.command(Command::StreamsOpen(vec![(s, 2)]));
    w.seconds(100_000.0);
    assert!(w.view(s).image.state == SchedulerState::Open);
    w.command(Command::StreamClosed(s));
    w.seconds(100_000.0);
    assert!(w.view(s).image.state == SchedulerState::Open);
    w.command(Command::StreamClosed(s));
    w.seconds(100_000.0);
    assert!(w.shard.progress(s).is_none());
}
