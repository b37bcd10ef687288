//! How long anybody waits depends on what runs and waits now, not on who worked how long before.

use super::executors::{Pool, submit_in};
use crate::core::{
    Command, Handle, Report, Settings, SettingsField, Update, Verb, Work,
    model::limits::MAX_DEBT,
    tests::world::{World, free, plain, slots},
};
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

/// A pool whose tasks last a second.
fn pool(slots: u32) -> Pool {
    Pool::new(slots, |_, _| SECOND)
}

fn tenths(tenths: u64) -> Duration {
    Duration::from_millis(100 * tenths)
}

fn reweigh(pool: &mut Pool, handle: Handle, weight: f64) {
    let settings = Settings {
        weight,
        ..Settings::default()
    };
    let fields = vec![SettingsField::Weight];
    let update = Verb::Update(Arc::new(Update { settings, fields }));
    pool.world.call(handle, update);
}

/// Works alone for ten minutes, and ends; somebody else floods the pool after an idle moment. How
/// long does the first one wait when it comes back?
fn wait_after_an_idle_moment(slots: u32, other: &str) -> Duration {
    let mut pool = pool(slots);
    let (first, flood) = (pool.world.open(plain), pool.world.open_in(other, plain));
    pool.world.submit(first, vec![free(); slots as usize * 600]);
    pool.finish(first);
    pool.run(SECOND / 2);
    pool.world.command(submit_in(other, flood, 5_000));
    pool.run(3 * SECOND);
    pool.wait_of("default", first, 600 * SECOND)
}

#[test]
fn who_worked_alone_waits_no_longer_than_a_task_after_an_idle_moment() {
    for slots in [1, 2, 8, 20] {
        for other in ["default", "other"] {
            let waited = wait_after_an_idle_moment(slots, other);
            assert!(waited <= SECOND, "{waited:?} with {slots} slots, {other}");
        }
    }
}

#[test]
fn who_ran_one_task_at_a_time_has_saved_up_nothing() {
    for other in ["default", "other"] {
        let mut pool = pool(20);
        let thrifty = pool.world.open(|s| s.max_parallelism = Some(1));
        let flood = pool.world.open_in(other, plain);
        pool.world.submit(thrifty, vec![free(); 3_000]);
        pool.world.command(submit_in(other, flood, 30_000));
        pool.run(600 * SECOND);
        pool.world.limit(thrifty, None);
        let (before, all) = (pool.started(flood), [thrifty, flood]);
        let used = pool.seconds(&all);
        pool.run(20 * SECOND);
        let share = pool.seconds(&all)[1] - used[1];
        assert!(pool.started(flood) > before, "it starts nothing for 20 s");
        assert!((150.0..230.0).contains(&share), "{share} of 380 s of slots");
    }
}

#[test]
fn what_was_used_of_one_target_counts_for_nothing_on_another() {
    let mut pool = pool(20);
    let small = Work::Sql {
        target: "small".into(),
    };
    pool.world.command(slots(small.clone(), 1));
    let (wide, queued) = (pool.world.open(plain), pool.world.open(plain));
    pool.world.submit(wide, vec![free(); 20_000]);
    pool.run(600 * SECOND);
    let tasks = vec![free().work(small.clone()); 1_000];
    pool.world.submit(queued, tasks.clone());
    pool.run(2 * SECOND);
    let first = pool.world.submit(wide, tasks);
    pool.run(20 * SECOND);
    let mine = pool.world.outcomes(wide);
    let done = mine.iter().filter(|(seq, _)| *seq >= first).count();
    assert!((8..=11).contains(&done), "{done} of 20 turns");
}

#[test]
fn a_change_of_weight_gives_no_credit() {
    let mut pool = pool(8);
    let (changing, other) = (pool.world.open(plain), pool.world.open(plain));
    reweigh(&mut pool, changing, 1_000.0);
    pool.world.submit(changing, vec![free(); 1_000]);
    pool.world.submit(other, vec![free(); 1_000]);
    pool.run(tenths(5));
    reweigh(&mut pool, changing, 0.01);
    pool.run(SECOND);
    let before = pool.started(changing);
    pool.run(20 * SECOND);
    let started = pool.started(changing) - before;
    assert!(started <= 2, "{started} tasks started at weight 0.01");

    reweigh(&mut pool, changing, 1.0);
    pool.run(2 * SECOND);
    let before = pool.seconds(&[changing, other]);
    pool.run(20 * SECOND);
    let after = pool.seconds(&[changing, other]);
    let shares = [after[0] - before[0], after[1] - before[1]];
    assert!((shares[0] / shares[1] - 1.0).abs() < 0.2, "{shares:?}");
}

#[test]
fn who_comes_first_keeps_no_advantage() {
    let mut pool = pool(8);
    let all: Vec<Handle> = (0..5).map(|_| pool.world.open(plain)).collect();
    for scheduler in &all {
        pool.lasting.insert(*scheduler, tenths(1));
        pool.world.submit(*scheduler, vec![free(); 2_000]);
        pool.run(Duration::from_millis(20));
    }
    // What runs when the others come goes on.
    pool.run(tenths(1));
    let before = pool.seconds(&all);
    pool.run(2 * SECOND);
    let after = pool.seconds(&all);
    let seconds: Vec<f64> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    let (least, most) = (
        seconds.iter().copied().fold(f64::MAX, f64::min),
        seconds.iter().copied().fold(0.0, f64::max),
    );
    assert!(most / least < 1.25, "{seconds:?}");
}

#[test]
fn weights_hold_within_seconds_and_on_few_slots() {
    let mut pool = pool(5);
    let weights = [1.0, 2.0, 4.0];
    let all: Vec<Handle> = (weights.iter())
        .map(|weight| pool.world.open(|settings| settings.weight = *weight))
        .collect();
    for scheduler in &all {
        pool.lasting.insert(*scheduler, tenths(1));
        pool.world.submit(*scheduler, vec![free(); 2_000]);
    }
    pool.run(7 * SECOND);
    let seconds = pool.seconds(&all);
    let sum: f64 = seconds.iter().sum();
    for (share, weight) in seconds.iter().zip(weights) {
        super::assert_within(*share, sum * weight / 7.0, 0.2, &seconds);
    }
}

#[test]
fn the_lightest_start_at_once_beside_the_heaviest() {
    let mut pool = pool(8);
    let heavy = pool.world.open(|settings| settings.weight = 100.0);
    pool.world.submit(heavy, vec![free(); 1_000]);
    pool.run(5 * SECOND);
    let light: Vec<Handle> = (0..4)
        .map(|_| pool.world.open(|settings| settings.weight = 0.01))
        .collect();
    for scheduler in &light {
        pool.world.submit(*scheduler, vec![free(); 10]);
    }
    pool.run(SECOND);
    for scheduler in light {
        assert!(pool.started(scheduler) > 0);
    }
}

/// Callers who each run a task, think for as long as it took, and run the next one; with `fresh` in
/// a new scheduler each time. What part of its share does a backlog beside them get?
fn share_beside_interactive_callers(slots: u32, callers: u32, fresh: bool, apart: bool) -> f64 {
    let mut pool = pool(slots);
    let backlog = pool.world.open(plain);
    pool.world
        .submit(backlog, vec![free(); 150 * slots as usize]);
    let name = |at| {
        if apart {
            format!("caller {at}")
        } else {
            "default".into()
        }
    };
    let mut callers: Vec<(String, Handle, u64)> = (0..callers)
        .map(|at| (name(at), pool.world.open_in(&name(at), plain), 0))
        .collect();
    let count = callers.len() as u32 + 1;
    for tick in 0..600 {
        for (namespace, handle, idle_since) in &mut callers {
            if pool.world.progress(*handle).pending > 0 {
                *idle_since = tick;
            } else if fresh {
                *handle = pool.world.open_in(namespace, plain);
                pool.world.command(submit_in(namespace, *handle, 1));
            } else if tick - *idle_since >= 4 {
                pool.world.command(submit_in(namespace, *handle, 1));
            }
        }
        pool.run(SECOND / 4);
    }
    pool.seconds(&[backlog])[0] * f64::from(count) / f64::from(slots * 150)
}

#[test]
fn callers_who_come_and_go_do_not_keep_a_backlog_from_its_turn() {
    for apart in [false, true] {
        for (slots, callers) in [(1, 4), (8, 24)] {
            let share = share_beside_interactive_callers(slots, callers, false, apart);
            assert!(
                share > 0.8,
                "{share} of its share of {slots} slots, apart: {apart}"
            );
        }
    }
}

#[test]
fn an_endless_series_of_new_schedulers_does_not_keep_a_backlog_from_its_turn() {
    for (slots, callers) in [(1, 4), (8, 24)] {
        let share = share_beside_interactive_callers(slots, callers, true, false);
        assert!(share > 0.7, "{share} of its share of {slots} slots");
    }
}

#[test]
fn the_shortest_task_counts_at_the_highest_weight() {
    for slots in [1, 8] {
        let mut pool = pool(slots);
        let heavy = pool.world.open(|settings| settings.weight = 1_000.0);
        let light = pool.world.open(plain);
        for scheduler in [heavy, light] {
            let short = Duration::from_micros(900);
            pool.lasting.insert(scheduler, short);
        }
        pool.world.submit(heavy, vec![free(); 100_000]);
        pool.run(SECOND);
        pool.world.submit(light, vec![free(); 100]);
        pool.run(8 * SECOND);
        let started = pool.started(light);
        assert!((3..100).contains(&started), "{started} with {slots} slots");
    }
}

#[test]
fn equal_backlogs_of_tasks_that_take_no_time_take_turns() {
    let mut w = World::new(4);
    let all = [w.open(plain), w.open(plain)];
    for scheduler in all {
        w.submit(scheduler, vec![free().noop(); 5_000]);
    }
    for _ in 0..40 {
        let mut ended: Vec<_> = std::mem::take(&mut w.running);
        let reports = ended.drain(..).map(|a| {
            let mut report = w.stale(a.handle, a.first.0, a.attempt.0, Report::Succeeded(None));
            report.started = report.ended;
            report
        });
        let reports = Command::Completed(reports.collect());
        w.command(reports);
    }
    let done = all.map(|scheduler| w.outcomes(scheduler).len() as f64);
    assert!(
        done[0] > 0.0 && (done[0] / done[1] - 1.0).abs() < 0.2,
        "{done:?}"
    );
}

/// What somebody does before the flood.
#[derive(Clone, Debug)]
enum Past {
    Submit { who: usize, count: usize, ms: u64 },
    Limit { who: usize, most: Option<u32> },
    Weight { who: usize, weight: f64 },
    Wait { ms: u64 },
}

fn past() -> impl Strategy<Value = Past> {
    let who = 0..4_usize;
    prop_oneof![
        4 => (who.clone(), 1..60_usize, 5..3_000_u64)
            .prop_map(|(who, count, ms)| Past::Submit { who, count, ms }),
        1 => (who.clone(), prop::option::of(1..4_u32))
            .prop_map(|(who, most)| Past::Limit { who, most }),
        1 => (who, prop::sample::select(vec![0.01, 1.0, 1.0, 1_000.0]))
            .prop_map(|(who, weight)| Past::Weight { who, weight }),
        4 => (1..20_000_u64).prop_map(|ms| Past::Wait { ms }),
    ]
}

fn namespace(who: usize) -> &'static str {
    ["default", "other"][who % 2]
}

impl Past {
    /// Whoever is not of the default namespace has neither limits nor weights.
    fn happen(&self, pool: &mut Pool, all: &[Handle]) {
        match *self {
            Past::Submit { who, count, ms } => {
                pool.lasting.insert(all[who], Duration::from_millis(ms));
                (pool.world).command(submit_in(namespace(who), all[who], count));
            }
            Past::Limit { who, most } => {
                if who % 2 == 0 {
                    pool.world.limit(all[who], most);
                }
            }
            Past::Weight { who, weight } => {
                if who % 2 == 0 {
                    reweigh(pool, all[who], weight);
                }
            }
            Past::Wait { ms } => pool.run(Duration::from_millis(ms)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever was before: who runs nothing and comes back while others flood the pool starts
    /// before a task of the flood could end that began with it.
    #[test]
    fn who_runs_nothing_waits_for_a_running_task_at_most(
        slots in 1..24_u32,
        history in prop::collection::vec(past(), 1..25),
        returning in 0..4_usize,
        flood_ms in 20..2_000_u64,
        floods_for in 0..4_000_u64,
    ) {
        let mut pool = pool(slots);
        let all: Vec<Handle> = (0..4)
            .map(|who| pool.world.open_in(namespace(who), plain))
            .collect();
        let flood: Vec<Handle> = (0..2)
            .map(|who| pool.world.open_in(namespace(who), plain))
            .collect();
        for event in &history {
            event.happen(&mut pool, &all);
        }
        for scheduler in &all {
            pool.finish(*scheduler);
        }
        if returning % 2 == 0 {
            reweigh(&mut pool, all[returning], 1.0);
            pool.world.limit(all[returning], None);
        }
        pool.run(MAX_DEBT);
        let length = Duration::from_millis(flood_ms);
        for (who, scheduler) in flood.iter().enumerate() {
            pool.lasting.insert(*scheduler, length);
            pool.world.command(submit_in(namespace(who), *scheduler, 3_000));
        }
        pool.run(Duration::from_millis(floods_for));
        let waited = pool.wait_of(namespace(returning), all[returning], 60 * SECOND);
        // With fewer than four slots there is no reserve: it waits for its turn and that of its
        // namespace, among attempts whose length may have been expected to be another one.
        let limit = if slots < 4 { length * 2 + tenths(2) } else { length };
        prop_assert!(waited <= limit, "{waited:?} instead of {limit:?}");
    }
}

#[test]
fn a_lone_scheduler_leaves_only_the_reserve_free() {
    let mut w = World::new(8);
    let lone = w.open(plain);
    w.submit(lone, vec![free(); 100]);
    assert_eq!(w.running(lone).len(), 7);
}
