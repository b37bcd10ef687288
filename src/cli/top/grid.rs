//! Tables of a view: columns as wide as what is in them, and within the width of the terminal.

use super::{
    filter,
    text::{Kind, Piece, Row, Tone},
};
pub(super) use crate::cli::columns::{Column, column};
use crate::cli::{
    columns::{GAP, laid_out},
    terminal_text::width,
};

/// A table under construction.
pub(super) struct Grid<'a> {
    columns: &'a [Column],
    rows: Vec<(Row, Vec<Piece>)>,
}

impl<'a> Grid<'a> {
    pub(super) fn new(columns: &'a [Column]) -> Grid<'a> {
        Grid {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row: what `row` says of its key, link and subject, and a cell for each column.
    pub(super) fn row(&mut self, row: Row, cells: Vec<Piece>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((row, cells));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves the rows that hold all the words, in columns that are not shown, too.
    pub(super) fn retain(&mut self, words: &[String]) {
        self.rows.retain(|(_, cells)| {
            let cells: Vec<&str> = cells.iter().map(Piece::text).collect();
            filter::admits(words, &cells.join(" "))
        });
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Its head and its rows, in a view of this width.
    pub(super) fn laid_out(self, room: usize) -> Vec<Row> {
        let widest = |at: usize| {
            let cells = self.rows.iter().map(|(_, cells)| cells[at].width());
            cells.max().unwrap_or(0).max(width(self.columns[at].title))
        };
        let shown = laid_out(self.columns, widest, room);
        let heads = shown.iter().map(|(at, _)| {
            let title = self.columns[*at].title.to_uppercase();
            Piece::new(title, Tone::Quiet)
        });
        let head = Row {
            kind: Kind::Head,
            ..Row::new(self.line(&shown, heads))
        };
        let rows = self.rows.iter().map(|(row, cells)| {
            let cells = shown.iter().map(|(at, _)| cells[*at].clone());
            Row {
                pieces: self.line(&shown, cells),
                ..row.clone()
            }
        });
        std::iter::once(head).chain(rows).collect()
    }

    fn line(&self, shown: &[(usize, usize)], cells: impl Iterator<Item = Piece>) -> Vec<Piece> {
        let placed = cells.zip(shown).map(|(cell, (at, width))| {
            let text = self.columns[*at].cell(cell.text(), *width);
            Piece::new(text + &" ".repeat(GAP), cell.tone)
        });
        placed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(width: usize) -> Vec<String> {
        const COLUMNS: &[Column] = &[
            column("name"),
            Column::number("n"),
            Column::text("statement", 6),
            column("more").wide(60),
        ];
        let mut grid = Grid::new(COLUMNS);
        let cells = ["a", "7", "select now() from somewhere", "x"];
        let cells = cells.map(|text| Piece::new(text, Tone::Plain));
        grid.row(Row::blank(), cells.into());
        let rows = grid.laid_out(width);
        rows.iter()
            .map(|row| row.text().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn what_may_shrink_does_where_there_is_no_room() {
        assert_eq!(texts(20), ["NAME  N  STATEMENT", "a     7  select now…"]);
        assert_eq!(texts(60)[1], "a     7  select now() from somewhere  x");
    }
}
