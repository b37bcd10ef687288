//! What is run as one in a forecast. With few tasks that is each of them. With millions, tasks of a
//! span follow each other in one slot without coming back to the core in between: the sum of their
//! durations is drawn at once. Orders, and enough units for every slot, stay apart.

use super::{
    classes::{ClassId, Classes},
    question::Question,
};
use crate::core::{
    Attempt, Handle, Order, Past, RunningTasks, SchedulerImage, SchedulerSnapshot, Seq, Snapshot,
    Spec, Time, WaitingTasks, Work,
};
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, sync::Arc};

/// So many units every slot gets of a span at least, if it has as many tasks.
const UNITS_PER_SLOT: u32 = 16;

/// Everything that is run.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// The scheduler asked about comes first.
    pub schedulers: Vec<SchedulerUnits>,
    by_handle: FxHashMap<Handle, usize>,
    /// Of all of them: what the answer may tell of them is less.
    pub slots: BTreeMap<Work, u32>,
}

/// What of one scheduler is run.
#[derive(Clone, Debug)]
pub(super) struct SchedulerUnits {
    pub image: SchedulerImage,
    /// By number of their first task, and of their first unit.
    pub spans: Vec<UnitSpan>,
}

/// Consecutive tasks that are alike, as units.
#[derive(Clone, Debug)]
pub(super) struct UnitSpan {
    /// The first unit. Units are numbered anew, since they are fewer than tasks.
    pub first: Seq,
    pub units: u32,
    pub task: Seq,
    pub count: u32,
    pub order: Option<Order>,
    pub spec: Arc<Spec>,
    pub submitted_at: Time,
    /// Its numbers of tasks are made up.
    assumed: bool,
    /// Of its tasks: of each, or of those that are known.
    classes: Vec<ClassId>,
    pub state: UnitState,
}

/// Where the tasks of a span stand.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnitState {
    Waiting,
    /// For its next attempt.
    Again {
        at: Time,
        past: Past,
    },
    Running {
        attempt: Attempt,
        since: Time,
        past: Past,
    },
}

impl Units {
    pub(super) fn new(snapshot: &Snapshot, question: &Question, classes: &mut Classes<'_>) -> Self {
        let kinds = snapshot.kinds.iter().chain(&snapshot.other_kinds);
        let mut slots: BTreeMap<Work, u32> =
            kinds.map(|kind| (kind.work.clone(), kind.total)).collect();
        for (work, assumed) in &question.slots {
            slots.insert(work.clone(), *assumed);
        }
        let own = SchedulerUnits::new(&snapshot.scheduler, |spec, tasks| {
            let texts = question.texts.range(tasks);
            let known: Vec<ClassId> = texts
                .map(|(_, text)| classes.own(spec, Some(*text)))
                .collect();
            match known.is_empty() {
                true => vec![classes.own(spec, None)],
                false => known,
            }
        });
        let mut schedulers = vec![own];
        for other in &snapshot.others {
            let mut known: BTreeMap<*const Spec, ClassId> = BTreeMap::new();
            let same_namespace = other.image.namespace == snapshot.scheduler.image.namespace;
            schedulers.push(SchedulerUnits::new(other, |spec, _| {
                let id = known.entry(std::ptr::from_ref(spec));
                vec![*id.or_insert_with(|| classes.other(spec, other, same_namespace))]
            }));
        }
        let handles = schedulers.iter().map(|one| one.image.handle);
        let mut units = Units {
            by_handle: handles
                .enumerate()
                .map(|(at, handle)| (handle, at))
                .collect(),
            schedulers,
            slots,
        };
        units.group(0.0, classes);
        units
    }

    /// Has tasks run as one until they last `quantum` seconds together. Returns whether that makes
    /// fewer units of them.
    pub(super) fn group(&mut self, quantum: f64, classes: &Classes<'_>) -> bool {
        let mut fewer = false;
        for scheduler in &mut self.schedulers {
            let mut next = 1;
            let limit = scheduler.image.settings.max_parallelism;
            for span in &mut scheduler.spans {
                let slots = self.slots.get(&span.spec.work).copied().unwrap_or(1);
                let slots = limit.map_or(slots, |limit| limit.min(slots)).max(1);
                let before = span.units;
                span.units = span.grouped(quantum, slots, classes);
                fewer |= span.units < before;
                span.first = Seq(next);
                next += i64::from(span.units);
            }
        }
        fewer
    }

    /// The tasks that most of which are run as one.
    pub(super) fn largest(&self) -> u32 {
        let spans = self.schedulers.iter().flat_map(|one| &one.spans);
        let tasks = spans.map(|span| span.count.div_ceil(span.units.max(1)));
        tasks.max().unwrap_or(1)
    }

    pub(super) fn own(&self) -> &SchedulerUnits {
        &self.schedulers[0]
    }

    /// The span of a unit, and which of its units it is.
    pub(super) fn find(&self, handle: Handle, unit: Seq) -> Option<(&UnitSpan, u32)> {
        let scheduler = &self.schedulers[*self.by_handle.get(&handle)?];
        let after = scheduler.spans.partition_point(|span| span.first <= unit);
        let span = scheduler.spans.get(after.checked_sub(1)?)?;
        Some((span, (unit.0 - span.first.0) as u32))
    }
}

impl SchedulerUnits {
    fn new(
        copied: &SchedulerSnapshot,
        mut classes: impl FnMut(&Spec, std::ops::RangeInclusive<Seq>) -> Vec<ClassId>,
    ) -> Self {
        let waiting = copied.waiting.iter().map(UnitSpan::waiting);
        // What has no session ends at once, wherever it stands.
        let running = copied.running.iter().map(UnitSpan::running);
        let mut spans: Vec<UnitSpan> = waiting.chain(running).collect();
        spans.sort_by_key(|span| span.task);
        for span in &mut spans {
            let last = span.task.plus(span.count.max(1) - 1);
            span.classes = classes(&span.spec, span.task..=last);
        }
        SchedulerUnits {
            image: copied.image.clone(),
            spans,
        }
    }

    /// The classes of running tasks, and since when each of these runs.
    pub(super) fn running(&self) -> impl Iterator<Item = (ClassId, Time)> {
        self.spans.iter().filter_map(|span| match span.state {
            UnitState::Running { since, .. } => Some((span.classes[0], since)),
            _ => None,
        })
    }

    /// The unit of a task, and which part of the unit is over when the task is; `None`: it was not
    /// copied.
    pub(super) fn unit_of(&self, task: Seq) -> Option<(Seq, f64)> {
        let after = self.spans.partition_point(|span| span.task <= task);
        let mut before = self.spans[..after].iter().rev();
        let span = before.find(|span| !span.assumed && task < span.task.plus(span.count))?;
        let offset = (task.0 - span.task.0) as u64;
        // The unit that holds it, see `tasks`.
        let unit = ((offset + 1) * u64::from(span.units)).div_ceil(span.count.into()) as u32 - 1;
        let (from, tasks) = span.tasks(unit);
        let part = (offset + 1 - u64::from(from)) as f64 / f64::from(tasks);
        Some((span.first.plus(unit), part))
    }
}

impl UnitSpan {
    fn waiting(one: &WaitingTasks) -> Self {
        let has_begun = one.past.failures + one.past.losses > 0;
        let state = match one.again_at {
            Some(at) => UnitState::Again { at, past: one.past },
            // It is due, and waits for a slot.
            None if has_begun => UnitState::Again {
                at: one.submitted_at,
                past: one.past,
            },
            None => UnitState::Waiting,
        };
        let (first, units) = (Seq(0), one.count);
        UnitSpan {
            first,
            units,
            task: one.first,
            count: one.count,
            order: one.order,
            spec: one.spec.clone(),
            submitted_at: one.submitted_at,
            assumed: one.assumed,
            classes: Vec::new(),
            state,
        }
    }

    fn running(one: &RunningTasks) -> Self {
        let runs = UnitState::Running {
            attempt: one.attempt,
            since: one.since,
            past: one.past,
        };
        UnitSpan {
            first: Seq(0),
            units: one.count,
            task: one.first,
            count: one.count,
            order: one.order,
            spec: one.spec.clone(),
            submitted_at: one.submitted_at,
            assumed: false,
            classes: Vec::new(),
            // What is in doubt without a row has perhaps never been handed out, and begins anew.
            state: match one.spec.work.has_session() && (one.recorded || !one.in_doubt) {
                true => runs,
                false => UnitState::Waiting,
            },
        }
    }

    /// The first task of a unit, from 0, and how many it has.
    pub(super) fn tasks(&self, unit: u32) -> (u32, u32) {
        let until = |unit: u32| u64::from(unit) * u64::from(self.count) / u64::from(self.units);
        let (from, until) = (until(unit) as u32, until(unit + 1) as u32);
        (from, until - from)
    }

    /// The classes of some of its tasks.
    pub(super) fn classes(&self, from: u32, tasks: u32) -> &[ClassId] {
        match self.classes.len() == self.count as usize {
            true => &self.classes[from as usize..(from + tasks) as usize],
            false => &self.classes,
        }
    }

    fn grouped(&self, quantum: f64, slots: u32, classes: &Classes<'_>) -> u32 {
        let known: Vec<f64> = self
            .classes
            .iter()
            .filter_map(|id| classes.mean(*id))
            .collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let (count, alone) = (self.count, self.count.max(1));
        if quantum <= 0.0 || mean >= quantum || !self.spec.work.has_session() {
            return count;
        }
        let wanted = (f64::from(alone) * mean / quantum).ceil() as u32;
        wanted.max(slots.saturating_mul(UNITS_PER_SLOT)).min(count)
    }
}
