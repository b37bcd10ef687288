//! What views are made of.

use super::super::{
    grid::Grid,
    place::Place,
    subject::Subject,
    text::{Piece, Row, Tone},
    units::{number, short},
};
use crate::cli::enum_text;
use rallypoint_client::api::{Scheduler, SlotKind, TaskView, slot_kind};

/// How a view is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// Microseconds since 1970.
    pub(crate) now: i64,
    pub(crate) width: usize,
    pub(crate) filter: &'a str,
    /// Tasks as bars, in place of their statements.
    pub(crate) bars: bool,
}

/// A view as rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// The name of what is shown, where that is another one than what the place says.
    pub(crate) title: String,
    /// How many rows a list has; `None`: it is no list.
    pub(crate) count: Option<usize>,
    pub(crate) rows: Vec<Row>,
    /// It is read from its top: the cursor begins there.
    pub(crate) is_text: bool,
    /// What the view as a whole is about.
    pub(crate) subjects: Vec<Subject>,
}

pub(super) fn plain(text: impl AsRef<str>) -> Piece {
    Piece::new(text, Tone::Plain)
}

pub(super) fn quiet(text: impl AsRef<str>) -> Piece {
    Piece::new(text, Tone::Quiet)
}

/// Who has done something, and why, behind what it is: callers of one namespace are not told.
pub(super) fn by_whom(who: &str, why: &str) -> String {
    let part = |before: &str, said: &str| match said {
        "" => String::new(),
        said => format!("{before}{said}"),
    };
    part(" by ", who) + &part(": ", why)
}

/// A dash where there is nothing.
pub(super) fn or_dash(text: impl AsRef<str>) -> Piece {
    match text.as_ref() {
        "" => quiet("-"),
        text => plain(text),
    }
}

/// A count that draws the eye only where it is not 0.
pub(super) fn count(value: i64, tone: Tone) -> Piece {
    match value {
        0 => quiet("0"),
        some => Piece::new(number(some), tone),
    }
}

/// A state in its tone.
pub(super) fn badge(word: &str) -> Piece {
    Piece::new(word, tone(word))
}

/// What a word means.
pub(super) fn tone(word: &str) -> Tone {
    match word {
        "succeeded" | "there" => Tone::Good,
        "failed" | "timed out" | "exhausted" | "lost" | "missed" | "halted" | "away" => Tone::Bad,
        "open" | "running" | "connecting" | "held" | "owner" => Tone::Busy,
        "blocked" | "retrying" | "paused" | "waiting" | "queued" | "releasing" => Tone::Waiting,
        _ => Tone::Plain,
    }
}

/// The last words of the name of an enumeration's value: TASK_STATE_QUEUED is "queued".
pub(super) fn word(name: &str, prefix: &str) -> String {
    match enum_text::in_words(name, prefix).trim_start() {
        "unspecified" => String::new(),
        word => word.to_owned(),
    }
}

/// The state of a task, or how it ended.
pub(super) fn task_state(task: &TaskView) -> Piece {
    badge(enum_text::state(task))
}

/// What a scheduler is called: by the name that finds it, else as its caller describes it, else by
/// the end of its handle.
pub(super) fn name_of(one: &Scheduler) -> String {
    let display = one.settings.as_ref().map(|set| set.display_name.as_str());
    match (one.name.as_str(), display.unwrap_or_default()) {
        ("", "") => short(&one.handle),
        ("", display) => display.to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// State, pause and halt of a scheduler.
pub(super) fn scheduler_state(one: &Scheduler) -> Piece {
    badge(enum_text::scheduler(one))
}

/// The target of slots.
pub(super) fn kind_name(kind: Option<&SlotKind>) -> String {
    match kind.and_then(|kind| kind.kind.as_ref()) {
        Some(slot_kind::Kind::SqlTarget(target)) => target.clone(),
        Some(slot_kind::Kind::Noop(())) => "no-op".to_owned(),
        None => "?".to_owned(),
    }
}

/// A cell of a bar.
pub(super) const FULL: &str = "█";

/// Parts of a whole as cells, each with its tone and its sign; what is left is empty.
pub(super) fn bar(parts: &[(i64, Tone, &str)], whole: i64, cells: usize) -> Vec<Piece> {
    let whole = whole.max(parts.iter().map(|(part, ..)| part).sum()).max(1);
    let (mut pieces, mut used, mut sum) = (Vec::new(), 0, 0);
    for (part, tone, cell) in parts {
        sum += part;
        // Rounded at the ends, so that the parts together are as long as their sum.
        let until = (sum as i128 * cells as i128 / i128::from(whole)) as usize;
        let until = until.max(used + usize::from(*part > 0)).min(cells);
        pieces.push(Piece::new(cell.repeat(until - used), *tone));
        used = until;
    }
    pieces.push(quiet("░".repeat(cells - used)));
    pieces
}

/// The tasks of a scheduler as a bar: ended, running, waiting for another attempt.
pub(super) fn progress(one: &Scheduler, cells: usize) -> Vec<Piece> {
    let parts = [
        (one.done, Tone::Good, FULL),
        (one.running, Tone::Busy, "▓"),
        (one.retrying, Tone::Waiting, "▒"),
    ];
    bar(&parts, one.submitted, cells)
}

/// A line through values, oldest first: a cell each, the newest that fit.
pub(super) fn spark(values: &[f64], cells: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(cells)..];
    let top = shown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let level = |value: &f64| LEVELS[((value / top * 7.0).round() as usize).min(7)];
    shown.iter().map(level).collect()
}

/// A table below its title; `nothing` where it has no rows.
pub(super) fn section(
    title: &str,
    note: &str,
    grid: Grid<'_>,
    nothing: &str,
    look: &Look,
) -> Vec<Row> {
    let mut rows = vec![Row::head(title, note)];
    match grid.is_empty() {
        true => rows.extend(Row::remark(nothing, look.width)),
        false => rows.extend(grid.laid_out(look.width)),
    }
    rows.push(Row::blank());
    rows
}

/// A list that is a whole view: the rows that hold the words of the filter. `nothing` where none
/// was read, with what to do.
pub(super) fn list(mut grid: Grid<'_>, words: &[String], nothing: &[&str], look: &Look) -> Page {
    let nothing: &[&str] = match (grid.is_empty(), look.filter) {
        (true, "") => nothing,
        (true, _) => &["Nothing is like this. Esc shows all."],
        (false, _) => &["Nothing is like this among the rows read. Esc shows all."],
    };
    grid.retain(words);
    let (count, rows) = (
        Some(grid.len()),
        match grid.is_empty() {
            true => {
                let remark = |line: &&str| Row::remark(line, look.width);
                nothing.iter().flat_map(remark).collect()
            }
            false => grid.laid_out(look.width),
        },
    );
    Page {
        count,
        rows,
        ..Page::default()
    }
}

/// Names with what they stand for, without those that stand for nothing.
pub(super) fn facts<const N: usize>(pairs: [(&str, String); N]) -> impl Iterator<Item = Row> {
    let some = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    some.map(|(name, value)| Row::fact(name, value))
}

/// A row that leads somewhere, under its key.
pub(super) fn leading(key: impl Into<String>, place: Place) -> Row {
    Row::new(Vec::new()).keyed(key).to(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: Vec<Piece>) -> String {
        pieces.iter().map(Piece::text).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_parts() {
        let parts = [(5, Tone::Good, FULL), (1, Tone::Busy, "▓")];
        assert_eq!(text(bar(&parts, 10, 10)), "█████▓░░░░");
        // A single one of many is seen.
        assert_eq!(text(bar(&[(1, Tone::Busy, FULL)], 1000, 5)), "█░░░░");
        assert_eq!(text(bar(&[(12, Tone::Busy, FULL)], 10, 4)), "████");
        assert_eq!(text(bar(&[(0, Tone::Busy, FULL)], 0, 3)), "░░░");
    }

    #[test]
    fn a_line_through_values_shows_the_newest() {
        assert_eq!(spark(&[9.0, 0.0, 5.0, 10.0], 3), "▁▅█");
        assert_eq!(spark(&[0.0, 0.0], 3), "▁▁");
    }
}
