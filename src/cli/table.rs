//! Tables for people: columns as wide as their widest cell, numbers to the right.
//!
//! Elsewhere than on a terminal nothing is cut. On one that is too narrow, columns go of which
//! others say as much, then texts are cut with an ellipsis, the longest first.

use super::output::{self, DIM};

/// A table under construction.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
struct Column {
    head: &'static str,
    is_right: bool,
    /// A text that says something though it is cut; to so many characters at least.
    shrinks_to: Option<usize>,
    /// It may be left out.
    may_go: bool,
}

/// Space between two columns.
const GAP: &str = "  ";
/// Characters that are left of a text that shrinks.
const LEAST: usize = 8;
/// Of one that is to be read.
const READABLE: usize = 24;

impl Table {
    /// A head may have marks ahead of it: `>` aligns its column to the right; where the terminal is
    /// too narrow, `~` lets it shrink (`~~` only as far as it can be read, as long as others may
    /// go) and `?` lets it go.
    pub(super) fn new(heads: &[&'static str]) -> Table {
        Table {
            columns: heads.iter().map(|head| Column::of(head)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: one cell per head.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows
            .push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// It has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes it on stdout.
    pub(super) fn print(&self) {
        for (index, text) in self.lines(output::width()).into_iter().enumerate() {
            let text = output::fit(&text);
            output::line(if index == 0 {
                output::paint(&text, DIM)
            } else {
                text
            });
        }
    }

    /// `room`: characters of a line; `None`: as many as it takes.
    fn lines(&self, room: Option<usize>) -> Vec<String> {
        let heads = self.columns.iter().map(|column| column.head.to_uppercase());
        let heads: Vec<String> = heads.collect();
        let rows = || [&heads].into_iter().chain(&self.rows);
        let widest = |at: usize| rows().map(|row| row[at].chars().count()).max();
        let mut shown: Vec<(usize, usize)> = (0..heads.len())
            .map(|at| (at, widest(at).unwrap_or(0)))
            .collect();
        if let Some(room) = room {
            self.leave_out(&mut shown, room);
            self.shrink(&mut shown, room);
        }
        rows().map(|row| self.line(row, &shown)).collect()
    }

    /// Takes away columns, the widest first, until the others have room once they have shrunk.
    fn leave_out(&self, shown: &mut Vec<(usize, usize)>, room: usize) {
        let least = |(at, width): &(usize, usize)| match self.columns[*at].shrinks_to {
            Some(least) => (*at, (*width).min(least)),
            None => (*at, *width),
        };
        while total(shown.iter().map(least)) > room {
            let may_go = |(_, (at, _)): &(usize, &(usize, usize))| self.columns[*at].may_go;
            let places = shown.iter().enumerate().filter(may_go);
            let Some((place, _)) = places.max_by_key(|(_, (_, width))| *width) else {
                return;
            };
            shown.remove(place);
        }
    }

    fn shrink(&self, shown: &mut [(usize, usize)], room: usize) {
        while total(shown.iter().copied()) > room {
            let shrinks = |(at, width): &&mut (usize, usize)| {
                self.columns[*at].shrinks_to.is_some() && *width > LEAST
            };
            let texts = shown.iter_mut().filter(shrinks);
            let Some((_, width)) = texts.max_by_key(|(_, width)| *width) else {
                return;
            };
            *width -= 1;
        }
    }

    fn line(&self, row: &[String], shown: &[(usize, usize)]) -> String {
        let cells = shown.iter().map(|(at, width)| {
            let cell = output::cut(&row[*at], *width);
            match self.columns[*at].is_right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

impl Column {
    fn of(head: &'static str) -> Column {
        let mut column = Column {
            head,
            is_right: false,
            shrinks_to: None,
            may_go: false,
        };
        loop {
            match column.head.as_bytes().first() {
                Some(b'>') => column.is_right = true,
                Some(b'~') if column.shrinks_to.is_some() => column.shrinks_to = Some(READABLE),
                Some(b'~') => column.shrinks_to = Some(LEAST),
                Some(b'?') => column.may_go = true,
                _ => return column,
            }
            column.head = &column.head[1..];
        }
    }
}

/// The width of a line of such columns.
fn total(columns: impl ExactSizeIterator<Item = (usize, usize)>) -> usize {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    gaps + columns.map(|(_, width)| width).sum::<usize>()
}

/// The text on one line and without control characters, because it comes from callers and
/// databases.
pub(super) fn plain(text: &str) -> String {
    let spaced: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["name", ">count", "note"]);
        table.row(["a".into(), "7".into(), String::new()]);
        table.row(["longer".into(), "12345".into(), "two\nlines".into()]);
        assert_eq!(
            table.lines(None),
            [
                "NAME    COUNT  NOTE",
                "a           7",
                "longer  12345  two lines"
            ]
        );
    }

    #[test]
    fn a_narrow_terminal_leaves_out_what_may_go_and_cuts_the_longest_text() {
        let mut table = Table::new(&[">no", "?since", "~remark", "~statement"]);
        let long = "r".repeat(60);
        table.row(["1".into(), "yesterday".into(), long, "select 1".into()]);
        let width = |room: Option<usize>| {
            let lines = table.lines(room);
            lines.iter().map(|line| line.chars().count()).max()
        };
        assert_eq!(width(None), Some(2 + 9 + 60 + 9 + 3 * 2));
        assert_eq!(
            table.lines(Some(40)),
            [
                "NO  SINCE      REMARK          STATEMENT",
                " 1  yesterday  rrrrrrrrrrrrr…  select 1"
            ]
        );
        assert_eq!(
            table.lines(Some(30)),
            [
                "NO  REMARK           STATEMENT",
                " 1  rrrrrrrrrrrrrr…  select 1"
            ]
        );
    }

    #[test]
    fn a_text_that_is_to_be_read_has_others_go_first() {
        let lines = |head| {
            let mut table = Table::new(&["?since", head]);
            table.row(["yesterday".into(), "r".repeat(60)]);
            table.lines(Some(30))
        };
        assert_eq!(lines("~remark")[0], "SINCE      REMARK");
        assert_eq!(lines("~~remark")[0], "REMARK");
        assert_eq!(lines("~~remark")[1].chars().count(), 30);
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\tc"), "a [2Jb c");
    }
}
