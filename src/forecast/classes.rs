//! The classes of tasks in a forecast: what each takes its durations from.

use super::durations::Observations;
use crate::core::{Handle, SchedulerSnapshot, Spec, Work};
use std::collections::{BTreeMap, BTreeSet};

/// Index of a class.
pub(super) type ClassId = usize;

/// What a class takes its durations from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// This group of ended tasks. `from_wider`: tasks of the class itself have not been seen, so it
    /// is like one of those in the group, and nobody knows which.
    Seen { group: usize, from_wider: bool },
    /// How long they last on average, in seconds.
    Average(f64),
    /// They end when they start.
    AtOnce,
    /// Nothing is known.
    Unknown,
}

/// All classes.
#[derive(Debug)]
pub(super) struct Classes<'a> {
    seen: &'a Observations,
    pub sources: Vec<Source>,
    /// Of tasks of the scheduler asked about, by labels and statement.
    known: BTreeMap<(Work, BTreeMap<String, String>, Option<u64>), ClassId>,
    /// Other schedulers of which no task has ended: they are taken to be like the one asked about.
    pub guessed: BTreeSet<Handle>,
}

impl<'a> Classes<'a> {
    pub(super) fn new(seen: &'a Observations) -> Self {
        Classes {
            seen,
            sources: Vec::new(),
            known: BTreeMap::new(),
            guessed: BTreeSet::new(),
        }
    }

    /// The class of a task of the scheduler asked about.
    pub(super) fn own(&mut self, spec: &Spec, text: Option<u64>) -> ClassId {
        let key = (spec.work.clone(), spec.options.labels.clone(), text);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let source = match self.seen.of(spec, text) {
            _ if !spec.work.has_session() => Source::AtOnce,
            Some((group, from_wider)) => Source::Seen { group, from_wider },
            None => Source::Unknown,
        };
        let id = self.add(source);
        self.known.insert(key, id);
        id
    }

    /// The class of a task of another scheduler. The log tells of those that are alike only within
    /// a namespace; of others it is known how long they last on average, if any has ended.
    pub(super) fn other(
        &mut self,
        spec: &Spec,
        other: &SchedulerSnapshot,
        same_namespace: bool,
    ) -> ClassId {
        let seen = same_namespace.then(|| self.seen.of(spec, None)).flatten();
        let usual = other.usual.iter().find(|(work, _)| *work == spec.work);
        let source = match (seen, usual) {
            _ if !spec.work.has_session() => Source::AtOnce,
            (Some((group, from_wider)), _) => Source::Seen { group, from_wider },
            (None, Some((_, usual))) => Source::Average(usual.as_secs_f64()),
            (None, None) => {
                self.guessed.insert(other.image.handle);
                self.own_mean(&spec.work)
                    .map_or(Source::Unknown, Source::Average)
            }
        };
        self.add(source)
    }

    /// How long tasks of the scheduler asked about last on a target, in seconds.
    fn own_mean(&self, work: &Work) -> Option<f64> {
        let own = self.known.iter().filter(|((of, ..), _)| of == work);
        let means: Vec<f64> = own.filter_map(|(_, id)| self.mean(*id)).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// A task of a class has run for so many seconds. One that has outlasted all of those it is
    /// taken to be like is not like them, so nobody knows how long the class lasts.
    pub(super) fn learn(&mut self, class: ClassId, elapsed: f64) {
        if let Source::Seen {
            group,
            from_wider: true,
        } = self.sources[class]
            && self.seen.groups[group].longest() < elapsed
        {
            self.sources[class] = Source::Unknown;
        }
    }

    fn add(&mut self, source: Source) -> ClassId {
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// How long a task of a class lasts on average, in seconds; `None`: nobody knows.
    pub(super) fn mean(&self, class: ClassId) -> Option<f64> {
        match &self.sources[class] {
            Source::Seen { group, .. } => Some(self.seen.groups[*group].mean),
            Source::Average(mean) => Some(*mean),
            Source::AtOnce => Some(0.0),
            Source::Unknown => None,
        }
    }

    /// Where tasks run of which nobody knows how long they last, and their labels.
    pub(super) fn unknown(&self) -> impl Iterator<Item = (&Work, &BTreeMap<String, String>)> {
        let unknown = |id: &ClassId| self.sources[*id] == Source::Unknown;
        let known = self.known.iter().filter(move |(_, id)| unknown(id));
        known.map(|((work, labels, _), _)| (work, labels))
    }

    pub(super) fn observations(&self) -> &'a Observations {
        self.seen
    }
}
