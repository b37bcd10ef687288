//! Many tasks at random, judged from outside after every step.

use super::{PERMIT, WRITER, needs};
use crate::core::{
    ClaimNo, Command, Handle, Mode, Report, ResourceVerb, Verb, Work,
    model::limits::Limits,
    scheduler::queue::step_counter::steps_of,
    tests::{
        resources::settings,
        world::{World, free, order, plain},
    },
};
use std::{collections::BTreeMap, time::Duration};

const KEYS: [&str; 6] = ["key/a", "key/b", "key/c", "key/d", "key/e", "key/f"];
const POOL: u64 = 5;
const SLOTS: u32 = 8;

/// A small generator of its own (splitmix64), so that a failure can be repeated.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

type Wants = Vec<(&'static str, Mode)>;

/// Permits in use, and whether somebody uses it alone.
#[derive(Default)]
struct Used(BTreeMap<&'static str, (u64, bool)>);

impl Used {
    fn fits(&self, wants: &Wants) -> bool {
        wants.iter().all(|(name, mode)| {
            let (permits, exclusive) = self.0.get(name).copied().unwrap_or_default();
            let capacity = if *name == "pool" { POOL } else { 1 };
            match mode {
                Mode::Exclusive => permits == 0 && !exclusive,
                Mode::Shared(more) => !exclusive && permits + u64::from(*more) <= capacity,
            }
        })
    }

    fn add(&mut self, wants: &Wants) {
        for (name, mode) in wants {
            let entry = self.0.entry(*name).or_default();
            match mode {
                Mode::Exclusive => entry.1 = true,
                Mode::Shared(permits) => entry.0 += u64::from(*permits),
            }
        }
    }
}

/// All tasks, by what they want.
type Tasks = BTreeMap<(Handle, i64), Wants>;

/// Holds respect mode and capacity, and no slot is free that a task could use.
fn check(w: &mut World, tasks: &Tasks, seed: u64) {
    let running = w.running.iter().map(|a| (a.handle, a.first.0));
    let running: Vec<(Handle, i64)> = running.collect();
    assert!(running.len() <= SLOTS as usize);
    let overlooked = w.shard.resources.overlooked_claims();
    assert_eq!(overlooked, [], "seed {seed}: it is their turn");
    let mut used = Used::default();
    for task in &running {
        let wants = &tasks[task];
        assert!(used.fits(wants), "seed {seed}: too much is held");
        used.add(wants);
    }
    // One slot is kept for schedulers that run nothing.
    if running.len() + 1 >= SLOTS as usize {
        return;
    }
    let overlooked = w.shard.resources.overlooked();
    assert_eq!(
        overlooked,
        [],
        "seed {seed}: they could have what they want"
    );
    // It may be kept for who was passed too often.
    if have_callers(w, &running, tasks) || !w.shard.resources.reserved().is_empty() {
        return;
    }
    for (task, wants) in tasks.iter().filter(|(task, _)| !is_paused(w, task.0)) {
        let waits = !running.contains(task) && w.outcome(task.0, task.1).is_none();
        let idles = waits && used.fits(wants);
        assert!(
            !idles,
            "seed {seed}: {task:?} could run, and a slot is free"
        );
    }
}

fn is_paused(w: &World, s: Handle) -> bool {
    w.shard.schedulers.expect(s).image.paused
}

fn resume(w: &mut World, s: Handle) {
    let ignore_failures = false;
    w.call(s, Verb::Resume { ignore_failures });
}

/// Whether callers have something, or wait for it.
fn have_callers(w: &World, running: &[(Handle, i64)], tasks: &Tasks) -> bool {
    let counts = w.shard.resources.counts();
    let of_tasks = running.iter().filter(|task| !tasks[task].is_empty());
    counts.waiting + counts.holds > of_tasks.count()
}

/// A caller wants it no more. The lease may have ended before.
fn let_go(w: &mut World, claim: i64) {
    let token = w.token(claim);
    let _ = w.ask(ResourceVerb::Release {
        claim: ClaimNo(claim),
        token,
    });
}

fn wants(rng: &mut Rng) -> Wants {
    let key = KEYS[rng.below(6) as usize];
    match rng.below(5) {
        0 => Vec::new(),
        1 => vec![(key, WRITER)],
        2 => vec![("pool", Mode::Shared(1 + rng.below(3) as u32))],
        _ => vec![(key, WRITER), ("pool", PERMIT)],
    }
}

fn do_something(
    w: &mut World,
    rng: &mut Rng,
    tasks: &mut Tasks,
    claims: &mut Vec<i64>,
    s: Handle,
    submits: bool,
) {
    match rng.below(14) {
        0..=2 if submits => {
            let new: Vec<Wants> = (0..=rng.below(8)).map(|_| wants(rng)).collect();
            let first = w.submit(s, new.iter().map(|wants| needs(free(), wants)));
            tasks.extend((first..).map(|seq| (s, seq)).zip(new));
        }
        3 => {
            let own = tasks.keys().filter(|(of, _)| *of == s);
            let running = w.running(s);
            let waiting = own.filter(|(_, seq)| !running.contains(seq));
            let waiting: Vec<i64> = waiting.map(|(_, seq)| *seq).collect();
            if let Some(seq) = waiting.get(rng.below(waiting.len().max(1) as u64) as usize) {
                w.cancel(s, *seq);
            }
        }
        4 if rng.below(4) == 0 => w.crash(),
        10 if submits => {
            let wants = wants(rng);
            if !wants.is_empty() {
                claims.push(w.claim("", &wants));
            }
        }
        11 if !claims.is_empty() => {
            let at = rng.below(claims.len() as u64) as usize;
            let_go(w, claims.swap_remove(at));
        }
        12 if submits => drop(w.call(s, Verb::Pause)),
        13 => resume(w, s),
        _ if !w.running.is_empty() => {
            let at = rng.below(w.running.len() as u64) as usize;
            let (of, seq) = (w.running[at].handle, w.running[at].first.0);
            let report = match rng.below(6) {
                0 => Report::NotStarted,
                _ => Report::Succeeded(None),
            };
            w.report(of, seq, report);
        }
        _ => {}
    }
}

fn run(seed: u64) {
    let mut rng = Rng(seed);
    let mut w = World::new(SLOTS);
    w.define("key/*", settings(1));
    w.define("pool", settings(POOL as u32));
    let schedulers: Vec<Handle> = (0..3).map(|_| w.open(plain)).collect();
    let (mut tasks, mut claims) = (Tasks::new(), Vec::new());
    for step in 0..300 {
        let s = schedulers[rng.below(3) as usize];
        do_something(&mut w, &mut rng, &mut tasks, &mut claims, s, step < 200);
        w.seconds(1.0);
        check(&mut w, &tasks, seed);
    }
    for s in schedulers {
        resume(&mut w, s);
        w.seconds(0.01);
        check(&mut w, &tasks, seed);
    }
    for claim in claims {
        let_go(&mut w, claim);
        w.seconds(0.01);
        check(&mut w, &tasks, seed);
    }
    while let Some((of, seq)) = w.running.first().map(|a| (a.handle, a.first.0)) {
        w.succeed(of, [seq]);
        w.seconds(0.01);
        check(&mut w, &tasks, seed);
    }
    let ended = |task: &(Handle, i64)| w.outcome(task.0, task.1).is_some();
    assert!(tasks.keys().all(ended), "seed {seed}: a task never ran");
}

#[test]
fn capacities_are_kept_and_no_slot_idles_whatever_happens() {
    (0..60).for_each(run);
}

#[test]
fn thousands_of_lines_at_one_resource_are_served_in_turn() {
    let mut w = World::new(4);
    w.define("key/*", settings(1));
    w.define("pool", settings(2));
    let s = w.open(plain);
    let names: Vec<String> = (0..2_000).map(|n| format!("key/{n}")).collect();
    let task = |name: &String| needs(order(1), &[(name.as_str(), WRITER), ("pool", PERMIT)]);
    w.submit(s, names.iter().map(task));
    w.succeed(s, 1..=500);
    assert_eq!(w.running(s), [501, 502]);
}

#[test]
fn tasks_with_resources_of_their_own_end_in_as_many_steps_as_there_are() {
    let mut w = World::new(0);
    w.define("key/*", settings(1));
    let s = w.open(plain);
    let second = Duration::from_secs(1);
    let task = |n| needs(free(), &[(format!("key/{n}").as_str(), WRITER)]);
    w.submit(
        s,
        (0..1_000).map(|n| task(n).with(|options| options.deadline = Some(second))),
    );
    w.now = w.now + second;
    let steps = steps_of(|| {
        // There is a pause between two slices, as somebody has called.
        while w.view(s).counts.queued > 0 {
            w.seconds(0.01);
        }
    });
    assert!(steps <= 20 * 1_000, "{steps} steps");
}

#[test]
fn explaining_a_task_looks_at_few_that_wait_for_other_slots() {
    let limits = Limits {
        listing_steps: 100,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("key/*", settings(1));
    let s = w.open(plain);
    let other = Work::Sql {
        target: "other".into(),
    };
    let task = |n| needs(free(), &[(format!("key/{n}").as_str(), WRITER)]).work(other.clone());
    w.submit(s, (0..1_000).map(task));
    w.submit(s, [free()]);
    w.seconds(1.0);
    let steps = steps_of(|| drop(w.blockers(s, 1_001)));
    assert!(steps <= 300, "{steps} steps");
}

#[test]
fn a_permit_that_is_free_again_costs_the_same_however_many_schedulers_wait_for_it() {
    let mut w = World::new(8);
    w.define("pool", settings(2));
    let waiting: Vec<Handle> = (0..1_000).map(|_| w.open(plain)).collect();
    for s in &waiting {
        w.submit(*s, [needs(free(), &[("pool", PERMIT)])]);
    }
    for pair in waiting.chunks(2) {
        assert_eq!(w.running.len(), 2);
        let steps = steps_of(|| {
            w.succeed(pair[0], [1]);
            w.succeed(pair[1], [1]);
        });
        assert!(steps <= 400, "{steps} steps");
    }
    assert!(w.running.is_empty());
}

#[test]
fn as_many_start_as_there_are_permits_however_many_wait_for_something_else() {
    let mut w = World::new(100);
    w.define("a-pool", settings(40));
    w.define("key/*", settings(1));
    let s = w.open(plain);
    let pool = w.claim("anna", &[("a-pool", Mode::Shared(40))]);
    for n in 0..30 {
        w.claim(&format!("{n}"), &[(format!("key/{n}").as_str(), WRITER)]);
    }
    let task = |n| {
        let key = format!("key/{n}");
        needs(free(), &[("a-pool", PERMIT), (key.as_str(), WRITER)])
    };
    w.submit(s, (0..70).map(task));
    w.give_back(pool);
    w.seconds(0.01);
    assert_eq!(w.running(s).len(), 40);
    assert_eq!(w.shard.resources.overlooked(), []);
}

#[test]
fn one_that_turns_out_to_be_too_late_makes_way_for_an_earlier_place() {
    let mut w = World::new(8);
    w.define("a-pool", settings(2));
    w.define("key/*", settings(1));
    w.define("z", settings(1));
    let s = w.open(plain);
    w.claim("dora", &[("z", WRITER)]);
    let task = |key| needs(free(), &[("a-pool", PERMIT), (key, WRITER)]);
    let keys = [
        "key/1", "key/2", "key/1", "key/2", "key/1", "key/2", "key/3",
    ];
    w.submit(s, keys.map(task));
    w.claim("carl", &[("a-pool", PERMIT), ("z", WRITER)]);
    let mut end_together = |seqs: [i64; 2]| {
        let ended = seqs.map(|seq| w.completion(s, seq, Report::Succeeded(None)));
        w.commands([Command::Completed(ended.to_vec())]);
        w.seconds(0.01);
        w.running(s)
    };
    assert_eq!(end_together([1, 2]), [3, 4]);
    assert_eq!(end_together([3, 4]), [5, 7], "the sixth is behind carl");
    assert_eq!(w.shard.resources.overlooked(), []);
}
