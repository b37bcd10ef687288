//! A program on a pseudo-terminal, as a person sees it: what stands on its screen, and keys.

use super::{process::PROGRAM, terminal::wait_for};
use nix::{
    pty::{Winsize, openpty},
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, tcgetattr},
    },
    unistd::Pid,
};
use std::{
    fs::File,
    io::{Read, Write},
    num::NonZero,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use vt100::{Color, Parser};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What a program writes on its terminal.
pub(crate) struct Screen {
    program: Child,
    terminal: File,
    keys: File,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    parser: Parser,
    /// All that was written.
    bytes: Vec<u8>,
}

impl Screen {
    /// Starts `rallypoint` on a terminal of this many columns and rows.
    pub(crate) fn start(
        (columns, rows): (u16, u16),
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Screen {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        let (keys, terminal) = (File::from(pty.master), File::from(pty.slave));
        let end = || terminal.try_clone().expect("a copy");
        let program = Command::new(PROGRAM)
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("the program runs");
        let seen = Arc::new(Mutex::new(Seen {
            parser: Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
        }));
        let (mut output, reader) = (keys.try_clone().expect("a copy"), Arc::clone(&seen));
        // Ends with the terminal.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                let mut seen = reader.lock().expect("no panic");
                seen.parser.process(&buffer[..read]);
                seen.bytes.extend_from_slice(&buffer[..read]);
            }
        });
        Screen {
            program,
            terminal,
            keys,
            seen,
        }
    }

    /// The text of the screen.
    pub(crate) fn text(&self) -> String {
        let seen = self.seen.lock().expect("no panic");
        seen.parser.screen().contents()
    }

    /// All that the program has written, control sequences included.
    pub(crate) fn written(&self) -> String {
        let seen = self.seen.lock().expect("no panic");
        String::from_utf8_lossy(&seen.bytes).into_owned()
    }

    /// The program has taken the whole screen.
    pub(crate) fn is_taken(&self) -> bool {
        let seen = self.seen.lock().expect("no panic");
        seen.parser.screen().alternate_screen()
    }

    /// Something on it has a colour.
    pub(crate) fn is_coloured(&self) -> bool {
        let seen = self.seen.lock().expect("no panic");
        let screen = seen.parser.screen();
        let (rows, columns) = screen.size();
        let mut cells =
            (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        cells.any(|(row, column)| {
            let cell = screen.cell(row, column);
            cell.is_some_and(|cell| cell.fgcolor() != Color::Default)
        })
    }

    /// The keyboard is as a shell needs it, and the cursor is seen.
    pub(crate) fn is_given_back(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_flags;
        let seen = self.seen.lock().expect("no panic");
        let screen = seen.parser.screen();
        modes.contains(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG)
            && !screen.alternate_screen()
            && !screen.hide_cursor()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.program.id() as i32), signal).expect("it runs");
    }

    /// Blocks until this stands on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Blocks until the text of the screen is as wanted.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if is_there(&text) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "no {what:?} on\n{text}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Blocks until the program has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_for("the program ends", || {
            ended = self.program.try_wait().expect("a child");
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a screen has cells")
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}
