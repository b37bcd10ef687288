//! Text as it reaches the terminal: pieces with a tone, in rows. The only door: what a server says
//! becomes a [`Piece`] here, which has been cleaned.

use super::{place::Place, subject::Subject};
use crate::cli::terminal_text::clean;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text means; the renderer says how that looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Strong,
    Good,
    Bad,
    Busy,
    Waiting,
}

/// Text of one tone, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    text: String,
    pub(super) tone: Tone,
}

impl Piece {
    pub(super) fn new(text: impl AsRef<str>, tone: Tone) -> Piece {
        let text = clean(text.as_ref());
        Piece { text, tone }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn width(&self) -> usize {
        self.text.width()
    }
}

/// How a row takes part in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is read only: the cursor passes over it.
    Head,
    Line,
}

/// A line of a view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) pieces: Vec<Piece>,
    /// By which the cursor finds it again when rows come and go.
    pub(super) key: String,
    /// Where Enter leads.
    pub(super) link: Option<Place>,
    /// What the keys of actions are about.
    pub(super) subject: Option<Subject>,
}

impl Row {
    pub(super) fn new(pieces: Vec<Piece>) -> Row {
        Row {
            kind: Kind::Line,
            pieces,
            key: String::new(),
            link: None,
            subject: None,
        }
    }

    pub(super) fn of(text: impl AsRef<str>, tone: Tone) -> Row {
        Row::new(vec![Piece::new(text, tone)])
    }

    /// The title of a part of a view, with a remark.
    pub(super) fn head(title: &str, note: &str) -> Row {
        let mut pieces = vec![Piece::new(title, Tone::Strong)];
        if !note.is_empty() {
            pieces.push(Piece::new(format!("  {note}"), Tone::Quiet));
        }
        Row {
            kind: Kind::Head,
            ..Row::new(pieces)
        }
    }

    /// What is said where there is nothing to go to.
    pub(super) fn remark(text: &str, width: usize) -> impl Iterator<Item = Row> + use<> {
        let lines = lines(text, width, Tone::Quiet).into_iter();
        lines.map(|line| Row {
            kind: Kind::Head,
            ..line
        })
    }

    pub(super) fn blank() -> Row {
        Row {
            kind: Kind::Head,
            ..Row::new(Vec::new())
        }
    }

    /// A name and what it stands for.
    pub(super) fn fact(name: &str, value: impl AsRef<str>) -> Row {
        Row::new(vec![
            Piece::new(format!("{name:<18} "), Tone::Quiet),
            Piece::new(value, Tone::Plain),
        ])
    }

    pub(super) fn keyed(self, key: impl Into<String>) -> Row {
        Row {
            key: key.into(),
            ..self
        }
    }

    pub(super) fn to(self, place: Place) -> Row {
        Row {
            link: Some(place),
            ..self
        }
    }

    pub(super) fn about(self, subject: Subject) -> Row {
        Row {
            subject: Some(subject),
            ..self
        }
    }

    pub(super) fn text(&self) -> String {
        self.pieces.iter().map(Piece::text).collect()
    }
}

/// Lines of a text, each no wider than `width`.
pub(super) fn lines(text: &str, width: usize, tone: Tone) -> Vec<Row> {
    let expanded = text.replace('\t', "    ");
    let lines = expanded.lines().flat_map(|line| wrapped(line, width));
    lines.map(|line| Row::of(line, tone)).collect()
}

/// The line, broken where it is too wide.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let (mut lines, mut present, mut used) = (Vec::new(), String::new(), 0);
    for character in clean(line).chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > width {
            // A word that fits stays whole.
            let cut = present.rfind(' ').filter(|at| *at > width / 2);
            let rest = cut.map_or_else(String::new, |at| present.split_off(at + 1));
            lines.push(present.trim_end().to_owned());
            used = rest.width();
            present = rest;
        }
        present.push(character);
        used += wide;
    }
    lines.push(present);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_sequence_of_a_server_passes() {
        let sent = "\x1b]0;owned\x07\x1b[2J\u{9b}31mred\r\n\u{202e}gnp.exe\u{7f}";
        let piece = Piece::new(sent, Tone::Plain);
        assert!(!piece.text().chars().any(char::is_control), "{piece:?}");
        assert!(!piece.text().contains('\u{202e}'), "{piece:?}");
        assert!(piece.text().contains("red"), "{piece:?}");
    }

    #[test]
    fn long_lines_are_broken_between_words_where_that_is_possible() {
        let rows = lines("select one from two\nxxxxxxxxxxxxxxxxxxxx", 12, Tone::Plain);
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        assert_eq!(
            texts,
            ["select one", "from two", "xxxxxxxxxxxx", "xxxxxxxx"]
        );
    }
}
