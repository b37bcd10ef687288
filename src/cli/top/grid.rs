//! Tables of a view: columns as wide as what is in them, and within the width of the terminal. What
//! does not fit is taken from the columns that may shrink, and then whole columns go, the last one
//! of the least weight first.

use super::{
    filter,
    text::{Kind, Piece, Row, Tone, cut},
};
use unicode_width::UnicodeWidthStr;

/// A column: its title, and how it gives way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    right: bool,
    /// The least width it is cut to; `None`: it is never cut.
    least: Option<usize>,
    /// It gives way before the others.
    first: bool,
    /// It stands only where the table is at least so wide.
    from: usize,
}

/// A column of words or numbers that are never cut.
pub(super) const fn column(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        least: None,
        first: false,
        from: 0,
    }
}

impl Column {
    /// Numbers, to the right.
    pub(super) const fn number(title: &'static str) -> Column {
        Column {
            right: true,
            ..column(title)
        }
    }

    /// Text that is cut where there is no room.
    pub(super) const fn text(title: &'static str, least: usize) -> Column {
        Column {
            least: Some(least),
            ..column(title)
        }
    }

    /// A remark, which gives way before the other columns.
    pub(super) const fn remark(title: &'static str, least: usize) -> Column {
        Column {
            first: true,
            ..Column::text(title, least)
        }
    }

    /// Only on terminals of this width.
    pub(super) const fn wide(self, from: usize) -> Column {
        Column { from, ..self }
    }
}

const GAP: usize = 2;

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

    /// Its head and its rows.
    pub(super) fn laid_out(self, width: usize) -> Vec<Row> {
        let kept: Vec<usize> = (0..self.columns.len())
            .filter(|index| self.columns[*index].from <= width)
            .collect();
        let widths = self.widths(&kept, width);
        let heads = kept.iter().map(|index| {
            let title = self.columns[*index].title.to_uppercase();
            Piece::new(title, Tone::Quiet)
        });
        let head = Row {
            kind: Kind::Head,
            ..Row::new(self.line(&kept, &widths, heads))
        };
        let rows = self.rows.iter().map(|(row, cells)| {
            let cells = kept.iter().map(|index| cells[*index].clone());
            Row {
                pieces: self.line(&kept, &widths, cells),
                ..row.clone()
            }
        });
        std::iter::once(head).chain(rows).collect()
    }

    fn line(
        &self,
        kept: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = Piece>,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for ((cell, width), index) in cells.zip(widths).zip(kept) {
            let text = cut(cell.text(), *width);
            let pad = " ".repeat(width.saturating_sub(text.width()));
            let gap = " ".repeat(GAP);
            let text = match self.columns[*index].right {
                true => format!("{pad}{text}{gap}"),
                false => format!("{text}{pad}{gap}"),
            };
            pieces.push(Piece::new(text, cell.tone));
        }
        pieces
    }

    fn widths(&self, kept: &[usize], width: usize) -> Vec<usize> {
        let widest = |index: &usize| {
            let cells = self.rows.iter().map(|(_, cells)| cells[*index].width());
            cells
                .max()
                .unwrap_or(0)
                .max(self.columns[*index].title.width())
        };
        let mut widths: Vec<usize> = kept.iter().map(widest).collect();
        let room = width.saturating_sub(GAP * kept.len().saturating_sub(1));
        let mut over = widths.iter().sum::<usize>().saturating_sub(room);
        while over > 0 {
            // Remarks give way first, and of the others the widest.
            let shrinks = |at: &usize| {
                self.columns[kept[*at]]
                    .least
                    .is_some_and(|least| widths[*at] > least)
            };
            let key = |at: &usize| (self.columns[kept[*at]].first, widths[*at]);
            let Some(at) = (0..widths.len()).filter(shrinks).max_by_key(key) else {
                break;
            };
            widths[at] -= 1;
            over -= 1;
        }
        widths
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
