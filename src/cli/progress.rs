//! Live progress on stderr: a bar per order on a terminal, plain lines elsewhere.
//!
//! Progress is never data: nothing here writes to stdout, and lines that go there pass through
//! `suspended`, so that they do not garble the bars.

use super::{bar_terminal::BarTerminal, enum_text, output};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Duration,
};

/// With more orders, all share one bar.
const MAX_BARS: usize = 10;
/// Of an order that was cancelled or halted before any of its tasks.
const NOT_BEGUN: &str = "not begun";

/// The bars of a run.
pub(super) struct Bars {
    multi: MultiProgress,
    orders: BTreeMap<Option<i64>, Count>,
    bars: BTreeMap<Option<i64>, ProgressBar>,
    all: Option<ProgressBar>,
    /// Of all orders.
    sum: Count,
}

/// Progress of one order.
#[derive(Default)]
struct Count {
    total: u64,
    done: u64,
    not_succeeded: u64,
    /// Those that had an attempt.
    begun: u64,
}

impl Count {
    /// What there is to say of tasks that did not succeed, or did not even begin.
    fn remark(&self) -> Option<String> {
        match (self.not_succeeded, self.begun) {
            (0, _) => None,
            (_, 0) => Some(NOT_BEGUN.to_owned()),
            (bad, _) => Some(format!("{bad} not succeeded")),
        }
    }

    /// The line about an order that has ended, or will do nothing more.
    fn in_words(&self) -> String {
        match self.begun {
            0 => format!("{NOT_BEGUN}, 0 of {} started", self.total),
            _ => format!(
                "{} of {} done, {} not succeeded",
                self.done, self.total, self.not_succeeded
            ),
        }
    }
}

impl Bars {
    /// Bars for these tasks, given by their orders.
    pub(super) fn new(tasks: impl Iterator<Item = Option<i64>>) -> Bars {
        let mut orders: BTreeMap<Option<i64>, Count> = BTreeMap::new();
        for order in tasks {
            orders.entry(order).or_default().total += 1;
        }
        // What is for a program is not drawn over, even on a terminal.
        let is_drawn = !output::is_json() && io::stderr().is_terminal();
        let multi = MultiProgress::with_draw_target(match is_drawn {
            true => ProgressDrawTarget::term_like(Box::new(BarTerminal::stderr())),
            false => ProgressDrawTarget::hidden(),
        });
        let mut bars = Bars {
            multi,
            orders,
            bars: BTreeMap::new(),
            all: None,
            sum: Count::default(),
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

    /// Counts a task that has ended. `begun`: it had an attempt.
    pub(super) fn done(&mut self, order: Option<i64>, good: bool, begun: bool) {
        for count in [self.orders.entry(order).or_default(), &mut self.sum] {
            count.done += 1;
            count.not_succeeded += u64::from(!good);
            count.begun += u64::from(begun);
        }
        let own = self.bars.get(&order).zip(self.orders.get(&order));
        if let Some((bar, count)) = own.or(self.all.as_ref().zip(Some(&self.sum))) {
            bar.inc(1);
            if let Some(remark) = count.remark() {
                bar.set_style(style(false));
                bar.set_message(remark);
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
            output::note(format!("{}: {}", name(order), count.in_words()));
        }
    }

    /// Writes beside the bars, also while they are borrowed elsewhere.
    pub(super) fn console(&self) -> Console {
        Console(self.multi.clone())
    }

    /// Leaves the bars on the screen and prints a closing line.
    pub(super) fn finish(&self, text: impl AsRef<str>) {
        for (order, count) in self.orders.iter().filter(|(_, count)| count.done == 0) {
            if let Some(bar) = self.bars.get(order) {
                bar.set_style(style(false));
                bar.set_message(NOT_BEGUN);
            }
            if self.multi.is_hidden() {
                output::note(format!("{}: {}", name(*order), count.in_words()));
            }
        }
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
                .with_style(style(true))
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

/// `good`: no task has failed.
fn style(good: bool) -> ProgressStyle {
    ProgressStyle::with_template(match good {
        true => "{prefix:>12} {bar:30.cyan/dim} {pos:>5}/{len:<5} {elapsed:>4} {msg:.red}",
        false => "{prefix:>12} {bar:30.red/dim} {pos:>5}/{len:<5} {elapsed:>4} {msg:.red}",
    })
    .map(|style| style.progress_chars("━╸─"))
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_never_began_is_told_from_one_that_failed() {
        let mut bars = Bars::new([Some(1), Some(2), Some(3)].into_iter());
        bars.done(Some(1), false, true);
        bars.done(Some(2), false, false);
        let said: Vec<String> = bars.orders.values().map(Count::in_words).collect();
        let never = "not begun, 0 of 1 started";
        assert_eq!(said, ["1 of 1 done, 1 not succeeded", never, never]);
        let remarks: Vec<_> = bars.orders.values().map(Count::remark).collect();
        let [failed, not_begun] = ["1 not succeeded", "not begun"].map(|it| Some(it.to_owned()));
        assert_eq!(remarks, [failed, not_begun, None]);
        assert_eq!(bars.sum.remark().as_deref(), Some("2 not succeeded"));
    }
}
