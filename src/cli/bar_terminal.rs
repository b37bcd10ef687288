//! The terminal on which bars are drawn, which may go away: what is drawn then is drawn for nobody,
//! where the library that draws would panic.

use console::Term;
use indicatif::TermLike;
use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Standard error.
#[derive(Debug)]
pub(super) struct BarTerminal {
    terminal: Term,
    is_gone: AtomicBool,
}

impl BarTerminal {
    pub(super) fn stderr() -> Self {
        BarTerminal {
            terminal: Term::buffered_stderr(),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Draws, unless nobody sees it any more.
    fn draw(&self, draw: impl FnOnce(&Term) -> io::Result<()>) -> io::Result<()> {
        if !self.is_gone.load(Ordering::Relaxed) && draw(&self.terminal).is_err() {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl TermLike for BarTerminal {
    fn width(&self) -> u16 {
        TermLike::width(&self.terminal)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.terminal)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.draw(|terminal| terminal.move_cursor_up(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.draw(|terminal| terminal.move_cursor_down(n))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.draw(|terminal| terminal.move_cursor_right(n))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.draw(|terminal| terminal.move_cursor_left(n))
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.draw(|terminal| terminal.write_line(s))
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.draw(|terminal| terminal.write_str(s))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw(|terminal| terminal.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        self.draw(|terminal| terminal.flush())
    }
}
