//! What a terminal or a shell says to the whole of a job: hang up, quit, stop. This program passes
//! it on to its command, and ends or stops when that does.

use crate::cli::error::CliError;
use nix::sys::signal::Signal;
use std::{fs, future::pending, time::Duration};
use tokio::{
    signal::unix::{self, SignalKind},
    time::timeout,
};

/// What was sent to this program itself has arrived by then.
const ARRIVED: Duration = Duration::from_millis(10);

/// From its making on, these signals neither end nor stop the process by themselves. `None`: it was
/// started to ignore it, as by `nohup`, and so is the command.
pub(super) struct JobSignals {
    hangup: Option<unix::Signal>,
    quit: Option<unix::Signal>,
    stop: Option<unix::Signal>,
}

impl JobSignals {
    pub(super) fn new() -> Result<JobSignals, CliError> {
        let ignored = ignored();
        let listen = |signal: Signal| {
            let number = signal as i32;
            if ignored & 1 << (number - 1) != 0 {
                return Ok(None);
            }
            let stream = unix::signal(SignalKind::from_raw(number));
            let failed = |error| CliError::new("cannot handle signals").why(error);
            stream.map(Some).map_err(failed)
        };
        Ok(JobSignals {
            hangup: listen(Signal::SIGHUP)?,
            quit: listen(Signal::SIGQUIT)?,
            stop: listen(Signal::SIGTSTP)?,
        })
    }

    /// Resolves at the next one.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = next_of(&mut self.hangup) => Signal::SIGHUP,
            () = next_of(&mut self.quit) => Signal::SIGQUIT,
            () = next_of(&mut self.stop) => Signal::SIGTSTP,
        }
    }

    /// Forgets a stop that has come about.
    pub(super) async fn forget_stop(&mut self) {
        timeout(ARRIVED, next_of(&mut self.stop)).await.ok();
    }
}

async fn next_of(signal: &mut Option<unix::Signal>) {
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
