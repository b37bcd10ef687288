//! Tasks over time: a band for each order, with a barrier where it has ended and the next one may
//! begin; and a bar for each task.

use super::parts::{Look, leading, plain, quiet, task_state};
use crate::cli::{
    enum_text,
    time_text::micros,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        subject::Subject,
        text::{Kind, Piece, Row, Tone},
        units::{clock, number, span},
    },
};
use rallypoint_client::api::{Outcome, TaskState, TaskView};
use std::collections::BTreeMap;

/// Bands that are drawn: the latest orders.
const BANDS: usize = 5;
/// Cells before a band.
const LABEL: usize = 22;

/// From when to when the picture goes.
pub(super) struct Scale {
    from: i64,
    to: i64,
    now: i64,
}

/// When a task ran, and how that is drawn.
struct Bar {
    from: i64,
    to: i64,
    tone: Tone,
}

impl Scale {
    /// From the first start to the last end; `None`: none of the tasks has started.
    pub(super) fn of(tasks: &[TaskView], now: i64) -> Option<Scale> {
        let bars = || tasks.iter().filter_map(|task| bar(task, now));
        let from = bars().map(|bar| bar.from).min()?;
        let to = bars().map(|bar| bar.to).max()?.max(from + 1);
        Some(Scale { from, to, now })
    }

    /// The cell in which a time falls.
    fn cell(&self, at: i64, cells: usize) -> usize {
        let part = i128::from(at - self.from) * cells as i128 / i128::from(self.to - self.from);
        usize::try_from(part)
            .unwrap_or(0)
            .min(cells.saturating_sub(1))
    }
}

fn bar(task: &TaskView, now: i64) -> Option<Bar> {
    if let Some(done) = task.done.as_ref().filter(|done| done.started_us > 0) {
        let tone = match done.outcome() {
            Outcome::Succeeded => Tone::Good,
            Outcome::Cancelled => Tone::Quiet,
            _ => Tone::Bad,
        };
        let (from, to) = (done.started_us, done.ended_us.max(done.started_us));
        return Some(Bar { from, to, tone });
    }
    let from = micros(task.started_at.as_ref());
    let is_running = task.state() == TaskState::Running && from > 0;
    is_running.then_some(Bar {
        from,
        to: now.max(from),
        tone: Tone::Busy,
    })
}

/// A band for each of the latest orders.
pub(super) fn bands(tasks: &[TaskView], scale: &Scale, look: &Look) -> Vec<Row> {
    // Tasks without an order come last.
    let mut orders: BTreeMap<(bool, i64), Vec<&TaskView>> = BTreeMap::new();
    for task in tasks {
        let order = task.effective_order;
        let key = (order.is_none(), order.unwrap_or_default());
        orders.entry(key).or_default().push(task);
    }
    let cells = look.width.saturating_sub(LABEL).max(10);
    let left_out = orders.len().saturating_sub(BANDS);
    let note = match left_out {
        0 => String::new(),
        some => format!("without {some} earlier orders"),
    };
    let mut rows = vec![Row::head("Time line", &note)];
    for ((unordered, order), tasks) in orders.into_iter().skip(left_out) {
        let name = if unordered {
            "no order".to_owned()
        } else {
            order.to_string()
        };
        let mut pieces = vec![
            plain(format!("{name:>9} ")),
            quiet(format!("{:<width$}", waits(&tasks), width = LABEL - 10)),
        ];
        pieces.extend(band(&tasks, scale, cells, !unordered));
        rows.push(Row {
            kind: Kind::Head,
            ..Row::new(pieces)
        });
    }
    let from = clock(scale.from, scale.now);
    let length = format!("+{}", span(scale.to - scale.from));
    let room = cells.saturating_sub(from.chars().count());
    let axis = format!("{:LABEL$}{from}{length:>room$}", "");
    rows.push(Row {
        kind: Kind::Head,
        ..Row::of(axis, Tone::Quiet)
    });
    rows.push(Row::blank());
    rows
}

/// How many tasks, and how many of them wait.
fn waits(tasks: &[&TaskView]) -> String {
    let waiting = tasks.iter().filter(|task| {
        matches!(
            task.state(),
            TaskState::Blocked | TaskState::Queued | TaskState::Retrying
        )
    });
    match waiting.count() {
        0 => number(tasks.len() as i64),
        some => format!("{}, {some} wait", number(tasks.len() as i64)),
    }
}

/// How many tasks ran in each cell, by the height of its block, in the tone of the worst of them.
fn band(tasks: &[&TaskView], scale: &Scale, cells: usize, has_barrier: bool) -> Vec<Piece> {
    const LEVELS: [&str; 5] = [" ", "▂", "▄", "▆", "█"];
    let (mut counts, mut tones) = (vec![0_usize; cells], vec![Tone::Quiet; cells]);
    let mut end = 0;
    for bar in tasks.iter().filter_map(|task| bar(task, scale.now)) {
        let (first, last) = (scale.cell(bar.from, cells), scale.cell(bar.to, cells));
        for cell in first..=last {
            counts[cell] += 1;
            tones[cell] = worse(tones[cell], bar.tone);
        }
        end = end.max(last);
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let is_over = tasks.iter().all(|task| task.state() == TaskState::Done);
    let barrier = (has_barrier && is_over).then_some(end + 1);
    let cell = |at: usize| match counts[at] {
        0 if barrier == Some(at) => Piece::new("│", Tone::Strong),
        0 => plain(" "),
        count => Piece::new(LEVELS[(count * 4).div_ceil(most).min(4)], tones[at]),
    };
    (0..cells).map(cell).collect()
}

fn worse(one: Tone, other: Tone) -> Tone {
    let rank = |tone| match tone {
        Tone::Bad => 3,
        Tone::Busy => 2,
        Tone::Good => 1,
        _ => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// A row with a bar for each task, by order and start. `is_open`: their scheduler is.
pub(super) fn bars(tasks: &[TaskView], scale: &Scale, is_open: bool, look: &Look) -> Grid<'static> {
    const COLUMNS: &[Column] = &[
        Column::number("task"),
        Column::number("order"),
        column("state"),
        Column::number("lasted"),
        column("from the first start to now"),
    ];
    // What stands before the bar takes so many cells.
    let cells = look.width.saturating_sub(40).max(20);
    let mut sorted: Vec<&TaskView> = tasks.iter().collect();
    sorted.sort_by_key(|task| {
        let order = task.effective_order;
        let start = bar(task, scale.now).map_or(i64::MAX, |bar| bar.from);
        (order.is_none(), order, start)
    });
    let mut grid = Grid::new(COLUMNS);
    for task in sorted {
        let id = task.id.clone().unwrap_or_default();
        let (drawn, lasted) = match bar(task, scale.now) {
            None => (plain(""), String::new()),
            Some(bar) => {
                let first = scale.cell(bar.from, cells);
                let length = scale.cell(bar.to, cells) - first + 1;
                let text = format!("{}{}", " ".repeat(first), "█".repeat(length));
                (Piece::new(text, bar.tone), span(bar.to - bar.from))
            }
        };
        let row = leading(id.seq.to_string(), Place::Task(id.handle, id.seq));
        let cells = vec![
            plain(id.seq.to_string()),
            plain(enum_text::order(task.effective_order)),
            task_state(task),
            plain(lasted),
            drawn,
        ];
        grid.row(row.about(Subject::task(task, is_open)), cells);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{AsyncDone, TaskId};

    fn task(seq: i64, order: i64, from: i64, to: i64, outcome: Outcome) -> TaskView {
        TaskView {
            id: Some(TaskId {
                handle: "h".to_owned(),
                seq,
            }),
            effective_order: Some(order),
            state: TaskState::Done.into(),
            done: Some(AsyncDone {
                started_us: from,
                ended_us: to,
                outcome: outcome.into(),
                ..AsyncDone::default()
            }),
            ..TaskView::default()
        }
    }

    #[test]
    fn a_barrier_stands_where_an_order_has_ended() {
        let tasks = [
            task(1, 100, 1_000_000, 2_000_000, Outcome::Succeeded),
            task(2, 100, 1_000_000, 3_000_000, Outcome::Failed),
            task(3, 200, 4_000_000, 11_000_000, Outcome::Succeeded),
        ];
        let look = Look {
            now: 12_000_000,
            width: LABEL + 20,
            filter: "",
            bars: false,
        };
        let scale = Scale::of(&tasks, look.now).expect("tasks that ran");
        let rows = bands(&tasks, &scale, &look);
        let drawn: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(&drawn[1][..10], "      100 ");
        let band: String = drawn[1].chars().skip(LABEL).collect();
        assert_eq!(band.trim_end(), "███▄▄│");
        assert!(drawn[2].ends_with("██████████████"), "{drawn:?}");
        let failed = rows[1]
            .pieces
            .iter()
            .filter(|piece| piece.tone == Tone::Bad);
        assert_eq!(failed.count(), 5);
    }
}
