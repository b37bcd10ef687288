//! What a terminal or a shell says to the whole of a job: hang up, quit, stop. This program passes
//! it on to its command, and ends or stops when that does.

use super::{
    error::CliError,
    exit::Exit,
    signals::{Signals, next_of, unless_ignored},
};
use nix::sys::signal::{Signal, raise};
use std::time::Duration;
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
        let listen = |signal: Signal| unless_ignored(SignalKind::from_raw(signal as i32));
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

    /// While there is no command: resolves when this program is to end, and stops it if it is to
    /// stop. A signal that comes with the last one is the same.
    pub(super) async fn end(&mut self, signals: &mut Signals) -> Exit {
        loop {
            let signal = tokio::select! {
                exit = signals.next() => return exit,
                signal = self.next() => signal,
            };
            let exit = match signal {
                Signal::SIGHUP => Exit::HungUp,
                Signal::SIGQUIT => Exit::Quit,
                _ => {
                    let _ = raise(Signal::SIGSTOP);
                    continue;
                }
            };
            // A terminal that goes away hangs up, and so does its shell.
            if signals.counts() {
                return exit;
            }
        }
    }

    /// Forgets a stop that has come about.
    pub(super) async fn forget_stop(&mut self) {
        timeout(ARRIVED, next_of(&mut self.stop)).await.ok();
    }
}
