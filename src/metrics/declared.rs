//! How families are declared: whatever is registered has a name, labels and a help text, and is
//! known by them to the page of metrics and to tests.

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram},
    registry::Registry,
};
use std::sync::atomic::AtomicU64;

/// A distribution.
pub type Histogram = histogram::Histogram;
type Number = Gauge<f64, AtomicU64>;
type Labels = Vec<(&'static str, String)>;

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, from 0 at the start of the process.
    Counter,
    /// It rises and falls.
    Gauge,
    /// A distribution in buckets.
    Histogram,
}

/// A family, as it is described.
#[derive(Clone, Debug)]
pub struct Declared {
    /// As a scrape shows it; a histogram without its suffixes.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: Vec<&'static str>,
    /// What it means.
    pub help: &'static str,
}

/// A counter for each combination of labels.
pub type Count<const N: usize> = Labelled<Counter, N>;
/// A number for each combination of labels.
pub type Level<const N: usize> = Labelled<Number, N>;

/// Metrics of one family that differ by `N` labels.
#[derive(Clone, Debug)]
pub struct Labelled<M, const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, M>,
}

impl<M: Clone + Default, const N: usize> Labelled<M, N> {
    fn labels(&self, values: [&str; N]) -> Labels {
        let names = self.names.into_iter();
        names.zip(values.map(str::to_owned)).collect()
    }

    /// The metric with these values of its labels. Keep it where it is used often.
    pub fn of(&self, values: [&str; N]) -> M {
        self.family.get_or_create_owned(&self.labels(values))
    }
}

impl<const N: usize> Level<N> {
    /// Shows these, and none that was shown before.
    pub fn replace<'a>(&self, all: impl IntoIterator<Item = ([&'a str; N], f64)>) {
        self.family.clear();
        for (values, number) in all {
            self.of(values).set(number);
        }
    }
}

/// Where families are declared.
#[derive(Default)]
pub(super) struct Declarations {
    registry: Registry,
    declared: Vec<Declared>,
}

impl Declarations {
    pub(super) fn into_parts(self) -> (Registry, Vec<Declared>) {
        (self.registry, self.declared)
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Counter {
        self.add(name, Kind::Counter, &[], help, Counter::default())
    }

    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Count<N> {
        let family = self.add(name, Kind::Counter, &names, help, Family::default());
        Labelled { names, family }
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Number {
        self.add(name, Kind::Gauge, &[], help, Number::default())
    }

    pub(super) fn gauges<const N: usize>(
        &mut self,
        name: &'static str,
        names: [&'static str; N],
        help: &'static str,
    ) -> Level<N> {
        let family = self.add(name, Kind::Gauge, &names, help, Family::default());
        Labelled { names, family }
    }

    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        buckets: impl IntoIterator<Item = f64>,
        help: &'static str,
    ) -> Histogram {
        self.add(name, Kind::Histogram, &[], help, Histogram::new(buckets))
    }

    fn add<M>(
        &mut self,
        name: &'static str,
        kind: Kind,
        labels: &[&'static str],
        help: &'static str,
        metric: M,
    ) -> M
    where
        M: EncodeMetric + Clone + std::fmt::Debug + Send + Sync + 'static,
    {
        // The registry adds these ends itself.
        let stem = name.strip_suffix("_total").unwrap_or(name);
        let end = help.strip_suffix('.').unwrap_or(help);
        self.registry.register(stem, end, metric.clone());
        self.declared.push(Declared {
            name,
            kind,
            labels: labels.to_vec(),
            help,
        });
        metric
    }
}
