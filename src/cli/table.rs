//! Tables for people: columns as wide as their widest cell, numbers to the right, lines cut at the
//! width of the terminal.

use super::output::{self, DIM};

/// A table under construction.
pub(super) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Space between two columns.
const GAP: &str = "  ";

impl Table {
    /// A head that begins with `>` aligns its column to the right.
    pub(super) fn new(heads: &[&'static str]) -> Table {
        Table {
            heads: heads.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: one cell per head.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.heads.len());
        self.rows
            .push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// It has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes it on stdout.
    pub(super) fn print(&self) {
        for (index, text) in self.lines().into_iter().enumerate() {
            let text = output::fit(&text);
            output::line(if index == 0 {
                output::paint(&text, DIM)
            } else {
                text
            });
        }
    }

    fn lines(&self) -> Vec<String> {
        let heads: Vec<String> = self
            .heads
            .iter()
            .map(|head| head.trim_start_matches('>').to_uppercase())
            .collect();
        let widths: Vec<usize> = (0..heads.len())
            .map(|column| {
                self.rows
                    .iter()
                    .chain([&heads])
                    .map(|row| row[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        [&heads]
            .into_iter()
            .chain(&self.rows)
            .map(|row| self.line(row, &widths))
            .collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row
            .iter()
            .zip(widths)
            .zip(&self.heads)
            .map(|((cell, width), head)| match head.starts_with('>') {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
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
            table.lines(),
            [
                "NAME    COUNT  NOTE",
                "a           7",
                "longer  12345  two lines"
            ]
        );
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\tc"), "a [2Jb c");
    }
}
