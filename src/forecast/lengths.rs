//! How long tasks last in one run: chance, and what is not known about it.
//!
//! A few ended tasks say little about those to come. So in each run every group of ended tasks is
//! stretched by one factor, as uncertain as its mean is (Student's t: the fewer, the wider), and a
//! class of which nothing has been seen is like one of its relatives, another one in each run.

use super::{
    classes::{ClassId, Classes, Source},
    durations::{FEWEST, Group},
};
use rand::{RngExt, rngs::SmallRng};
use rand_distr::{Distribution, Exp1, StandardNormal, StudentT};

/// No forecast is surer than this: tasks to come are never quite like those of before.
const SUREST: f64 = 0.03;
/// By how much a duration is blurred, of the spread of its group divided by the fifth root of how
/// many there are: longer ones than any so far are to come, too.
const BLUR: f64 = 0.3;
/// More tasks in a row than this are drawn as one sum, by mean and spread.
const DRAWN: u32 = 32;
/// The weight of the tail, where a task has run longer than any before it.
const TAIL: f64 = 2.0;

/// How tasks of each class last in one run.
pub(super) struct Lengths<'a> {
    classes: &'a Classes<'a>,
    /// The factor of each group, once it was drawn.
    factors: Vec<Option<f64>>,
    /// The group of each class, once it was drawn.
    groups: Vec<Option<usize>>,
}

/// How one attempt ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Length {
    pub seconds: f64,
    pub end: End,
}

/// With what an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// In a failure.
    Badly,
    /// Another attempt follows.
    Again,
}

impl<'a> Lengths<'a> {
    pub(super) fn new(classes: &'a Classes<'a>) -> Self {
        Lengths {
            classes,
            factors: vec![None; classes.observations().groups.len()],
            groups: vec![None; classes.sources.len()],
        }
    }

    /// How long a slot takes from one task to the next, in seconds.
    pub(super) fn turnaround(&self) -> f64 {
        self.classes.observations().turnaround
    }

    /// A task that begins; `None`: nobody knows how long it lasts.
    pub(super) fn of_task(&mut self, class: ClassId, rng: &mut SmallRng) -> Option<Length> {
        let (group, factor) = match self.classes.sources[class] {
            Source::Seen { .. } => self.group(class, rng),
            _ => return self.unseen(class, rng),
        };
        let (seconds, failed) = group.ends[rng.random_range(0..group.ends.len())];
        let end = match failed {
            _ if rng.random_bool(group.repeats()) => End::Again,
            true => End::Badly,
            false => End::Well,
        };
        Some(Length {
            seconds: seconds * factor * blur(group, rng),
            end,
        })
    }

    /// A task that begins, of one of these classes.
    pub(super) fn of_one(&mut self, classes: &[ClassId], rng: &mut SmallRng) -> Option<Length> {
        let class = classes[rng.random_range(0..classes.len())];
        self.of_task(class, rng)
    }

    /// What is left of a task that has run for `elapsed` seconds.
    pub(super) fn rest(
        &mut self,
        class: ClassId,
        elapsed: f64,
        rng: &mut SmallRng,
    ) -> Option<Length> {
        let (group, factor) = match self.classes.sources[class] {
            Source::Seen { .. } => self.group(class, rng),
            _ => return self.unseen(class, rng),
        };
        let blur = blur(group, rng);
        let longer: Vec<&(f64, bool)> = group
            .ends
            .iter()
            .filter(|(seconds, _)| seconds * factor * blur > elapsed)
            .collect();
        if longer.is_empty() {
            // The longer it has run, the longer it may still run.
            let chance: f64 = 1.0 - rng.random::<f64>();
            let seconds = elapsed * (chance.powf(-1.0 / TAIL) - 1.0);
            let end = End::Well;
            return Some(Length { seconds, end });
        }
        let (seconds, failed) = longer[rng.random_range(0..longer.len())];
        Some(Length {
            seconds: seconds * factor * blur - elapsed,
            end: if *failed { End::Badly } else { End::Well },
        })
    }

    /// So many tasks one after the other, each of one of these classes.
    pub(super) fn of_row(
        &mut self,
        classes: &[ClassId],
        count: u32,
        rng: &mut SmallRng,
    ) -> Option<Length> {
        let any = |rng: &mut SmallRng| classes[rng.random_range(0..classes.len())];
        if count <= DRAWN {
            let (mut seconds, mut end) = (0.0, End::Well);
            for _ in 0..count {
                let class = any(rng);
                let one = self.of_task(class, rng)?;
                seconds += one.seconds;
                end = if one.end == End::Badly { one.end } else { end };
            }
            return Some(Length { seconds, end });
        }
        let (mut mean, mut square, mut spared) = (0.0, 0.0, 1.0);
        for class in classes {
            let (of_class, spread, failures) = self.moments(*class, rng)?;
            mean += of_class / classes.len() as f64;
            square += (of_class.powi(2) + spread.powi(2)) / classes.len() as f64;
            spared -= failures / classes.len() as f64;
        }
        let variance = (square - mean * mean).max(0.0) * f64::from(count);
        let chance: f64 = StandardNormal.sample(rng);
        let sum = mean * f64::from(count) + chance * variance.sqrt();
        let fails = rng.random::<f64>() > spared.powf(count.into());
        Some(Length {
            seconds: sum.max(mean),
            end: if fails { End::Badly } else { End::Well },
        })
    }

    /// Mean and spread of a class in this run, and the share of its tasks that fail.
    fn moments(&mut self, class: ClassId, rng: &mut SmallRng) -> Option<(f64, f64, f64)> {
        match self.classes.sources[class] {
            Source::Seen { .. } => {
                let (group, factor) = self.group(class, rng);
                let (mean, spread) = (group.mean * factor, group.spread * factor);
                Some((mean, spread, group.failures()))
            }
            Source::Average(mean) => Some((mean, mean, 0.0)),
            Source::AtOnce => Some((0.0, 0.0, 0.0)),
            Source::Unknown => None,
        }
    }

    fn unseen(&self, class: ClassId, rng: &mut SmallRng) -> Option<Length> {
        let seconds = match self.classes.sources[class] {
            Source::Average(mean) => {
                let chance: f64 = Exp1.sample(rng);
                mean * chance
            }
            Source::AtOnce => 0.0,
            Source::Unknown | Source::Seen { .. } => return None,
        };
        let end = End::Well;
        Some(Length { seconds, end })
    }

    /// The group of a class in this run, and its factor.
    fn group(&mut self, class: ClassId, rng: &mut SmallRng) -> (&'a Group, f64) {
        let groups = &self.classes.observations().groups;
        let at = *self.groups[class].get_or_insert_with(|| match self.classes.sources[class] {
            Source::Seen {
                group,
                from_wider: true,
            } => relative(groups, group, rng),
            Source::Seen { group, .. } => group,
            _ => unreachable!("only what was seen has a group"),
        });
        let group = &groups[at];
        let factor = *self.factors[at].get_or_insert_with(|| factor(group, rng));
        (group, factor)
    }
}

/// One of the groups within this one, if enough of it have ended; else this one.
fn relative(groups: &[Group], at: usize, rng: &mut SmallRng) -> usize {
    let group = &groups[at];
    let narrower = group.narrower[rng.random_range(0..group.narrower.len())];
    match groups.get(narrower) {
        Some(relative) if relative.ends.len() >= FEWEST => narrower,
        _ => at,
    }
}

/// By how much the mean of a group may differ from that of the tasks to come.
fn factor(group: &Group, rng: &mut SmallRng) -> f64 {
    let count = group.ends.len() as f64;
    let error = (group.spread / group.mean / count.sqrt()).max(SUREST);
    let chance = StudentT::new(count - 1.0).map_or(0.0, |t| t.sample(rng));
    (chance * error).clamp(-3.0, 3.0).exp()
}

fn blur(group: &Group, rng: &mut SmallRng) -> f64 {
    let width = BLUR * group.log_spread * (group.ends.len() as f64).powf(-0.2);
    let chance: f64 = StandardNormal.sample(rng);
    (chance * width - width * width / 2.0).exp()
}
