//! A place one is at, or comes back to: what was read there, the filter, and where the cursor is.

use super::{
    content::Page,
    place::Place,
    seen::Seen,
    text::{Kind, Row},
};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) place: Place,
    pub(super) seen: Option<Arc<Seen>>,
    /// Why nothing can be shown.
    pub(super) fault: Option<String>,
    pub(super) filter: String,
    /// Where the page shown begins, and those before it.
    pub(super) pages: Vec<String>,
    /// What is shown is not yet what was asked for: another page, filter, or what an action has
    /// changed.
    pub(super) is_awaited: bool,
    /// Tasks as bars.
    pub(super) bars: bool,
    /// The first row on the screen.
    pub(super) top: usize,
    cursor: Option<Cursor>,
}

/// A row, by its key where it has one, else by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    key: String,
    index: usize,
}

impl Cursor {
    /// The row of its key.
    fn found(&self, page: &Page) -> Option<usize> {
        let mut rows = page.rows.iter();
        let found = rows.position(|row| row.key == self.key);
        found.filter(|_| !self.key.is_empty())
    }
}

impl Visit {
    pub(super) fn new(place: Place) -> Visit {
        Visit {
            place,
            seen: None,
            fault: None,
            filter: String::new(),
            pages: Vec::new(),
            is_awaited: false,
            bars: false,
            top: 0,
            cursor: None,
        }
    }

    /// Where the cursor is: on the row of its key, else nearby; on the first row that leads
    /// somewhere before it was moved.
    pub(super) fn cursor(&self, page: &Page) -> Option<usize> {
        let rows = &page.rows;
        let Some(cursor) = &self.cursor else {
            let leads = |row: &Row| row.link.is_some() || row.subject.is_some();
            let first = rows.iter().position(|row| is_line(row) && leads(row));
            let first = first.filter(|_| !page.is_text);
            return first.or_else(|| rows.iter().position(is_line));
        };
        cursor.found(page).or_else(|| {
            let at = cursor.index.min(rows.len());
            let before = rows[..at].iter().rposition(is_line);
            rows[at..]
                .iter()
                .position(is_line)
                .map(|more| at + more)
                .or(before)
        })
    }

    /// Whether the row that the cursor was moved to is not there any more. What is under the cursor
    /// now may have got there just before a key: that is not meant by it.
    pub(super) fn has_lost_its_row(&self, page: &Page) -> bool {
        let keyed = self.cursor.as_ref().filter(|cursor| !cursor.key.is_empty());
        keyed.is_some_and(|cursor| cursor.found(page).is_none())
    }

    /// The row under the cursor.
    pub(super) fn row<'a>(&self, page: &'a Page) -> Option<&'a Row> {
        page.rows.get(self.cursor(page)?)
    }

    /// Moves the cursor by so many lines.
    pub(super) fn walk(&mut self, page: &Page, by: isize) {
        let lines = lines(page);
        let at = self
            .cursor(page)
            .and_then(|at| lines.iter().position(|line| *line == at));
        let next = at.unwrap_or(0).saturating_add_signed(by);
        if let Some(index) = lines.get(next.min(lines.len().saturating_sub(1))) {
            let key = page.rows[*index].key.clone();
            self.cursor = Some(Cursor { key, index: *index });
        }
    }

    /// From now on the row that is under the cursor is meant.
    pub(super) fn settle(&mut self, page: &Page) {
        self.cursor = self.cursor(page).map(|index| Cursor {
            key: page.rows[index].key.clone(),
            index,
        });
    }

    /// Puts the cursor where it was at first.
    pub(super) fn rewind(&mut self) {
        self.cursor = None;
        self.top = 0;
    }

    /// Scrolls so far that the cursor is on the screen; at the ends, as far as it goes.
    pub(super) fn scroll(&mut self, page: &Page, height: usize) {
        let lines = lines(page);
        let last = page.rows.len().saturating_sub(height);
        let Some(at) = self.cursor(page) else {
            self.top = 0;
            return;
        };
        self.top = match () {
            () if Some(&at) == lines.first() && at < height => 0,
            () if Some(&at) == lines.last() => last,
            () => self
                .top
                .min(at)
                .max((at + 1).saturating_sub(height))
                .min(last),
        };
    }
}

fn is_line(row: &Row) -> bool {
    row.kind == Kind::Line
}

/// The rows that the cursor can be on.
fn lines(page: &Page) -> Vec<usize> {
    let rows = page.rows.iter().enumerate();
    rows.filter(|(_, row)| is_line(row))
        .map(|(index, _)| index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::text::Tone;

    fn page(keys: &[&str]) -> Page {
        let row = |key: &&str| Row::of(*key, Tone::Plain).keyed(*key).to(Place::Jobs);
        Page {
            rows: [Row::head("title", "")]
                .into_iter()
                .chain(keys.iter().map(row))
                .collect(),
            ..Page::default()
        }
    }

    #[test]
    fn the_cursor_stays_on_its_row_when_others_come_and_go() {
        let mut visit = Visit::new(Place::Schedulers);
        assert_eq!(visit.cursor(&page(&["a", "b"])), Some(1));
        visit.walk(&page(&["a", "b", "c"]), 1);
        assert_eq!(visit.cursor(&page(&["new", "a", "b", "c"])), Some(3));
        assert_eq!(visit.cursor(&page(&["x", "y"])), Some(2));
        assert_eq!(visit.cursor(&page(&["x"])), Some(1));
        assert_eq!(visit.cursor(&page(&[])), None);
    }

    #[test]
    fn the_cursor_has_lost_its_row_until_it_is_put_on_another() {
        let mut visit = Visit::new(Place::Schedulers);
        assert!(!visit.has_lost_its_row(&page(&["a", "b"])));
        visit.walk(&page(&["a", "b"]), 1);
        assert!(!visit.has_lost_its_row(&page(&["b"])));
        assert!(visit.has_lost_its_row(&page(&["a"])));
        assert!(visit.has_lost_its_row(&page(&[])));
        visit.settle(&page(&["a"]));
        assert!(!visit.has_lost_its_row(&page(&["a"])));
        visit.settle(&page(&[]));
        assert!(!visit.has_lost_its_row(&page(&[])));
    }

    #[test]
    fn what_is_beside_the_first_and_the_last_row_can_be_seen() {
        let mut visit = Visit::new(Place::Schedulers);
        let mut page = page(&["a", "b", "c", "d"]);
        page.rows.push(Row::blank());
        visit.walk(&page, 3);
        visit.scroll(&page, 3);
        assert_eq!(visit.top, 3);
        visit.walk(&page, -2);
        visit.scroll(&page, 3);
        assert_eq!(visit.top, 2);
        visit.walk(&page, -9);
        visit.scroll(&page, 3);
        assert_eq!(visit.top, 0);
    }
}
