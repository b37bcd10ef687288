//! What forecasts are judged by: the real core in virtual time, with executors whose tasks last as
//! laws have it that the forecast does not know.

use crate::{
    core::{
        Action, Caller, Command, Completion, Handle, Namespace, Open, Order, Output, Packed, Reply,
        Report, Run, Seq, Settings, Shard, ShardId, SlotCounts, Snapshot, Spec, Submit, TaskError,
        TaskOptions, Ticket, Time, Verb, Work, model::limits::Limits,
    },
    forecast::Observation,
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Exp1, LogNormal};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
    time::Duration,
};

/// How long tasks of a kind last, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Law {
    Constant(f64),
    Exponential(f64),
    /// Median, and the spread of the logarithms.
    LogNormal(f64, f64),
    /// Mostly the first, one in five times the second.
    Bimodal(f64, f64),
}

impl Law {
    pub(super) fn draw(self, rng: &mut SmallRng) -> f64 {
        match self {
            Law::Constant(seconds) => seconds,
            Law::Exponential(mean) => {
                let chance: f64 = Exp1.sample(rng);
                mean * chance
            }
            Law::LogNormal(median, spread) => {
                let law = LogNormal::new(median.ln(), spread).expect("a law");
                law.sample(rng)
            }
            Law::Bimodal(short, long) => {
                let middle = if rng.random_bool(0.2) { long } else { short };
                middle * (0.9 + 0.2 * rng.random::<f64>())
            }
        }
    }
}

/// The world.
pub(super) struct World {
    pub shard: Shard,
    pub now: Time,
    pub rng: SmallRng,
    pub laws: Vec<Law>,
    /// Share of tasks that fail.
    pub failing: f64,
    ends: BinaryHeap<Reverse<(Time, Handle, Seq, i32)>>,
    opened: u64,
    /// Tasks of each scheduler that have not ended.
    pub pending: BTreeMap<Handle, i64>,
    /// When each scheduler had none any more.
    pub ended: BTreeMap<Handle, Time>,
    /// When tasks have ended.
    pub done: BTreeMap<(Handle, Seq), Time>,
}

/// SQL on one target.
pub(super) fn sql() -> Work {
    Work::Sql {
        target: "app".into(),
    }
}

/// What a task of a kind is submitted with.
pub(super) fn spec(kind: usize) -> Arc<Spec> {
    let labels = [("kind".to_owned(), kind.to_string())];
    Arc::new(Spec {
        work: sql(),
        options: TaskOptions {
            labels: labels.into_iter().collect(),
            ..TaskOptions::default()
        },
        trace: None,
    })
}

/// The kind of a task.
pub(super) fn kind_of(spec: &Spec) -> usize {
    spec.options.labels["kind"].parse().expect("a number")
}

impl World {
    pub(super) fn new(seed: u64, slots: u32, laws: Vec<Law>) -> Self {
        let mut world = World {
            shard: Shard::new(Limits::default()),
            now: Time(1_800_000_000_000_000),
            rng: SmallRng::seed_from_u64(seed),
            laws,
            failing: 0.0,
            ends: BinaryHeap::new(),
            opened: 0,
            pending: BTreeMap::new(),
            ended: BTreeMap::new(),
            done: BTreeMap::new(),
        };
        world.slots(slots);
        world
    }

    pub(super) fn slots(&mut self, total: u32) {
        let work = sql();
        self.command(Command::Slots {
            work,
            slots: SlotCounts::of(total),
        });
    }

    pub(super) fn open(&mut self, set: impl FnOnce(&mut Settings)) -> Handle {
        self.opened += 1;
        let handle = Handle::new(ShardId(0), 1_800_000_000_000 + self.opened, [7; 10]);
        let mut settings = Settings::default();
        set(&mut settings);
        self.call(
            handle,
            Verb::Open(Open {
                settings: Arc::new(settings),
                ..Open::default()
            }),
        );
        handle
    }

    /// Submits tasks: order, kind and how many.
    pub(super) fn submit(&mut self, handle: Handle, tasks: &[(Option<i64>, usize, u32)]) {
        let run = |(order, kind, count): &(Option<i64>, usize, u32)| Run {
            count: *count,
            order: order.map(Order),
            spec: spec(*kind),
        };
        self.submit_runs(handle, tasks.iter().map(run).collect());
    }

    pub(super) fn submit_runs(&mut self, handle: Handle, runs: Vec<Run>) {
        let count: u32 = runs.iter().map(|run| run.count).sum();
        let texts = vec![&b"select 1"[..]; count as usize];
        let submit = Submit {
            runs,
            bodies: Packed::new(texts),
            ..Submit::none()
        };
        *self.pending.entry(handle).or_default() += i64::from(count);
        let reply = self.call(handle, Verb::Submit(Arc::new(submit)));
        assert!(matches!(reply, Reply::Submitted { .. }), "{reply:?}");
    }

    pub(super) fn snapshot(&mut self, handle: Handle) -> Snapshot {
        self.snapshot_with(handle, &[])
    }

    /// With these tasks asked about.
    pub(super) fn snapshot_with(&mut self, handle: Handle, tasks: &[Seq]) -> Snapshot {
        match self.call(handle, Verb::Snapshot(tasks.into())) {
            Reply::Snapshot(Some(snapshot)) => *snapshot,
            other => panic!("a snapshot was answered with {other:?}"),
        }
    }

    pub(super) fn call(&mut self, handle: Handle, verb: Verb) -> Reply {
        let caller = Caller {
            namespace: Namespace("default".into()),
            name: "test".into(),
        };
        let replies = self.command(Command::Call {
            caller,
            handle,
            verb,
        });
        replies.expect("every call is answered")
    }

    pub(super) fn command(&mut self, command: Command) -> Option<Reply> {
        let mut out = Output::default();
        let (now, ticket) = (self.now, Some(Ticket(0)));
        self.shard.apply(now, ticket, &command, &mut out);
        self.shard.settle(now, &mut out);
        let mut answer = None;
        for action in out.take_actions() {
            match action {
                Action::Reply(_, reply) => answer = Some(reply),
                Action::Dispatch(one) => {
                    let seconds = self.laws[kind_of(&one.spec)].draw(&mut self.rng);
                    let end = now + Duration::from_secs_f64(seconds);
                    self.ends
                        .push(Reverse((end, one.handle, one.first, one.attempt.0)));
                }
                Action::Stop { .. } | Action::Resolve(_) => {}
            }
        }
        for row in &out.records.completions {
            for done in &row.done {
                for at in 0..done.count {
                    self.done.insert((row.handle, done.first.plus(at)), now);
                }
                let pending = self.pending.entry(row.handle).or_default();
                *pending -= i64::from(done.count);
                if *pending == 0 {
                    self.ended.insert(row.handle, now);
                }
            }
        }
        answer
    }

    /// Lets everything go on until then, or until the scheduler has ended.
    pub(super) fn run(&mut self, until: Time, handle: Option<Handle>) {
        loop {
            if handle.is_some_and(|handle| self.pending[&handle] == 0) {
                return;
            }
            let end = self
                .ends
                .peek()
                .map_or(Time::NEVER, |Reverse((at, ..))| *at);
            let next = end.min(self.shard.next_due());
            if next > until || next == Time::NEVER {
                break;
            }
            self.now = self.now.max(next);
            let mut completions = Vec::new();
            while let Some(Reverse((at, ..))) = self.ends.peek()
                && *at <= self.now
            {
                let Some(Reverse((at, handle, first, attempt))) = self.ends.pop() else {
                    break;
                };
                let failed = self.failing > 0.0 && self.rng.random_bool(self.failing);
                completions.push(completion(handle, first, attempt, at, failed));
            }
            self.command(Command::Completed(completions));
        }
        self.now = until;
    }
}

fn completion(handle: Handle, first: Seq, attempt: i32, at: Time, failed: bool) -> Completion {
    Completion {
        handle,
        first,
        attempt: crate::core::Attempt(attempt),
        report: match failed {
            true => Report::Failed {
                error: Arc::new(TaskError::new("42601", "no such column")),
                transient: false,
            },
            false => Report::Succeeded(None),
        },
        started: Time(0),
        ended: at,
        slot: 1,
        backend_pid: 7,
        diagnostics: Default::default(),
    }
}

/// Ended tasks of a kind.
pub(super) fn history(
    laws: &[Law],
    kind: usize,
    count: usize,
    failing: f64,
    rng: &mut SmallRng,
) -> Vec<Observation> {
    let one = |_| Observation {
        spec: spec(kind),
        text: kind as u64,
        lasted: Duration::from_secs_f64(laws[kind].draw(rng)),
        failed: failing > 0.0 && rng.random_bool(failing),
        earlier: 0,
        gap: None,
    };
    (0..count).map(one).collect()
}
