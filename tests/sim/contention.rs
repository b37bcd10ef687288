//! Fairness in steady state: schedulers that always have something to run share the slots by their
//! weights.
//!
//! All of them begin at once in one namespace and never run dry. Whoever comes back after an idle
//! moment, or uses several targets, is not judged: its virtual time may be far from that of the
//! others today.

use crate::{fixtures::Fixtures, rng::Rng};
use rallypoint::core::{
    Action, Assignment, Caller, Command, Completion, Handle, Namespace, Output, Packed, Report,
    Run, Settings, Shard, ShardId, Submit, Time, Verb, model::limits::Limits,
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
    let end = contention.now + WINDOW;
    while contention.now < end {
        contention.step();
    }
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
            let request = None;
            self.call(handle, Verb::Open { settings, request });
            let bodies = (0..TASKS).map(|_| b"x".as_slice());
            let submit = Submit {
                request,
                runs: vec![Run {
                    count: TASKS,
                    order: None,
                    spec: self.fixtures.plain(),
                }],
                bodies: Packed::new(bodies),
                params: Packed::default(),
            };
            self.call(handle, Verb::Submit(Arc::new(submit)));
        }
        let work = self.fixtures.targets[0].clone();
        self.apply(&Command::Slots { work, total: slots });
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

    /// Starts what may start, and lets the next attempt end.
    fn step(&mut self) {
        let mut out = Output::default();
        self.shard.settle(self.now, &mut out);
        for action in out.actions {
            if let Action::Dispatch(assignment) = action {
                let ends = self.now + self.rng.up_to(LONGEST);
                self.running.push((ends, self.now, assignment));
            }
        }
        self.running
            .sort_by_key(|(ends, _, assignment)| (*ends, assignment.handle, assignment.first));
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
        }]));
    }

    /// A share may be off by what is charged in advance or not yet, for every slot.
    fn judge(&self, slots: u32) {
        let all: f64 = self.shares.iter().map(|(.., used)| used).sum();
        let weights: f64 = self.shares.iter().map(|(_, weight, _)| weight).sum();
        let most = 2.0 + 1.5 * f64::from(slots);
        for (handle, weight, used) in &self.shares {
            let fair = all * weight / weights;
            assert!(
                (used - fair).abs() <= most,
                "{handle} of weight {weight} has used {used} s of slots instead of {fair} s"
            );
        }
    }
}
