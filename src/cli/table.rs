//! Tables for people: columns as wide as their widest cell, numbers to the right.
//!
//! Elsewhere than on a terminal nothing is cut. On one that is too narrow, columns go of which
//! others say as much, empty ones first, then texts are cut with an ellipsis, the longest first.

use super::{
    columns::{Column, EMPTY, GAP, column, laid_out},
    output::{self, DIM},
    terminal_text::{plain, width},
};

/// A table under construction.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// Characters that are left of a text that shrinks.
const LEAST: usize = 8;
/// Of one that is to be read.
const READABLE: usize = 24;

impl Table {
    /// A head may have marks ahead of it: `>` aligns its column to the right; where the terminal is
    /// too narrow, `~` lets it shrink (`~~` only as far as it can be read, as long as others may
    /// go) and `?` lets it go, `??` before that.
    pub(super) fn new(heads: &[&'static str]) -> Table {
        Table {
            columns: heads.iter().map(|head| marked(head)).collect(),
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
            match index {
                0 => output::styled(text, DIM),
                _ => output::line(text),
            }
        }
    }

    /// `room`: columns of a line; `None`: as many as it takes.
    pub(super) fn lines(&self, room: Option<usize>) -> Vec<String> {
        let heads = self.columns.iter().map(|one| one.title.to_uppercase());
        let heads: Vec<String> = heads.collect();
        let rows = || [&heads].into_iter().chain(&self.rows);
        let widest = |at: usize| rows().map(|row| width(&row[at])).max().unwrap_or(0);
        let mut columns = self.columns.clone();
        for (at, column) in columns.iter_mut().enumerate() {
            if column.goes > 0 && self.rows.iter().all(|row| row[at].is_empty()) {
                column.goes = EMPTY;
            }
        }
        let shown = laid_out(&columns, widest, room.unwrap_or(usize::MAX));
        rows().map(|row| self.line(row, &shown)).collect()
    }

    fn line(&self, row: &[String], shown: &[(usize, usize)]) -> String {
        let cells = shown
            .iter()
            .map(|(at, width)| self.columns[*at].cell(&row[*at], *width));
        let line = cells.collect::<Vec<_>>().join(" ".repeat(GAP).as_str());
        line.trim_end().to_owned()
    }
}

/// The column of a head with marks.
fn marked(head: &'static str) -> Column {
    let mut column = column(head);
    loop {
        match column.title.as_bytes().first() {
            Some(b'>') => column.is_right = true,
            Some(b'~') if column.least.is_some() => column.readable = Some(READABLE),
            Some(b'~') => column.least = Some(LEAST),
            Some(b'?') => column.goes += 1,
            _ => return column,
        }
        column.title = &column.title[1..];
    }
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
    fn what_is_empty_goes_first_and_then_what_has_most_marks() {
        let mut table = Table::new(&["?time", "??count", "??empty", "???note"]);
        let cells = ["12:00", "1234567890", "", "none"];
        table.row(cells.map(str::to_owned));
        for (room, heads) in [
            (30, "TIME COUNT EMPTY NOTE"),
            (29, "TIME COUNT NOTE"),
            (22, "TIME COUNT"),
            (16, "TIME"),
        ] {
            let head = table.lines(Some(room)).swap_remove(0);
            let shown: Vec<_> = head.split_whitespace().collect();
            assert_eq!(shown.join(" "), heads);
        }
    }

    #[test]
    fn what_is_empty_goes_before_a_text_is_cut() {
        let mut table = Table::new(&["~remark", "?empty", "?since"]);
        table.row(["r".repeat(20), String::new(), "12:00".to_owned()]);
        for (room, heads, remark) in [
            (34, "REMARK EMPTY SINCE", 20),
            (33, "REMARK SINCE", 20),
            (26, "REMARK SINCE", 19),
        ] {
            let lines = table.lines(Some(room));
            let shown: Vec<_> = lines[0].split_whitespace().collect();
            assert_eq!(shown.join(" "), heads);
            let shown = lines[1].split_whitespace().next();
            assert_eq!(shown.map(width), Some(remark));
        }
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
    fn what_is_wide_on_the_screen_keeps_the_columns_below_each_other() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(["表示".into(), "7".into()]);
        table.row(["a".into(), "12".into()]);
        assert_eq!(
            table.lines(None),
            ["NAME  COUNT", "表示      7", "a        12"]
        );
    }

    #[test]
    fn a_cell_cannot_turn_the_line_around() {
        let mut table = Table::new(&["statement"]);
        table.row(["drop \u{202e}elbat".into()]);
        assert_eq!(table.lines(None)[1], "drop \u{fffd}elbat");
    }
}
