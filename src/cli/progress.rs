//! Live progress on stderr: a bar per order on a terminal, plain lines elsewhere.
//!
//! Progress is never data: nothing here writes to stdout, and lines that go there pass through
//! `suspended`, so that they do not garble the bars.

use super::{enum_text, output};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, time::Duration};

/// With more orders, all share one bar.
const MAX_BARS: usize = 10;

/// The bars of a run.
pub(super) struct Bars {
    multi: MultiProgress,
    orders: BTreeMap<Option<i64>, Count>,
    bars: BTreeMap<Option<i64>, ProgressBar>,
    all: Option<ProgressBar>,
}

/// Progress of one order.
#[derive(Default)]
struct Count {
    total: u64,
    done: u64,
    not_succeeded: u64,
}

impl Bars {
    /// Bars for these tasks, given by their orders.
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
        if bars.orders.len() <= MAX_BARS {
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

    /// One bar for so many tasks, whose orders are not known.
    pub(super) fn of_all(total: u64) -> Bars {
        let mut bars = Bars::new(std::iter::empty());
        bars.all = Some(bars.bar("all tasks", total));
        bars
    }

    /// Counts a task that has ended.
    pub(super) fn done(&mut self, order: Option<i64>, good: bool) {
        let count = self.orders.entry(order).or_default();
        count.done += 1;
        count.not_succeeded += u64::from(!good);
        if let Some(bar) = self.bars.get(&order).or(self.all.as_ref()) {
            bar.inc(1);
            if count.not_succeeded > 0 {
                bar.set_message(format!("{} not succeeded", count.not_succeeded));
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
            output::note(format!(
                "{}: {} of {} done, {} not succeeded",
                name(order),
                count.done,
                count.total,
                count.not_succeeded
            ));
        }
    }

    /// Writes beside the bars, also while they are borrowed elsewhere.
    pub(super) fn console(&self) -> Console {
        Console(self.multi.clone())
    }

    /// Leaves the bars on the screen and prints a closing line.
    pub(super) fn finish(&self, text: impl AsRef<str>) {
        for bar in self
            .bars
            .values()
            .chain(&self.all)
            .filter(|bar| !bar.is_finished())
        {
            bar.abandon();
        }
        self.console().say(text);
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

/// Writes without garbling the bars.
pub(super) struct Console(MultiProgress);

impl Console {
    /// Prints a line on stderr.
    pub(super) fn say(&self, text: impl AsRef<str>) {
        self.suspended(|| output::note(text));
    }

    /// Runs `write`, which may use stdout, while the bars are hidden.
    pub(super) fn suspended(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

fn name(order: Option<i64>) -> String {
    order.map_or_else(
        || "no order".to_owned(),
        |_| format!("order {}", enum_text::order(order)),
    )
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{prefix:>12} {bar:30.cyan/dim} {pos:>5}/{len:<5} {elapsed:>4} {msg:.red}",
    )
    .map(|style| style.progress_chars("━╸─"))
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}
