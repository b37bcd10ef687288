//! Data on stdout: tables for people or JSON for programs; in colour only on a terminal. Remarks on
//! stderr. Nothing else in `cli` writes there, because `eprintln!` panics when nobody reads it.

use clap::{Args, ValueEnum};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// How to print.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Output {
    /// Print a table or JSON
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Output {
    /// Whether to print JSON.
    pub(super) fn json(self) -> bool {
        self.format == Format::Json
    }
}

/// Writes a line on stdout. Exits quietly when the reader has closed the pipe (`| head`).
pub(super) fn line(text: impl AsRef<str>) {
    if !is_read(text) {
        std::process::exit(0);
    }
}

/// Writes a line on stdout; false: the reader has closed the pipe.
pub(super) fn is_read(text: impl AsRef<str>) -> bool {
    writeln!(io::stdout().lock(), "{}", text.as_ref()).is_ok()
}

/// Writes a line on stderr, for people. Nobody need read it: a closed stderr ends no command.
pub(super) fn note(text: impl AsRef<str>) {
    writeln!(io::stderr().lock(), "{}", text.as_ref()).ok();
}

/// Writes one JSON value as one line.
pub(super) fn json(value: &Value) {
    line(value.to_string());
}

/// Columns of the terminal; `None`: stdout is not a terminal and nothing is cut.
pub(super) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0).max(40))
}

/// The text, cut at the width of the terminal.
pub(super) fn fit(text: &str) -> String {
    width().map_or_else(|| text.to_owned(), |width| cut(text, width))
}

/// The text, cut to at most `width` characters.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Stdout is a terminal and NO_COLOR is not set.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The text in an ANSI style, if colour is used.
pub(super) fn paint(text: &str, style: &str) -> String {
    if colour() {
        format!("\x1b[{style}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// ANSI style of headings.
pub(super) const BOLD: &str = "1";
/// ANSI style of secondary text.
pub(super) const DIM: &str = "2";
/// ANSI style of success.
pub(super) const GREEN: &str = "32";
/// ANSI style of failure.
pub(super) const RED: &str = "31";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_with_an_ellipsis() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
