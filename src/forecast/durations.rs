//! How long ended tasks have lasted, by what they have in common.

use crate::core::{Delivery, Spec, Work};
use rustc_hash::FxHashMap;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// With fewer nothing is said.
pub(super) const FEWEST: usize = 5;
/// A kind of tasks that has not been seen is like its relatives, if there are so many: fewer do not
/// show by how much relatives differ.
const RELATIVES: usize = 3;

/// One attempt that the log has seen end.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What its task was submitted with.
    pub spec: Arc<Spec>,
    /// What its statement hashes to.
    pub text: u64,
    /// From its start to its end.
    pub lasted: Duration,
    /// It ended in a failure.
    pub failed: bool,
    /// Attempts of its task before it.
    pub earlier: u32,
    /// For how long its slot had run nothing before although it was waiting, as far as that is
    /// known.
    pub gap: Option<Duration>,
}

impl Observation {
    /// Attempts before it that may have failed. What an executor hands back, or loses, is begun
    /// anew without having failed: so at most as many as a task may have.
    fn failed_before(&self) -> u32 {
        let options = &self.spec.options;
        match options.delivery {
            Some(Delivery::AtMostOnce) => 0,
            _ => self.earlier.min(options.retry.max_attempts().max(1) - 1),
        }
    }
}

/// What tasks have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Likeness {
    pub work: Work,
    pub labels: Option<BTreeMap<String, String>>,
    pub text: Option<u64>,
}

/// Ended tasks that are alike.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub likeness: Likeness,
    /// How long each lasted, in seconds, and whether it failed.
    pub ends: Vec<(f64, bool)>,
    /// For each of them the narrower group in which it is, too.
    pub narrower: Vec<usize>,
    /// How many of these there are.
    relatives: usize,
    /// Attempts that were followed by another one.
    repeated: u32,
    pub mean: f64,
    /// Standard deviation.
    pub spread: f64,
    /// Standard deviation of the logarithms.
    pub log_spread: f64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    pub(super) groups: Vec<Group>,
    by_likeness: FxHashMap<Likeness, usize>,
    /// How long a slot takes from the end of a task to the start of the next one, in seconds.
    pub(super) turnaround: f64,
}

impl Observations {
    /// Sorts what was seen by what it has in common.
    pub fn new(seen: impl IntoIterator<Item = Observation>) -> Self {
        let (mut all, mut gaps) = (Observations::default(), Vec::new());
        for one in seen {
            all.add(&one);
            gaps.extend(one.gap);
        }
        // Where it was not its turn the gap is longer: a low quantile has none of that.
        gaps.sort_unstable();
        let low = gaps.get(gaps.len() / 4);
        all.turnaround = low.map_or(0.0, Duration::as_secs_f64);
        all.groups.iter_mut().for_each(Group::sum_up);
        all
    }

    fn add(&mut self, seen: &Observation) {
        let [whole, text, labels, work] = likenesses(&seen.spec, Some(seen.text));
        let whole = self.note(whole, seen, usize::MAX);
        self.note(text, seen, whole);
        let labels = self.note(labels, seen, whole);
        self.note(work, seen, labels);
    }

    fn note(&mut self, likeness: Likeness, seen: &Observation, narrower: usize) -> usize {
        let at = *self
            .by_likeness
            .entry(likeness)
            .or_insert_with_key(|likeness| {
                self.groups.push(Group::new(likeness.clone()));
                self.groups.len() - 1
            });
        let group = &mut self.groups[at];
        let seconds = seen.lasted.as_secs_f64().max(1e-6);
        group.ends.push((seconds, seen.failed));
        group.narrower.push(narrower);
        group.repeated += seen.failed_before();
        at
    }

    /// The narrowest group of tasks like these of which enough have ended, and whether tasks like
    /// these themselves are among the too few or missing ones.
    pub(super) fn of(&self, spec: &Spec, text: Option<u64>) -> Option<(usize, bool)> {
        let known = |likeness: &Likeness| {
            let at = *self.by_likeness.get(likeness)?;
            (self.groups[at].ends.len() >= FEWEST).then_some(at)
        };
        let related = |likeness: &Likeness| {
            known(likeness).filter(|at| self.groups[*at].relatives >= RELATIVES)
        };
        let [whole, same_text, labels, work] = likenesses(spec, text);
        if text.is_some()
            && let Some(at) = known(&whole).or_else(|| known(&same_text))
        {
            return Some((at, false));
        }
        if text.is_none()
            && let Some(at) = known(&labels)
        {
            return Some((at, false));
        }
        let wider = related(&labels).or_else(|| related(&work));
        wider.map(|at| (at, true))
    }

    /// How many tasks on the same target have ended.
    pub(super) fn seen(&self, work: &Work) -> usize {
        let likeness = Likeness {
            work: work.clone(),
            labels: None,
            text: None,
        };
        let at = self.by_likeness.get(&likeness);
        at.map_or(0, |at| self.groups[*at].ends.len())
    }
}

impl Group {
    fn new(likeness: Likeness) -> Self {
        Group {
            likeness,
            ends: Vec::new(),
            narrower: Vec::new(),
            relatives: 0,
            repeated: 0,
            mean: 0.0,
            spread: 0.0,
            log_spread: 0.0,
        }
    }

    fn sum_up(&mut self) {
        self.relatives = self.narrower.iter().collect::<BTreeSet<_>>().len();
        let seconds = || self.ends.iter().map(|(seconds, _)| *seconds);
        let (mean, spread) = moments(seconds());
        let (_, log_spread) = moments(seconds().map(f64::ln));
        (self.mean, self.spread, self.log_spread) = (mean, spread, log_spread);
    }

    /// The longest of them, in seconds.
    pub(super) fn longest(&self) -> f64 {
        let seconds = self.ends.iter().map(|(seconds, _)| *seconds);
        seconds.fold(0.0, f64::max)
    }

    /// The share of its attempts that were followed by another one.
    pub(super) fn repeats(&self) -> f64 {
        let attempts = self.ends.len() as f64 + f64::from(self.repeated);
        f64::from(self.repeated) / attempts
    }

    /// The share of its tasks that failed.
    pub(super) fn failures(&self) -> f64 {
        let failed = self.ends.iter().filter(|(_, failed)| *failed).count();
        failed as f64 / self.ends.len() as f64
    }
}

/// What a task has in common with others, from the most to the least.
fn likenesses(spec: &Spec, text: Option<u64>) -> [Likeness; 4] {
    let labels = Some(&spec.options.labels);
    let all = [(labels, text), (None, text), (labels, None), (None, None)];
    all.map(|(labels, text)| Likeness {
        work: spec.work.clone(),
        labels: labels.cloned(),
        text,
    })
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}
