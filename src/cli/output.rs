//! Data on stdout: tables for people or JSON for programs; in colour only on a terminal. Remarks on
//! stderr. Nothing else in `cli` writes there, because `eprintln!` panics when nobody reads it.
//!
//! What people read is cleaned here, wherever it comes from: only [`verbatim`] and [`is_written`]
//! write a text as it is.

use super::{
    error::CliError,
    exit::Exit,
    json,
    terminal_text::{self, clean, cut},
};
use clap::{Args, ColorChoice, ValueEnum};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use prost::{Message, Name};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

/// Between two looks whether anybody reads what is printed.
const CLOSED_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How to print.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print tables for people, or JSON
    #[arg(
        short = 'o',
        long = "output",
        global = true,
        value_enum,
        default_value_t = Format::Table,
        hide_possible_values = true,
        value_name = "table|json"
    )]
    output_format: Format,
    /// The same as --output json
    #[arg(long = "json", global = true)]
    output_json: bool,
    /// Colours: auto means on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = ColorChoice::Auto,
        hide_possible_values = true,
        value_name = "auto|always|never"
    )]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// As the command line says; set once, before anything is printed.
static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Something could not be written on stdout, though nobody has closed it: a disk is full.
static LOST: AtomicBool = AtomicBool::new(false);

impl Output {
    /// Has everything printed so from now on.
    pub(super) fn begin(self) {
        OUTPUT.get_or_init(|| self);
        let bars = self.is_coloured(io::stderr().is_terminal());
        console::set_colors_enabled_stderr(bars);
    }

    /// Has everything printed as JSON, though the command line cannot be read.
    pub(super) fn begin_json() {
        let output = Output {
            output_format: Format::Json,
            output_json: true,
            color: ColorChoice::Auto,
        };
        output.begin();
    }

    /// Whether a command line that is wrong asks for JSON all the same.
    pub(super) fn is_json_wanted(arguments: impl Iterator<Item = String>) -> bool {
        let wanted = ["--json", "-ojson", "-o=json", "--output=json"];
        let mut before = String::new();
        for argument in arguments {
            let named = argument == "json" && ["-o", "--output"].contains(&before.as_str());
            if named || wanted.contains(&argument.as_str()) {
                return true;
            }
            before = argument;
        }
        false
    }

    fn is_json(self) -> bool {
        self.output_json || self.output_format == Format::Json
    }

    fn is_coloured(self, is_terminal: bool) -> bool {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !unwanted,
        }
    }
}

/// Whether to print JSON.
pub(super) fn is_json() -> bool {
    OUTPUT.get().is_some_and(|output| output.is_json())
}

/// Prints an answer of the service: as it is for programs, and as `text` does for people.
pub(super) fn answer<M: Message + Name>(message: &M, text: impl FnOnce(&M)) {
    match is_json() {
        true => verbatim(json::of(message).to_string()),
        false => text(message),
    }
}

/// Prints what a command has found out by itself, in the same way.
pub(super) fn document(value: Value, text: impl AsRef<str>) {
    match is_json() {
        true => verbatim(value.to_string()),
        false => text.as_ref().lines().for_each(line),
    }
}

/// Prints what another program reads, be it in JSON or not: a script, statements.
pub(super) fn script(value: Value, text: impl AsRef<str>) {
    match is_json() {
        true => verbatim(value.to_string()),
        false => verbatim(text),
    }
}

/// Prints the answer of one of several steps, as [`answer`] does. The next step is taken though
/// nobody reads what is printed.
pub(super) fn step<M: Message + Name>(message: &M, lines: impl FnOnce(&M) -> Vec<String>) {
    match is_json() {
        true => {
            is_written(json::of(message).to_string());
        }
        false => lines(message).into_iter().for_each(step_line),
    }
}

/// Writes a line for people on stdout. Exits when nobody gets it: quietly when the reader has
/// closed the pipe (`| head`).
pub(super) fn line(text: impl AsRef<str>) {
    verbatim(clean(text.as_ref()));
}

/// Writes a line in an ANSI style, if colour is used, as [`line`] does.
pub(super) fn styled(text: impl AsRef<str>, style: &str) {
    verbatim(paint(&clean(text.as_ref()), style));
}

/// Writes a text on stdout as it is: for programs, or one in which nothing is left to clean.
pub(super) fn verbatim(text: impl AsRef<str>) {
    if !is_written(text) {
        match is_lost() {
            true => Exit::Failure.now(),
            false => Exit::Success.now(),
        }
    }
}

/// Writes a line for people about one of several steps on stdout. The next step is taken though
/// nobody reads it.
pub(super) fn step_line(text: impl AsRef<str>) {
    is_written(clean(text.as_ref()));
}

/// Writes a text on stdout as it is; false: the reader has closed the pipe, or it is lost, which is
/// said.
pub(super) fn is_written(text: impl AsRef<str>) -> bool {
    let written = writeln!(io::stdout().lock(), "{}", text.as_ref());
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        failed(&CliError::new("cannot write to stdout").why(error));
    }
    written.is_ok()
}

/// What is to be printed now and then, as long as somebody reads it: exits quietly when the reader
/// has closed the pipe, which nothing that is written would tell for a long time.
pub(super) async fn while_read<T>(printing: impl Future<Output = T>) -> T {
    tokio::select! {
        done = printing => done,
        () = closed_pipe() => Exit::Success.now(),
    }
}

async fn closed_pipe() {
    let is_closed = || {
        let stdout = io::stdout();
        let mut looked_at = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        poll(&mut looked_at, PollTimeout::ZERO).is_ok()
            && (looked_at[0].revents()).is_some_and(|seen| seen.contains(PollFlags::POLLERR))
    };
    while !is_closed() {
        sleep(CLOSED_POLL_INTERVAL).await;
    }
}

/// Whether something could not be written on stdout that somebody may miss.
pub(super) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints an error on stderr and returns the exit code.
pub(super) fn failed(error: &CliError) -> ExitCode {
    match is_json() {
        true => fault(error.to_json().to_string()),
        false => error.lines().iter().for_each(remark),
    }
    error.exit().into()
}

/// Says something on stderr, for people; with JSON in an object.
pub(super) fn note(text: impl AsRef<str>) {
    let text = text.as_ref();
    match is_json() {
        true if text.trim().is_empty() => {}
        true => fault(json!({ "note": text }).to_string()),
        false => remark(text),
    }
}

/// Writes lines for people on stderr.
fn remark(text: impl AsRef<str>) {
    let lines: Vec<String> = text.as_ref().split('\n').map(clean).collect();
    fault(lines.join("\n"));
}

/// Writes a text on stderr as it is. Nobody need read it: a closed stderr ends no command.
fn fault(text: impl AsRef<str>) {
    writeln!(io::stderr().lock(), "{}", text.as_ref()).ok();
}

/// Columns of the terminal; `None`: stdout is not a terminal and nothing is cut.
pub(super) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0).max(40))
}

/// The text, cut at the width of the terminal.
pub(super) fn fit(text: &str) -> String {
    width().map_or_else(|| text.to_owned(), |width| cut(text, width))
}

/// Writes a sentence on stdout, broken behind its commas where the terminal is too narrow; what
/// follows is indented by so many characters.
pub(super) fn sentence(text: &str, indent: usize, style: Option<&str>) {
    for part in broken(text, indent, width()) {
        match style {
            Some(style) => styled(part, style),
            None => line(part),
        }
    }
}

/// The text, broken where the terminal is too narrow; what follows is indented by so many
/// characters.
pub(super) fn wrapped(text: &str, indent: usize) -> String {
    broken(text, indent, width()).join("\n")
}

fn broken(text: &str, indent: usize, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else {
        return vec![text.to_owned()];
    };
    let (mut lines, mut present) = (Vec::new(), String::new());
    for part in parts(text, &[", ", "; ", ": "]) {
        // What has no comma for so long is broken between words.
        let is_long = indent + terminal_text::width(part.trim_end()) > room;
        let ends: &[&str] = if is_long { &[" "] } else { &[] };
        for part in parts(part, ends) {
            let end = terminal_text::width(&present) + terminal_text::width(part.trim_end());
            if end > room && !present.trim().is_empty() {
                lines.push(present.trim_end().to_owned());
                present = " ".repeat(indent);
            }
            present += part;
        }
    }
    lines.push(present.trim_end().to_owned());
    lines
}

/// The parts of a text that end so, and the rest.
fn parts<'a>(text: &'a str, ends: &[&str]) -> Vec<&'a str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    for (at, _) in text.char_indices() {
        if ends
            .iter()
            .any(|end| at > from && text[..at].ends_with(end))
        {
            parts.push(&text[from..at]);
            from = at;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Whether stdout is written in colours.
pub(super) fn is_coloured() -> bool {
    let output = OUTPUT.get();
    output.is_some_and(|output| output.is_coloured(io::stdout().is_terminal()))
}

/// The text in an ANSI style, if colour is used.
pub(super) fn paint(text: &str, style: &str) -> String {
    if is_coloured() {
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
    fn a_sentence_is_broken_behind_its_commas_and_else_between_words() {
        let text = "jobs     3; runs: 1 running; next due 2026-11-29 00:00Z";
        assert_eq!(broken(text, 9, None), [text]);
        let expected = [
            "jobs     3; runs: 1 running;",
            "         next due 2026-11-29 00:00Z",
        ];
        assert_eq!(broken(text, 9, Some(40)), expected);
        assert_eq!(broken(text, 9, Some(80)), [text]);
        let long = broken("a very long text without commas", 2, Some(12));
        assert_eq!(long, ["a very long", "  text", "  without", "  commas"]);
    }
}
