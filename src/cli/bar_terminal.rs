//! The terminal on which bars are drawn, which may go away: what is drawn then is drawn for nobody,
//! where the library that draws would panic.

use console::Term;
use indicatif::TermLike;
use std::io;

/// Standard error.
#[derive(Debug)]
pub(super) struct BarTerminal(Term);

impl BarTerminal {
    pub(super) fn stderr() -> Self {
        BarTerminal(Term::buffered_stderr())
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        TermLike::width(&self.0)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        drawn(self.0.move_cursor_up(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        drawn(self.0.move_cursor_down(n))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        drawn(self.0.move_cursor_right(n))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        drawn(self.0.move_cursor_left(n))
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        drawn(self.0.write_line(s))
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        drawn(self.0.write_str(s))
    }

    fn clear_line(&self) -> io::Result<()> {
        drawn(self.0.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        drawn(self.0.flush())
    }
}

fn drawn(_whether: io::Result<()>) -> io::Result<()> {
    Ok(())
}
