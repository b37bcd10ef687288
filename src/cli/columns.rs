//! The columns of a table, whoever draws it: as wide as what is in them, and within the width of
//! the terminal. Where there is no room, columns go that may, and then texts shrink.

use super::terminal_text::{cut, width};

/// How soon a column goes in which nothing stands: before anything is cut.
pub(super) const EMPTY: u8 = u8::MAX;
/// Space between two columns.
pub(super) const GAP: usize = 2;

/// A column: its title, and how it gives way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) is_right: bool,
    /// The least width it is cut to; `None`: it is never cut.
    pub(super) least: Option<usize>,
    /// As long as others may go, it is not cut to less than this.
    pub(super) readable: Option<usize>,
    /// How soon it is left out where there is no room, the highest first; 0: never.
    pub(super) goes: u8,
    /// It shrinks before the others.
    pub(super) is_first: bool,
    /// It stands only where the table is at least so wide.
    pub(super) from: usize,
}

/// A column of words or numbers that are never cut.
pub(super) const fn column(title: &'static str) -> Column {
    Column {
        title,
        is_right: false,
        least: None,
        readable: None,
        goes: 0,
        is_first: false,
        from: 0,
    }
}

impl Column {
    /// Numbers, to the right.
    pub(super) const fn number(title: &'static str) -> Column {
        Column {
            is_right: true,
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

    /// A remark, which shrinks before the other columns.
    pub(super) const fn remark(title: &'static str, least: usize) -> Column {
        Column {
            is_first: true,
            ..Column::text(title, least)
        }
    }

    /// Only on terminals of this width.
    pub(super) const fn wide(self, from: usize) -> Column {
        Column { from, ..self }
    }

    /// The text of a cell, cut and padded to this width.
    pub(super) fn cell(&self, text: &str, of_width: usize) -> String {
        let text = cut(text, of_width);
        let pad = " ".repeat(of_width.saturating_sub(width(&text)));
        match self.is_right {
            true => pad + &text,
            false => text + &pad,
        }
    }
}

/// Which columns a line of `room` has, and how wide each is. `widest`: the width that the column at
/// this place would take.
pub(super) fn laid_out(
    columns: &[Column],
    widest: impl Fn(usize) -> usize,
    room: usize,
) -> Vec<(usize, usize)> {
    let kept = (0..columns.len()).filter(|at| columns[*at].from <= room);
    let mut shown: Vec<(usize, usize)> = kept.map(|at| (at, widest(at))).collect();
    leave_out(columns, &mut shown, room);
    shrink(columns, &mut shown, room);
    shown
}

/// Takes away columns, of those that go equally soon the widest first, until the others have room
/// once they have shrunk; empty ones, until they have it as they are.
fn leave_out(columns: &[Column], shown: &mut Vec<(usize, usize)>, room: usize) {
    let least = |(at, width): &(usize, usize)| {
        let Column {
            least, readable, ..
        } = columns[*at];
        readable.or(least).map_or(*width, |least| least.min(*width))
    };
    loop {
        let may_go = |(_, (at, _)): &(usize, &(usize, usize))| columns[*at].goes > 0;
        let places = shown.iter().enumerate().filter(may_go);
        let soonest = places.max_by_key(|(_, (at, width))| (columns[*at].goes, *width));
        let Some((place, (at, _))) = soonest else {
            return;
        };
        let needed = match columns[*at].goes {
            EMPTY => total(shown.iter().map(|(_, width)| *width)),
            _ => total(shown.iter().map(least)),
        };
        if needed <= room {
            return;
        }
        shown.remove(place);
    }
}

/// Cuts texts until all have room: remarks first, and of the others the widest.
fn shrink(columns: &[Column], shown: &mut [(usize, usize)], room: usize) {
    let over = total(shown.iter().map(|(_, width)| *width)).saturating_sub(room);
    for _ in 0..over {
        let shrinks = |(at, width): &&mut (usize, usize)| {
            let least = columns[*at].least;
            least.is_some_and(|least| *width > least)
        };
        let texts = shown.iter_mut().filter(shrinks);
        let Some((_, width)) = texts.max_by_key(|(at, width)| (columns[*at].is_first, *width))
        else {
            return;
        };
        *width -= 1;
    }
}

/// The width of a line of columns that are so wide.
fn total(widths: impl ExactSizeIterator<Item = usize>) -> usize {
    let gaps = GAP * widths.len().saturating_sub(1);
    gaps + widths.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wide_on_the_screen_is_aligned_by_its_width() {
        assert_eq!(column("a").cell("表示", 6), "表示  ");
        assert_eq!(Column::number("a").cell("7", 3), "  7");
        assert_eq!(column("a").cell("表示表示", 6), "表示… ");
    }

    #[test]
    fn remarks_shrink_before_other_texts() {
        let columns = [Column::text("a", 4), Column::remark("b", 4), column("c")];
        let widths = |room| laid_out(&columns, |at| [20, 10, 5][at], room);
        assert_eq!(widths(usize::MAX), [(0, 20), (1, 10), (2, 5)]);
        assert_eq!(widths(36), [(0, 20), (1, 7), (2, 5)]);
        assert_eq!(widths(30), [(0, 17), (1, 4), (2, 5)]);
        assert_eq!(widths(1), [(0, 4), (1, 4), (2, 5)]);
    }
}
