//! What all processes of a life share: chance, time, the database, and the targets.

use super::{journal::Journal, rng::Rng, rules::Rules};
use crate::{
    assignment::Snapshot,
    clock::Clock,
    core::{Delivery, Report, RetryPolicy, Spec, TaskOptions, Time, Work},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub(crate) struct Outside {
    pub rng: Rng,
    pub now: Time,
    pub clock: Clock,
    pub journal: Journal,
    pub rules: Rules,
    /// Backends that have ended.
    pub dead: BTreeSet<u32>,
    /// Slots of every executor.
    pub slots: BTreeMap<Work, u32>,
    pub specs: Vec<Arc<Spec>>,
    /// Things may go wrong.
    pub faults: bool,
}

impl Outside {
    pub(crate) fn new(seed: u64) -> Self {
        let (mut rng, now) = (Rng::new(seed), Time(1_800_000_000_000_000));
        let works = ["a", "b"].map(|target| Work::Sql {
            target: target.into(),
        });
        let slots = works
            .iter()
            .map(|work| (work.clone(), 1 + rng.below(2) as u32))
            .collect();
        let retry = RetryPolicy {
            max_attempts: Some(3),
            max_losses: Some(5),
            ..RetryPolicy::default()
        };
        let kinds = [
            Delivery::AtLeastOnce,
            Delivery::AtLeastOnce,
            Delivery::AtMostOnce,
        ];
        let spec = |(work, delivery): (&Work, Delivery)| {
            let options = TaskOptions {
                delivery: Some(delivery),
                retry: retry.clone(),
                ..TaskOptions::default()
            };
            Arc::new(Spec {
                work: work.clone(),
                options,
            })
        };
        let specs = works
            .iter()
            .flat_map(|work| kinds.iter().map(move |kind| (work, *kind)))
            .map(spec)
            .collect();
        let (journal, rules, dead) = Default::default();
        Outside {
            rng,
            now,
            clock: Clock::still(now),
            journal,
            rules,
            dead,
            slots,
            specs,
            faults: true,
        }
    }

    /// Whether something goes wrong.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.rng.percent(percent) && self.faults
    }

    /// A backend ends, and what it ran.
    pub(crate) fn kill(&mut self, pid: u32) {
        self.dead.insert(pid);
        self.rules.running.remove(&pid);
    }

    /// The parts of a snapshot are in no order; what never began is not among them.
    pub(crate) fn mix(&mut self, snapshot: &mut Snapshot) {
        let never = snapshot
            .completions
            .iter()
            .find(|(_, completion)| completion.report == Report::NotStarted);
        assert!(
            never.is_none(),
            "what never began is reported to an owner: {never:?}"
        );
        snapshot.attempts.sort_by_key(|kept| kept.token);
        shuffle(&mut self.rng, &mut snapshot.attempts);
        snapshot.completions.sort_by_key(|(token, _)| *token);
        shuffle(&mut self.rng, &mut snapshot.completions);
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.clock.set(self.now);
    }
}

fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.place(last + 1));
    }
}
