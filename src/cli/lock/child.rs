//! A command in a process group of its own, so that all of it can be signalled and killed.

use crate::cli::exit::Exit;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use std::{io, os::unix::process::ExitStatusExt};
use tokio::process::Command;

/// The running command.
pub(super) struct Child {
    child: tokio::process::Child,
    group: Pid,
}

/// Added to the number of the signal that has ended a command, as shells do.
const BY_SIGNAL: i32 = 128;

impl Child {
    /// Starts a command with these variables added to its environment.
    pub(super) fn start(command: &[String], environment: [(&str, String); 3]) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let child = Command::new(program)
            .args(arguments)
            .envs(environment)
            .process_group(0)
            .spawn()?;
        let id = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(Child {
            child,
            group: Pid::from_raw(id as i32),
        })
    }

    /// Resolves when the command has ended, to its exit code.
    pub(super) async fn ended(&mut self) -> io::Result<u8> {
        let status = self.child.wait().await?;
        let code = status.code();
        let code = code.or(status.signal().map(|signal| BY_SIGNAL + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }

    /// Passes a signal on that this program got.
    pub(super) fn signal(&self, exit: Exit) {
        let signal = match exit {
            Exit::Interrupted => Signal::SIGINT,
            _ => Signal::SIGTERM,
        };
        // The group may be gone by now.
        killpg(self.group, signal).ok();
    }

    /// Kills the group, and waits for the command.
    pub(super) async fn kill(&mut self) {
        killpg(self.group, Signal::SIGKILL).ok();
        self.child.wait().await.ok();
    }
}
