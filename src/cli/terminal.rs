//! The terminal that a command uses. While this program is in its foreground the command is, too,
//! with its own process group: keys such as Ctrl-C and Ctrl-Z mean the command, and it may read.

use nix::{
    sys::signal::{SigSet, Signal},
    unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp},
};
use std::{
    fs::{File, OpenOptions},
    io::{IsTerminal, stdin, stdout},
};

/// The controlling terminal of this program, lent to the group of its command.
pub(super) struct Terminal {
    terminal: File,
    group: Pid,
}

impl Terminal {
    /// `None`: this program has none, as in a script of a timer or of a pipeline of builds.
    pub(super) fn for_group(group: Pid) -> Option<Terminal> {
        let mut options = OpenOptions::new();
        let terminal = options.read(true).write(true).open("/dev/tty").ok()?;
        Some(Terminal { terminal, group })
    }

    /// Lends it before the command asks, unless others of a pipeline may use it.
    pub(super) fn lend_first(&self) {
        if stdin().is_terminal() && stdout().is_terminal() {
            self.lend();
        }
    }

    /// Lends it to the command, if this program is in the foreground.
    pub(super) fn lend(&self) {
        if tcgetpgrp(&self.terminal) == Ok(getpgrp()) {
            self.give_to(self.group);
        }
    }

    /// Whether a shell started this program that stops and continues jobs. Nobody continues what
    /// was started without one.
    pub(super) fn is_of_shell_with_jobs() -> bool {
        // The group of the leader of the session belongs to no job.
        getsid(None).is_ok_and(|session| session != getpgrp())
    }

    /// Whether the command has it.
    pub(super) fn is_lent(&self) -> bool {
        tcgetpgrp(&self.terminal) == Ok(self.group)
    }

    /// Takes it back, if the command has it.
    pub(super) fn take_back(&self) {
        if self.is_lent() {
            self.give_to(getpgrp());
        }
    }

    fn give_to(&self, group: Pid) {
        // Who is in the background is stopped for this otherwise.
        let stop = SigSet::from(Signal::SIGTTOU);
        stop.thread_block().ok();
        // The group may be gone by now.
        tcsetpgrp(&self.terminal, group).ok();
        stop.thread_unblock().ok();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
