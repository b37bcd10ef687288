//! Spans of time as bars of text, one below the other, so that one sees what ran together and what
//! waited.
//!
//! Start and end are rounded alike: spans that do not overlap never share a cell.

use super::{output, time_text};

/// One bar.
pub(super) struct Span {
    /// Text before the bar.
    pub label: String,
    /// Bars of one group share a colour.
    pub group: usize,
    /// Start and end in microseconds, from the left edge.
    pub start_us: i64,
    pub end_us: i64,
    /// Text after the bar.
    pub note: String,
}

/// ANSI colours of the groups.
const COLOURS: [&str; 6] = ["36", "35", "33", "34", "32", "31"];
/// Width when stdout is not a terminal.
const DEFAULT_WIDTH: usize = 100;
/// Wider bars are no easier to read.
const MAX_CELLS: usize = 120;

/// Writes the bars on stdout below a scale from 0 to the last end.
pub(super) fn print(spans: &[Span]) {
    let label = spans
        .iter()
        .map(|span| span.label.chars().count())
        .max()
        .unwrap_or(0);
    let note = spans
        .iter()
        .map(|span| span.note.chars().count())
        .max()
        .unwrap_or(0);
    let cells = output::width()
        .unwrap_or(DEFAULT_WIDTH)
        .saturating_sub(label + note + 4)
        .clamp(10, MAX_CELLS);
    let end_us = spans
        .iter()
        .map(|span| span.end_us)
        .max()
        .unwrap_or(0)
        .max(1);
    let scale = format!("{:label$}  {}", "", scale(end_us, cells));
    output::styled(scale, output::DIM);
    for span in spans {
        let colour = COLOURS[span.group % COLOURS.len()];
        let bar = output::paint(&bar(span, end_us, cells), colour);
        output::verbatim(format!("{:<label$}  {bar}  {}", span.label, span.note));
    }
}

/// The bar, padded to the whole width.
fn bar(span: &Span, end_us: i64, cells: usize) -> String {
    let start = cell(span.start_us, end_us, cells).min(cells - 1);
    let end = cell(span.end_us, end_us, cells).clamp(start + 1, cells);
    format!(
        "{}{}{}",
        " ".repeat(start),
        "█".repeat(end - start),
        " ".repeat(cells - end)
    )
}

fn cell(us: i64, end_us: i64, cells: usize) -> usize {
    (us.max(0) as f64 / end_us as f64 * cells as f64).round() as usize
}

/// The numbers of the ticks at their positions, and the end at the right edge.
fn scale(end_us: i64, cells: usize) -> String {
    let step = step(end_us, cells);
    let end = time_text::duration(end_us);
    let mut line: Vec<char> = vec![' '; cells + end.chars().count()];
    let last = cells.saturating_sub(end.chars().count());
    put(&mut line, last, &end);
    for tick in 0.. {
        let text = number(tick as f64 * step);
        let at = cell((tick as f64 * step * 1e6) as i64, end_us, cells);
        if at + text.chars().count() + 1 > last {
            break;
        }
        put(&mut line, at, &text);
    }
    line.truncate(cells);
    line.into_iter().collect::<String>()
}

/// A round number of seconds between two ticks that leaves room for their numbers.
fn step(end_us: i64, cells: usize) -> f64 {
    let ticks = (cells / 12).max(1) as f64;
    let rough = time_text::seconds(end_us) / ticks;
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|round| round * power >= rough);
    round.unwrap_or(10.0) * power
}

fn number(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn put(line: &mut [char], at: usize, text: &str) {
    for (cell, c) in line.iter_mut().skip(at).zip(text.chars()) {
        *cell = c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_us: i64, end_us: i64) -> Span {
        Span {
            label: String::new(),
            group: 0,
            start_us,
            end_us,
            note: String::new(),
        }
    }

    #[test]
    fn spans_that_do_not_overlap_share_no_cell() {
        let first = bar(&span(0, 1_049), 2_000, 20);
        let second = bar(&span(1_049, 2_000), 2_000, 20);
        assert_eq!(first, format!("{}{}", "█".repeat(10), " ".repeat(10)));
        assert_eq!(second, format!("{}{}", " ".repeat(10), "█".repeat(10)));
    }

    #[test]
    fn an_empty_span_still_has_a_cell() {
        assert_eq!(bar(&span(2_000, 2_000), 2_000, 4), "   █");
        assert_eq!(bar(&span(0, 0), 2_000, 4), "█   ");
    }

    #[test]
    fn the_scale_has_round_ticks_and_the_end() {
        assert_eq!(
            scale(4_150_000, 60),
            "0             1              2             3         4.150 s"
        );
        assert!(scale(13_000, 40).ends_with("0.013 s"));
    }
}
