//! SIGTERM and SIGINT, and SIGHUP for some: they ask a command to end in order.

use super::{error::CliError, exit::Exit};
use std::{fs, future::pending};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGHUP, which no longer ends the process by itself.
pub(super) fn hangups() -> Result<Signal, CliError> {
    listen(SignalKind::hangup())
}

/// The signal, if this process was not started to ignore it, as by `nohup`.
pub(super) fn unless_ignored(kind: SignalKind) -> Result<Option<Signal>, CliError> {
    let is_ignored = ignored() & 1 << (kind.as_raw_value() - 1) != 0;
    match is_ignored {
        true => Ok(None),
        false => listen(kind).map(Some),
    }
}

/// Resolves at the next one; never if it is ignored.
pub(super) async fn next_of(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => pending().await,
    }
}

/// The signals that this process ignores, a bit each from that of number 1 on.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default()
}

fn listen(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|error| CliError::new("cannot handle signals").why(error))
}

/// From its making on, these signals no longer end the process by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, CliError> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// Also when the terminal goes away, as `nohup` does not want.
    pub(super) fn with_hangups() -> Result<Signals, CliError> {
        Ok(Signals {
            hangup: unless_ignored(SignalKind::hangup())?,
            ..Signals::new()?
        })
    }

    /// Resolves at the next signal, to the exit code of a command that it ends.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
            () = next_of(&mut self.hangup) => Exit::HungUp,
        }
    }
}
