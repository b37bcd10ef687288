//! Fairness: schedulers that always have something to run share the slots by their weights,
//! whatever each of them did before.
//!
//! They work one at a time, alone or beside others, with idle moments between; then all of them
//! fill their queues in one namespace and never run dry.

use crate::{fixtures::Fixtures, rng::Rng};
use rallypoint::core::{
    Action, Assignment, Caller, Command, Completion, Handle, Namespace, Open, Output, Packed,
    Report, Run, Settings, Shard, ShardId, SlotCounts, Submit, Time, Verb, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

const TASKS: u32 = 400;
const LONGEST: Duration = Duration::from_millis(1_500);
const WINDOW: Duration = Duration::from_secs(40);

struct Contention<'a> {
    rng: Rng,
    now: Time,
    shard: Shard,
    fixtures: &'a Fixtures,
    running: Vec<(Time, Time, Assignment)>,
    /// Handle, weight, seconds of slots used.
    shares: Vec<(Handle, f64, f64)>,
}

/// Panics when a share is not what its weight says.
pub(crate) fn shares_follow_weights(seed: u64, fixtures: &Fixtures) {
    let mut rng = Rng::new(seed);
    let slots = 3 + rng.below(6) as u32;
    let mut contention = Contention {
        rng,
        now: Time(1_800_000_000_000_000),
        shard: Shard::new(Limits::DEFAULT),
        fixtures,
        running: Vec::new(),
        shares: Vec::new(),
    };
    contention.begin(slots);
    contention.past();
    for at in 0..contention.shares.len() {
        contention.submit(contention.shares[at].0, TASKS);
    }
    let end = contention.now + WINDOW;
    while contention.now < end && contention.step() {}
    contention.judge(slots);
}

impl Contention<'_> {
    fn begin(&mut self, slots: u32) {
        for at in 0..2 + self.rng.below(3) {
            let weight = *self.rng.one_of(&[1.0, 2.0, 4.0]);
            let handle = Handle::new(ShardId(0), 1 + at, [at as u8; 10]);
            self.shares.push((handle, weight, 0.0));
            let settings = Arc::new(Settings {
                weight,
                ..Settings::default()
            });
            let open = Open {
                settings,
                ..Open::default()
            };
            self.call(handle, Verb::Open(open));
        }
        let work = self.fixtures.targets[0].clone();
        self.apply(&Command::Slots {
            work,
            slots: SlotCounts::of(slots),
        });
    }

    /// Some of them work for a while; all of it has ended afterwards, and counts for nothing.
    fn past(&mut self) {
        for _ in 0..self.rng.below(6) {
            let who = self.rng.below(self.shares.len() as u64) as usize;
            let count = 1 + self.rng.below(60) as u32;
            self.submit(self.shares[who].0, count);
            let end = self.now + self.rng.up_to(LONGEST * 10);
            while self.now < end && self.step() {}
            self.now = self.now.max(end);
        }
        while self.step() {}
        self.now = self.now + self.rng.up_to(LONGEST * 4);
        self.shares.iter_mut().for_each(|(.., used)| *used = 0.0);
    }

    fn submit(&mut self, handle: Handle, count: u32) {
        let bodies = (0..count).map(|_| b"x".as_slice());
        let submit = Submit {
            request: None,
            runs: vec![Run {
                count,
                order: None,
                spec: self.fixtures.plain(),
            }],
            bodies: Packed::new(bodies),
            params: Packed::default(),
            retries: None,
        };
        self.call(handle, Verb::Submit(Arc::new(submit)));
    }

    fn call(&mut self, handle: Handle, verb: Verb) {
        let caller = Caller {
            namespace: Namespace("one".into()),
            name: "caller".into(),
        };
        self.apply(&Command::Call {
            caller,
            handle,
            verb,
        });
    }

    fn apply(&mut self, command: &Command) {
        let mut out = Output::default();
        self.shard.apply(self.now, None, command, &mut out);
    }

    /// Starts what may start, and lets the next attempt end; false: nothing runs.
    fn step(&mut self) -> bool {
        let mut out = Output::default();
        self.shard.settle(self.now, &mut out);
        for action in out.take_actions() {
            if let Action::Dispatch(assignment) = action {
                let ends = self.now + self.rng.up_to(LONGEST);
                self.running.push((ends, self.now, assignment));
            }
        }
        self.running
            .sort_by_key(|(ends, _, assignment)| (*ends, assignment.handle, assignment.first));
        if self.running.is_empty() {
            return false;
        }
        let (ended, started, assignment) = self.running.remove(0);
        self.now = ended;
        let mut shares = self.shares.iter_mut();
        let share = shares.find(|(handle, ..)| *handle == assignment.handle);
        share.expect("opened").2 += ended.since(started).as_secs_f64();
        self.apply(&Command::Completed(vec![Completion {
            handle: assignment.handle,
            first: assignment.first,
            attempt: assignment.attempt,
            report: Report::Succeeded(None),
            started,
            ended,
            slot: 1,
            backend_pid: 1,
            diagnostics: Default::default(),
        }]));
        true
    }

    /// A share may be off by what is charged in advance or not yet, for every slot, and on few
    /// slots by what is not owed.
    fn judge(&self, slots: u32) {
        let all: f64 = self.shares.iter().map(|(.., used)| used).sum();
        let weights: f64 = self.shares.iter().map(|(_, weight, _)| weight).sum();
        let most = 2.0 + f64::from(slots) * if slots < 4 { 1.5 } else { 0.5 };
        for (handle, weight, used) in &self.shares {
            let fair = all * weight / weights;
            assert!(
                (used - fair).abs() <= most,
                "{handle} of weight {weight} has used {used} s of slots instead of {fair} s"
            );
        }
    }
}
