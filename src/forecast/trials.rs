//! Many runs, as many as there is time for, and what follows from them.

use super::{
    answer::{Basis, Forecast, Omission, OrderForecast},
    classes::{Classes, Source},
    durations::Observations,
    ends::{Ending, Reason},
    lengths::Lengths,
    question::Question,
    replay::{Replay, RunEnds, Wanted},
    units::Units,
};
use crate::core::{KindSnapshot, Seq, Snapshot, Time, Work};
use rand::{SeedableRng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

/// Events of one run, where tasks can be run as one.
const EVENTS: u32 = 3_000;
/// Events of one run, where they cannot.
const MOST_EVENTS: u32 = 40_000;
/// Events of all runs.
const ALL_EVENTS: u32 = 800_000;
/// As many runs as the quantiles need, and no more than they use.
const RUNS: std::ops::RangeInclusive<u32> = 60..=400;
/// Fewer say nothing.
const FEWEST_RUNS: usize = 30;

/// A question, made ready for runs.
pub(super) struct Trials<'a> {
    snapshot: &'a Snapshot,
    seen: &'a Observations,
    question: &'a Question,
    classes: Classes<'a>,
    units: Units,
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        seen: &'a Observations,
        question: &'a Question,
    ) -> Self {
        let mut classes = Classes::new(seen);
        let units = Units::new(snapshot, question, &mut classes);
        for (class, since) in units.own().running() {
            classes.learn(class, snapshot.at.since(since).as_secs_f64());
        }
        Trials {
            snapshot,
            seen,
            question,
            classes,
            units,
        }
    }

    pub(super) fn forecast(mut self, go_on: impl Fn(usize) -> bool) -> Forecast {
        let pilot = self.pilot(&go_on);
        let (wanted, tasks) = self.wanted();
        let events = pilot.events.max(1);
        let runs = (ALL_EVENTS / events).clamp(*RUNS.start(), *RUNS.end());
        let runs = self.question.runs.map_or(runs, |most| most.min(runs));
        let mut ends: Vec<RunEnds> = Vec::new();
        for run in 0..runs {
            if pilot.cut_off || self.snapshot.crowded || !go_on(ends.len()) {
                break;
            }
            ends.push(self.run(&wanted, u64::from(run), MOST_EVENTS));
        }
        self.answer(&wanted, tasks, &ends)
    }

    /// Has so many tasks run as one that a run has no more events than it should.
    fn pilot(&mut self, go_on: &impl Fn(usize) -> bool) -> RunEnds {
        let mut quantum = 0.0;
        loop {
            let (wanted, _) = self.wanted();
            let pilot = self.run(&wanted, u64::MAX, EVENTS);
            if !pilot.cut_off || !go_on(0) {
                return pilot;
            }
            let per_event = pilot.slot_seconds / f64::from(pilot.events);
            quantum = (4.0 * per_event).max(4.0 * quantum).max(1e-6);
            if !self.units.group(quantum, &self.classes) {
                return self.run(&wanted, u64::MAX, MOST_EVENTS);
            }
        }
    }

    fn run(&self, wanted: &Wanted, run: u64, most: u32) -> RunEnds {
        let seed = self
            .question
            .seed
            .wrapping_add(run.wrapping_mul(0x9e37_79b9));
        let rng = SmallRng::seed_from_u64(seed);
        let lengths = Lengths::new(&self.classes);
        Replay::new(self.snapshot, &self.units, wanted, lengths, rng).run(most)
    }

    fn wanted(&self) -> (Wanted, Vec<Seq>) {
        let mut orders: BTreeMap<_, i64> = BTreeMap::new();
        for span in &self.units.own().spans {
            *orders.entry(span.order).or_default() += i64::from(span.units);
        }
        let places = self.snapshot.unfinished.iter();
        let places = places.filter_map(|task| Some((*task, self.units.own().unit_of(*task)?)));
        let (seqs, tasks) = places.unzip();
        let wanted = Wanted {
            orders: orders.into_iter().collect(),
            tasks,
        };
        (wanted, seqs)
    }

    fn answer(&self, wanted: &Wanted, tasks: Vec<Seq>, ends: &[RunEnds]) -> Forecast {
        let reasons = self.reasons(ends);
        let ending = |time: &dyn Fn(&RunEnds) -> Time| match ends.len() < FEWEST_RUNS {
            true => Ending {
                reasons: reasons.clone(),
                ..Ending::default()
            },
            false => Ending::of(ends.iter().map(time).collect(), &reasons),
        };
        let scheduler = &self.snapshot.scheduler;
        let mut counts: BTreeMap<_, i64> = BTreeMap::new();
        for span in &self.units.own().spans {
            *counts.entry(span.order).or_default() += i64::from(span.count);
        }
        let orders = wanted.orders.iter().enumerate();
        Forecast {
            handle: scheduler.image.handle,
            at: self.snapshot.at,
            runs: ends.len() as u32,
            all: match scheduler.beyond {
                0 => ending(&|run| run.all),
                _ => Ending::unknown(Reason::TooManyTasks),
            },
            unfinished: scheduler.unfinished,
            orders: orders
                .map(|(at, (order, _))| OrderForecast {
                    order: *order,
                    unfinished: counts[order],
                    end: ending(&|run| run.orders[at]),
                })
                .collect(),
            tasks: {
                let place = |task: &Seq| tasks.iter().position(|one| one == task);
                let end = |task: &Seq| match place(task) {
                    Some(at) => ending(&|run| run.tasks[at]),
                    None => Ending::unknown(Reason::TooManyTasks),
                };
                let unfinished = self.snapshot.unfinished.iter();
                unfinished.map(|task| (*task, end(task))).collect()
            },
            slots: self.slots(),
            basis: self.basis(),
            omissions: self.omissions(),
        }
    }

    /// Of the kinds that its own tasks need, since others may be closed to its namespace.
    fn slots(&self) -> Vec<(Work, u32)> {
        let kinds = self.snapshot.kinds.iter();
        let slots = |kind: &KindSnapshot| {
            let slots = self.units.slots.get(&kind.work);
            (kind.work.clone(), slots.copied().unwrap_or(kind.total))
        };
        kinds.map(slots).collect()
    }

    /// Why something does not end, or nobody knows when.
    fn reasons(&self, ends: &[RunEnds]) -> Vec<Reason> {
        let Snapshot {
            scheduler,
            pauses,
            kinds,
            ..
        } = self.snapshot;
        let image = &scheduler.image;
        let mut reasons = Vec::new();
        if self.snapshot.crowded {
            return vec![Reason::TooManyOthers];
        }
        if ends.len() < FEWEST_RUNS {
            return vec![Reason::TooLong];
        }
        reasons.extend(image.paused.then_some(Reason::Paused));
        reasons.extend(image.halt.is_some().then_some(Reason::Halted));
        let own: BTreeSet<_> = self
            .units
            .own()
            .spans
            .iter()
            .map(|span| &span.spec.work)
            .collect();
        for work in &own {
            let paused = |target: Option<&str>| work.is_of(target);
            if pauses.iter().any(|pause| paused(pause.target.as_deref())) {
                reasons.push(Reason::TargetPaused((*work).clone()));
            }
            if self.units.slots.get(*work).is_none_or(|slots| *slots == 0) {
                let away = kinds
                    .iter()
                    .any(|kind| kind.work == **work && kind.announced);
                let work = (*work).clone();
                reasons.push(Reason::NoSlots { work, away });
            }
        }
        let claimed = self.snapshot.claimed.iter();
        reasons.extend(claimed.map(|name| Reason::Claimed(name.clone())));
        reasons.extend(self.too_few_seen());
        let halted = ends.iter().filter(|run| run.halted).count();
        if image.halt.is_none() && halted > 0 {
            reasons.push(Reason::MayHalt((halted * 100).div_ceil(ends.len()) as u32));
        }
        reasons
    }

    /// Kinds of tasks of which too few have ended.
    fn too_few_seen(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for (work, labels) in self.classes.unknown() {
            let reason = Reason::TooFewSeen {
                work: work.clone(),
                labels: labels.clone(),
                seen: self.seen.seen(work),
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    fn basis(&self) -> Vec<Basis> {
        let groups = self
            .classes
            .sources
            .iter()
            .filter_map(|source| match source {
                Source::Seen { group, .. } => Some(*group),
                _ => None,
            });
        let groups: BTreeSet<usize> = groups.collect();
        let groups = groups.into_iter().map(|at| &self.seen.groups[at]);
        let mut basis: Vec<Basis> = groups
            .map(|group| Basis {
                work: group.likeness.work.clone(),
                labels: group.likeness.labels.clone(),
                same_statement: group.likeness.text.is_some(),
                seen: group.ends.len(),
                mean: group.mean,
                failed_percent: group.failures() * 100.0,
            })
            .collect();
        basis.sort_by_key(|one| std::cmp::Reverse(one.seen));
        basis
    }

    fn omissions(&self) -> Vec<Omission> {
        let scheduler = &self.snapshot.scheduler;
        let others = self.snapshot.others.len();
        let guessed = self.classes.guessed.len();
        let largest = self.units.largest();
        let at_once = self.units.own().spans.iter();
        let at_once = at_once
            .map(|span| &span.spec.work)
            .any(|work| !work.has_session());
        let running = scheduler.running.iter();
        let in_doubt = running.filter(|one| one.in_doubt && one.recorded);
        let in_doubt: i64 = in_doubt.map(|one| i64::from(one.count)).sum();
        let all = [
            (scheduler.assumed > 0).then_some(Omission::Assumed(scheduler.assumed)),
            (scheduler.beyond > 0).then_some(Omission::Beyond(scheduler.beyond)),
            (in_doubt > 0).then_some(Omission::InDoubt(in_doubt)),
            (largest > 1).then_some(Omission::Grouped(largest)),
            at_once.then_some(Omission::AtOnce),
            (others > 0).then_some(Omission::OthersByAverage(others)),
            (guessed > 0).then_some(Omission::OthersGuessed(guessed)),
        ];
        all.into_iter().flatten().collect()
    }
}
