//! Idle and ended schedulers.

use super::world::{NONE, World, free, order, plain, request, submission};
use crate::core::{
    Caller, Command, DoneNo, Namespace, Outcome, Phase, Reject, ReleaseMode, Reply, SchedulerState,
    Seq, Time, Until, Verb, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

fn ten_seconds(settings: &mut crate::core::Settings) {
    settings.idle_timeout = Duration::from_secs(10);
}

fn watch(w: &mut World, s: crate::core::Handle) {
    let reply = w.call(
        s,
        Verb::Watch {
            after: DoneNo(0),
            until: Until::Forever,
            last_seq: None,
        },
    );
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
fn who_only_looks_does_not_keep_a_scheduler_from_being_idle() {
    let mut w = World::new(10);
    let s = w.open(ten_seconds);
    let look = Verb::Select {
        before: Seq(i64::MAX),
        phases: vec![Phase::Queued],
        order: None,
        limit: 10,
    };
    for verb in [Verb::Describe, Verb::Locate(Vec::new()), look] {
        w.seconds(3.0);
        w.call(s, verb);
    }
    assert_eq!(w.remembered.image(s).state, SchedulerState::Open);
    w.seconds(1.1);
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
    assert_eq!(
        w.outcomes(s)
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Cancelled)
            .count(),
        2
    );
    assert_eq!(w.remembered.image(s).state, SchedulerState::Released);
}

#[test]
fn schedulers_that_fall_idle_together_are_released_in_slices() {
    let mut w = World::new(10);
    let all: Vec<_> = (0..3 * Limits::DEFAULT.slice)
        .map(|_| w.open(ten_seconds))
        .collect();
    w.crash();
    w.now = w.now + Duration::from_secs(10);
    let mut open = all.len();
    while open > 0 {
        w.commands([]);
        let still = all
            .iter()
            .filter(|s| w.remembered.image(**s).state == SchedulerState::Open)
            .count();
        assert_eq!(open - still, Limits::DEFAULT.slice as usize, "of {open}");
        open = still;
    }
}

#[test]
fn one_that_is_used_again_before_its_slice_is_not_released() {
    let mut w = World::new(10);
    let all: Vec<_> = (0..2 * Limits::DEFAULT.slice)
        .map(|_| w.open(ten_seconds))
        .collect();
    let last = all[all.len() - 1];
    w.now = w.now + Duration::from_secs(10);
    w.commands([]);
    w.call(last, Verb::Pause);
    w.commands([]);
    let open: Vec<_> = all
        .iter()
        .filter(|s| w.remembered.image(**s).state == SchedulerState::Open)
        .collect();
    assert_eq!(open, [&last]);
    w.seconds(10.0);
    assert_eq!(w.remembered.image(last).state, SchedulerState::Released);
}

#[test]
fn many_timers_at_once_are_spread_over_batches() {
    let mut w = World::new(0);
    let later = w.now + Duration::from_secs(1);
    let all: Vec<_> = (0..Limits::DEFAULT.timers_per_batch + 10)
        .map(|_| w.open(plain))
        .collect();
    for s in &all {
        w.submit(*s, [free().with(|o| o.not_before = Some(later))]);
    }
    w.now = later;
    w.commands([]);
    assert_eq!(
        w.status().counts.queued,
        Limits::DEFAULT.timers_per_batch as i64
    );
    assert_eq!(
        w.status().counts.queued,
        Limits::DEFAULT.timers_per_batch as i64 + 10
    );
    assert!(w.shard.next_due() > later);
}

#[test]
fn nothing_is_due_because_of_an_attempt_that_has_ended() {
    let mut w = World::new(2);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    let lasting = w.now + Limits::DEFAULT.long_attempt;
    w.succeed(s, [1]);
    assert_eq!(w.shard.next_due(), lasting, "the other one goes on");
    w.succeed(s, [2]);
    assert!(w.shard.next_due() > lasting);
}

fn remembers(ended_schedulers: usize) -> World {
    World::limited(
        10,
        Limits {
            ended_schedulers,
            ..Limits::default()
        },
    )
}

#[test]
fn of_the_ended_schedulers_the_oldest_leave_memory() {
    let mut w = remembers(2);
    let all: Vec<_> = (0..5).map(|_| w.open(plain)).collect();
    for s in [3, 0, 4, 1] {
        w.release(all[s], ReleaseMode::Finish);
    }
    w.call(all[3], Verb::Describe);
    w.commands([]);
    let in_memory = |w: &World| {
        all.iter()
            .map(|s| w.shard.progress(*s).is_some())
            .collect::<Vec<_>>()
    };
    assert_eq!(in_memory(&w), [false, true, true, false, true]);
    assert!(matches!(
        w.call(all[3], Verb::Describe),
        Reply::Rejected(Reject::UnknownHandle)
    ));
    w.seconds(100_000.0);
    w.crash();
    assert_eq!(
        in_memory(&w),
        [false; 5],
        "the journal answers for them, and the last one was released as nobody used it"
    );
}

#[test]
fn no_timer_waits_for_a_scheduler_that_has_left_memory() {
    let mut w = remembers(0);
    for _ in 0..100 {
        let s = w.open(plain);
        w.release(s, ReleaseMode::Finish);
        w.commands([]);
    }
    assert_eq!((w.shard.timers.len(), w.shard.ended.len()), (0, 0));
    let next = w.shard.checkpoints.next_quiesce(&w.shard.limits);
    assert_eq!(next, Time::NEVER);
}

#[test]
fn an_ended_scheduler_is_in_memory_when_its_end_is_reported() {
    let mut w = remembers(0);
    let s = w.open(plain);
    w.release(s, ReleaseMode::Finish);
    assert!(w.shard.progress(s).is_some());
    w.commands([]);
    assert!(w.shard.progress(s).is_none());
}

#[test]
fn an_ended_scheduler_stays_in_memory_while_a_stream_is_open() {
    let mut w = remembers(0);
    let s = w.open(plain);
    watch(&mut w, s);
    watch(&mut w, s);
    w.release(s, ReleaseMode::Finish);
    w.command(Command::StreamClosed(s));
    w.seconds(2_000.0);
    assert!(w.shard.progress(s).is_some());
    w.command(Command::StreamClosed(s));
    w.commands([]);
    assert!(w.shard.progress(s).is_none());
}

#[test]
fn a_stream_opened_after_the_end_keeps_it_in_memory_too() {
    let mut w = remembers(1);
    let (s, other) = (w.open(plain), w.open(plain));
    w.release(s, ReleaseMode::Finish);
    watch(&mut w, s);
    w.release(other, ReleaseMode::Finish);
    w.commands([]);
    assert!(w.shard.progress(s).is_some());
    w.command(Command::StreamClosed(s));
    w.commands([]);
    assert!(
        w.shard.progress(s).is_some() && w.shard.progress(other).is_none(),
        "it is the youngest now"
    );
}

#[test]
fn a_repeated_submit_is_answered_when_its_scheduler_has_left_memory() {
    for crash in [false, true] {
        let mut w = remembers(0);
        let s = w.open(plain);
        let first = w.try_submit(s, request(1, 1), [free()]);
        w.succeed(s, [1]);
        w.release(s, ReleaseMode::Finish);
        w.commands([]);
        if crash {
            w.crash();
        }
        assert!(w.shard.progress(s).is_none());
        assert_eq!(w.try_submit(s, request(1, 1), [free()]), first);
        assert_eq!(
            w.try_submit(s, request(1, 2), [free()]),
            Err(Reject::RequestIdReused)
        );
        assert_eq!(
            w.try_submit(s, request(2, 1), [free()]),
            Err(Reject::UnknownHandle)
        );
        let caller = Caller {
            namespace: Namespace("other".into()),
            name: "test".into(),
        };
        let verb = Verb::Submit(Arc::new(submission(request(1, 1), [free()])));
        let reply = w.command(Command::Call {
            caller,
            handle: s,
            verb,
        });
        assert!(
            matches!(reply, Some(Reply::Rejected(Reject::UnknownHandle))),
            "{reply:?}"
        );
        w.seconds(16.0 * 60.0);
        for payload in [1, 2] {
            assert_eq!(
                w.try_submit(s, request(1, payload), [free()]),
                Err(Reject::UnknownHandle)
            );
        }
    }
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
    assert!(w.view(s).image.state == SchedulerState::Released);
}

#[test]
fn whoever_releases_what_was_left_paused_has_it_finish() {
    let mut w = World::new(1);
    let s = w.open(ten_seconds);
    w.call(s, Verb::Pause);
    w.submit(s, [free(), free()]);
    w.seconds(11.0);
    assert_eq!(w.running(s), NONE, "it is released, and still paused");
    w.release(s, ReleaseMode::Finish);
    assert_eq!(w.running(s), [1]);
    w.crash();
    assert_eq!(
        w.running(s),
        [1],
        "the pause has ended for later owners, too"
    );
}
