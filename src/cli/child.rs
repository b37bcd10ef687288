//! A command in a process group of its own, so that all of it can be signalled and killed. It has
//! the terminal of this program, and is stopped and continued with it.

use super::terminal::Terminal;
use crate::cli::{error::CliError, exit::Exit};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    io,
    os::unix::process::ExitStatusExt,
};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

/// The running command.
pub(super) struct Child {
    child: tokio::process::Child,
    group: Pid,
    terminal: Option<Terminal>,
    /// A child has ended, or was stopped.
    changes: tokio::signal::unix::Signal,
    /// This program was told to stop, and has passed that on.
    is_stopping: bool,
}

/// What becomes of a command.
pub(super) enum Change {
    /// It has ended with this exit code.
    Ended(u8),
    /// It was stopped, as by Ctrl-Z.
    Stopped,
}

/// Added to the number of the signal that has ended a command, as shells do.
const BY_SIGNAL: i32 = 128;

/// Refuses a command whose program is not there, before something is claimed that it would fail.
pub(super) fn check(command: &[OsString]) -> Result<(), CliError> {
    let program = command.first().cloned().unwrap_or_default();
    match which::which(&program) {
        Err(which::Error::CannotFindBinaryPath) => {
            let why = "there is no such program, or it may not be executed";
            Err(cannot_run(&program, why))
        }
        // Without a PATH the system knows where to look.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The error for a program that has not started.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> CliError {
    let failed = cannot_run(program, error);
    match error.raw_os_error() {
        Some(code) if code == Errno::ENOEXEC as i32 => {
            failed.next("a script begins with a line like `#!/bin/sh`")
        }
        _ => failed,
    }
}

fn cannot_run(program: &OsStr, why: impl Display) -> CliError {
    let next = "behind `--` comes a program, on the PATH or with its path, and executable";
    CliError::new(format!("cannot run {}", program.display()))
        .why(why)
        .next(next)
}

impl Child {
    /// Starts a command with these variables added to its environment.
    pub(super) fn start(command: &[OsString], environment: &[(&str, String)]) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let changes = signal(SignalKind::child())?;
        let child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().cloned())
            .process_group(0)
            .spawn()?;
        let id = child.id().ok_or(io::ErrorKind::NotFound)?;
        let group = Pid::from_raw(id as i32);
        let terminal = Terminal::for_group(group);
        terminal.iter().for_each(Terminal::lend_first);
        Ok(Child {
            child,
            group,
            terminal,
            changes,
            is_stopping: false,
        })
    }

    /// Resolves when the command has ended or was stopped.
    pub(super) async fn changed(&mut self) -> io::Result<Change> {
        loop {
            if self.is_stopped() {
                return Ok(Change::Stopped);
            }
            tokio::select! {
                status = self.child.wait() => {
                    let status = status?;
                    let code = status.code();
                    let code = code.or(status.signal().map(|signal| BY_SIGNAL + signal));
                    let code = code.and_then(|code| u8::try_from(code).ok());
                    return Ok(Change::Ended(code.unwrap_or(1)));
                }
                _ = self.changes.recv() => {}
            }
        }
    }

    /// Whether it was stopped since this was asked last, for another reason than that it had no
    /// terminal before it was lent. Without a terminal nobody would continue this program, too,
    /// unless it was told to stop itself.
    fn is_stopped(&mut self) -> bool {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let Ok(WaitStatus::Stopped(_, signal)) = waitid(Id::Pid(self.group), flags) else {
            return false;
        };
        let is_stopping = std::mem::take(&mut self.is_stopping);
        let Some(terminal) = &self.terminal else {
            return is_stopping;
        };
        let for_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if for_terminal {
            terminal.lend();
        }
        let has_it_now = for_terminal && terminal.is_lent();
        let is_of_job = Terminal::is_of_shell_with_jobs();
        if has_it_now || !for_terminal && !is_of_job {
            self.signal(Signal::SIGCONT);
            return false;
        }
        is_of_job
    }

    /// Stops this program and those beside it in its job, as the command was, so that the shell
    /// takes over. Returns when it goes on; the command does not yet.
    pub(super) fn stop_with_it(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
            // This program itself does not stop for it.
            kill(Pid::from_raw(0), Signal::SIGTSTP).ok();
        }
        kill(Pid::this(), Signal::SIGSTOP).ok();
    }

    /// Has a stopped command go on, in the foreground if this program is.
    pub(super) fn go_on(&self) {
        self.terminal.iter().for_each(Terminal::lend_first);
        self.signal(Signal::SIGCONT);
    }

    /// Passes a signal on that this program got to end.
    pub(super) fn end(&self, exit: Exit) {
        self.signal(match exit {
            Exit::Interrupted => Signal::SIGINT,
            _ => Signal::SIGTERM,
        });
    }

    /// Passes a signal on that this program got as a part of a job.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        self.is_stopping |= signal == Signal::SIGTSTP;
        self.signal(signal);
    }

    fn signal(&self, signal: Signal) {
        // The group may be gone by now.
        killpg(self.group, signal).ok();
    }

    /// Kills the group, and waits for the command.
    pub(super) async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_does_not_say_what_reads_it_is_to_say_so() {
        let next = |code| {
            let error = io::Error::from_raw_os_error(code);
            let failed = not_started(OsStr::new("./deploy.sh"), &error);
            failed.next_step().unwrap_or_default().to_owned()
        };
        assert!(next(Errno::ENOEXEC as i32).contains("`#!/bin/sh`"));
        assert!(next(Errno::EACCES as i32).contains("executable"));
    }
}
