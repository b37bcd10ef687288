//! The terminal while it is drawn on. However the program ends, it is given back as it was: the
//! rows of before, the cursor, and a keyboard that echoes.

use super::{
    draw::{self, Theme},
    model::Model,
};
use nix::sys::signal::{Signal, raise};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, DisableBracketedPaste, EnableBracketedPaste, Event},
        execute,
        style::force_color_output,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
};
use std::{
    io::{self, BufWriter, Stdout, stdout},
    mem::ManuallyDrop,
    panic,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use tokio::sync::mpsc;

/// Keys that wait to be looked at.
const KEYS: usize = 64;
/// Bytes of a frame that are written at once.
const FRAME: usize = 64 << 10;
/// The screen is drawn on, and has to be given back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

type Drawn = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The screen; dropped, it is given back.
pub(super) struct Screen {
    /// Never dropped: on a terminal that is gone it would complain that it cannot show the cursor.
    terminal: ManuallyDrop<Drawn>,
    theme: Theme,
}

impl Screen {
    pub(super) fn open(theme: Theme) -> io::Result<Screen> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |fault| {
            restore();
            before(fault);
        }));
        // The command line has decided about colours.
        force_color_output(theme == Theme::Coloured);
        IS_TAKEN.store(true, Ordering::Release);
        // Where a part of it fails, the rest is given back.
        taken()
            .map(|terminal| Screen {
                terminal: ManuallyDrop::new(terminal),
                theme,
            })
            .inspect_err(|_| restore())
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size()
    }

    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        if !IS_TAKEN.load(Ordering::Acquire) {
            return Ok(());
        }
        let theme = self.theme;
        self.terminal
            .draw(|frame| draw::draw(frame, model, theme))?;
        Ok(())
    }

    /// Gives the screen back while the program is stopped, and takes it again.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        restore();
        raise(Signal::SIGSTOP)?;
        IS_TAKEN.store(true, Ordering::Release);
        self.terminal = ManuallyDrop::new(taken()?);
        self.clear()
    }

    /// Forgets what is on the screen, so that the next drawing is whole.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }
}

fn taken() -> io::Result<Drawn> {
    terminal::enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
    let output = BufWriter::with_capacity(FRAME, stdout());
    Terminal::new(CrosstermBackend::new(output))
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Once: a panic gives it back before its message, and nothing is drawn over that.
/// The terminal may be gone: then there is nobody who could read on.
fn restore() {
    if !IS_TAKEN.swap(false, Ordering::AcqRel) {
        return;
    }
    execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show).ok();
    terminal::disable_raw_mode().ok();
}

/// What is typed, pasted or resized, until the terminal is gone. The thread that reads it ends with
/// the program.
pub(super) fn input() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    receiver
}
