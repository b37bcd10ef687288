//! SIGTERM and SIGINT: both ask a command to end in order.

use super::{error::CliError, exit::Exit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGHUP, which no longer ends the process by itself.
pub(super) fn hangups() -> Result<Signal, CliError> {
    listen(SignalKind::hangup())
}

fn listen(kind: SignalKind) -> Result<Signal, CliError> {
    signal(kind).map_err(|error| CliError::new("cannot handle signals").why(error))
}

/// From its making on, these signals no longer end the process by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, CliError> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Resolves at the next signal, to the exit code of a command that it ends.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}
