//! What a terminal or a shell says to the whole of a job: hang up, quit, stop. This program passes
//! it on to its command, and ends or stops when that does.

use crate::cli::error::CliError;
use nix::sys::signal::Signal;
use std::time::Duration;
use tokio::{
    signal::unix::{self, SignalKind},
    time::timeout,
};

/// What was sent to this program itself has arrived by then.
const ARRIVED: Duration = Duration::from_millis(10);

/// From its making on, these signals neither end nor stop the process by themselves.
pub(super) struct JobSignals {
    hangup: unix::Signal,
    quit: unix::Signal,
    stop: unix::Signal,
}

impl JobSignals {
    pub(super) fn new() -> Result<JobSignals, CliError> {
        let listen = |kind| {
            unix::signal(kind).map_err(|error| CliError::new("cannot handle signals").why(error))
        };
        Ok(JobSignals {
            hangup: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
            stop: listen(SignalKind::from_raw(Signal::SIGTSTP as i32))?,
        })
    }

    /// Resolves at the next one.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::SIGHUP,
            _ = self.quit.recv() => Signal::SIGQUIT,
            _ = self.stop.recv() => Signal::SIGTSTP,
        }
    }

    /// Forgets a stop that has come about.
    pub(super) async fn forget_stop(&mut self) {
        timeout(ARRIVED, self.stop.recv()).await.ok();
    }
}
