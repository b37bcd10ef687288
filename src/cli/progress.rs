//! Live progress on stderr: a bar per order on a terminal, plain lines elsewhere.
//!
//! Progress is never data: nothing here writes on stdout, and lines that go there pass through
//! `aside`, so that they do not run into the bars.

use super::labels;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, time::Duration};

/// More orders than this share one bar.
const MOST_BARS: usize = 10;

/// The bars of a run.
pub(super) struct Bars {
    multi: MultiProgress,
    orders: BTreeMap<Option<i64>, Count>,
    bars: BTreeMap<Option<i64>, ProgressBar>,
    all: Option<ProgressBar>,
}

/// How far one order is.
#[derive(Default)]
struct Count {
    total: u64,
    done: u64,
    bad: u64,
}

impl Bars {
    /// A bar for each of these orders (one item per task).
    pub(super) fn new(tasks: impl Iterator<Item = Option<i64>>) -> Bars {
        let mut orders: BTreeMap<Option<i64>, Count> = BTreeMap::new();
        for order in tasks {
            orders.entry(order).or_default().total += 1;
        }
        let mut bars = Bars {
            multi: MultiProgress::new(),
            orders,
            bars: BTreeMap::new(),
            all: None,
        };
        if bars.orders.len() <= MOST_BARS {
            bars.bars = bars
                .orders
                .iter()
                .map(|(order, count)| (*order, bars.bar(&name(*order), count.total)))
                .collect();
        } else {
            bars.all = Some(bars.bar(
                "all orders",
                bars.orders.values().map(|count| count.total).sum(),
            ));
        }
        bars
    }

    /// A task has ended.
    pub(super) fn done(&mut self, order: Option<i64>, good: bool) {
        let count = self.orders.entry(order).or_default();
        count.done += 1;
        count.bad += u64::from(!good);
        if let Some(bar) = self.bars.get(&order).or(self.all.as_ref()) {
            bar.inc(1);
            if count.bad > 0 {
                bar.set_message(format!("{} not succeeded", count.bad));
            }
        }
        let Some(count) = self
            .orders
            .get(&order)
            .filter(|count| count.done == count.total)
        else {
            return;
        };
        if let Some(bar) = self.bars.get(&order) {
            bar.abandon();
        }
        if self.multi.is_hidden() {
            eprintln!(
                "{}: {} of {} done, {} not succeeded",
                name(order),
                count.done,
                count.total,
                count.bad
            );
        }
    }

    /// What speaks beside the bars, also while they are in other hands.
    pub(super) fn voice(&self) -> Voice {
        Voice(self.multi.clone())
    }

    /// Leaves the bars as they are and says how it ended.
    pub(super) fn finish(&self, text: impl AsRef<str>) {
        for bar in self
            .bars
            .values()
            .chain(&self.all)
            .filter(|bar| !bar.is_finished())
        {
            bar.abandon();
        }
        self.voice().say(text);
    }

    fn bar(&self, name: &str, total: u64) -> ProgressBar {
        let bar = self.multi.add(
            ProgressBar::new(total)
                .with_style(style())
                .with_prefix(name.to_owned()),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// Writes without running into the bars.
pub(super) struct Voice(MultiProgress);

impl Voice {
    /// Says something on stderr.
    pub(super) fn say(&self, text: impl AsRef<str>) {
        self.aside(|| eprintln!("{}", text.as_ref()));
    }

    /// Writes, on stdout too, while the bars stand aside.
    pub(super) fn aside(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

fn name(order: Option<i64>) -> String {
    order.map_or_else(
        || "no order".to_owned(),
        |_| format!("order {}", labels::order(order)),
    )
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{prefix:>12} {bar:30.cyan/dim} {pos:>5}/{len:<5} {elapsed:>4} {msg:.red}",
    )
    .map(|style| style.progress_chars("━╸─"))
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}
