//! A pool of slots in virtual time, and who got how much of it.

use crate::core::{
    Caller, Command, Handle, Namespace, Report, Time, Verb,
    tests::world::{World, free, submission},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
    time::Duration,
};

/// Executors whose tasks last as long as `lasts` says, and a count of the slot time each scheduler
/// got.
pub(super) struct Pool {
    pub(super) world: World,
    ends: BinaryHeap<Reverse<(Time, Handle, i64, i32)>>,
    begun: BTreeMap<(Handle, i64), Time>,
    lasts: fn(Handle, i64) -> Duration,
    /// What tasks of a scheduler last that start from now on, instead.
    pub(super) lasting: BTreeMap<Handle, Duration>,
    /// Schedulers whose tasks only wait in their slots, for a session that they do not get.
    pub(super) without_session: BTreeSet<Handle>,
    pub(super) starts: BTreeMap<Handle, u32>,
    used: BTreeMap<Handle, Duration>,
}

impl Pool {
    pub(super) fn new(slots: u32, lasts: fn(Handle, i64) -> Duration) -> Self {
        let (ends, begun, used) = (BinaryHeap::new(), BTreeMap::new(), BTreeMap::new());
        Pool {
            world: World::new(slots),
            ends,
            begun,
            lasts,
            lasting: BTreeMap::new(),
            without_session: BTreeSet::new(),
            starts: BTreeMap::new(),
            used,
        }
    }

    /// Lets everything go on for so long.
    pub(super) fn run(&mut self, by: Duration) {
        let until = self.world.now + by;
        loop {
            self.take_dispatched();
            let end = self
                .ends
                .peek()
                .map_or(Time::NEVER, |Reverse((at, ..))| *at);
            let next = end.min(self.world.shard.next_due());
            if next > until {
                break;
            }
            self.world.now = self.world.now.max(next);
            let over = (end <= self.world.now).then(|| self.ends.pop()).flatten();
            let report = over.map(|Reverse((_, handle, seq, attempt))| {
                self.charge(handle, seq);
                let report = match self.without_session.contains(&handle) {
                    true => Report::NotStarted,
                    false => Report::Succeeded(None),
                };
                self.world.stale(handle, seq, attempt, report)
            });
            self.world
                .commands(report.map(|report| Command::Completed(vec![report])));
        }
        self.world.now = until;
    }

    /// Submits a task, and says how long it waits until it starts; at most about `limit`.
    pub(super) fn wait_of(&mut self, namespace: &str, handle: Handle, limit: Duration) -> Duration {
        let (begin, before) = (self.world.now, self.started(handle));
        self.world.command(submit_in(namespace, handle, 1));
        self.run(Duration::ZERO);
        while self.started(handle) == before && self.world.now.since(begin) < limit {
            self.run(Duration::from_millis(1));
        }
        self.world.now.since(begin)
    }

    /// Lets everything go on until the scheduler has nothing unfinished.
    pub(super) fn finish(&mut self, handle: Handle) {
        while self.world.progress(handle).pending > 0 {
            self.run(Duration::from_millis(10));
        }
    }

    /// Tasks of it that have started.
    pub(super) fn started(&self, handle: Handle) -> u32 {
        self.starts.get(&handle).copied().unwrap_or(0)
    }

    fn take_dispatched(&mut self) {
        for assignment in std::mem::take(&mut self.world.running) {
            let (handle, seq) = (assignment.handle, assignment.first.0);
            self.begun.insert((handle, seq), self.world.now);
            *self.starts.entry(handle).or_default() += 1;
            let own = self.lasting.get(&handle).copied();
            let end = self.world.now + own.unwrap_or_else(|| (self.lasts)(handle, seq));
            self.ends
                .push(Reverse((end, handle, seq, assignment.attempt.0)));
        }
    }

    fn charge(&mut self, handle: Handle, seq: i64) {
        let begun = self.begun.remove(&(handle, seq)).expect("it was begun");
        *self.used.entry(handle).or_default() += self.world.now.since(begun);
    }

    /// Slot seconds of each of these schedulers, running tasks up to now included.
    pub(super) fn seconds(&self, of: &[Handle]) -> Vec<f64> {
        let running = |handle: &Handle| {
            let mine = self.begun.iter().filter(|((h, _), _)| h == handle);
            mine.map(|(_, begun)| self.world.now.since(*begun).as_secs_f64())
                .sum::<f64>()
        };
        of.iter()
            .map(|h| self.used.get(h).map_or(0.0, Duration::as_secs_f64) + running(h))
            .collect()
    }
}

/// A submit of so many tasks without order.
pub(in crate::core::tests) fn submit_in(namespace: &str, handle: Handle, count: usize) -> Command {
    let submit = submission(None, vec![free(); count]);
    let caller = Caller {
        namespace: Namespace(namespace.into()),
        name: "t".into(),
    };
    Command::Call {
        caller,
        handle,
        verb: Verb::Submit(Arc::new(submit)),
    }
}
