//! SIGTERM and SIGINT, and SIGHUP for some: they ask a command to end in order.

use super::{error::CliError, exit::Exit};
use std::{
    fs,
    future::pending,
    time::{Duration, Instant},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that comes so soon after one is the same one: `timeout` signals a program and its
/// group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

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
    last: Last,
}

/// When the last signal came that counted.
#[derive(Default)]
struct Last(Option<Instant>);

impl Last {
    /// Whether a signal of now is another one.
    fn is_other(&mut self, now: Instant) -> bool {
        let is_same = |last| now.saturating_duration_since(last) < SAME_SIGNAL;
        if self.0.is_some_and(is_same) {
            return false;
        }
        self.note(now);
        true
    }

    fn note(&mut self, now: Instant) {
        self.0 = Some(now);
    }
}

impl Signals {
    pub(super) fn new() -> Result<Signals, CliError> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: None,
            last: Last::default(),
        })
    }

    /// Also when the terminal goes away, as `nohup` does not want.
    pub(super) fn with_hangups() -> Result<Signals, CliError> {
        Ok(Signals {
            hangup: unless_ignored(SignalKind::hangup())?,
            ..Signals::new()?
        })
    }

    /// Resolves at the next signal, to the exit code of a command that it ends. One that comes with
    /// the last is the same.
    pub(super) async fn next(&mut self) -> Exit {
        loop {
            let exit = self.any().await;
            if self.counts() {
                return exit;
            }
        }
    }

    /// Whether a signal that has come, of whatever kind, is another one than the last.
    pub(super) fn counts(&mut self) -> bool {
        self.last.is_other(Instant::now())
    }

    /// What comes within a second from now is no other signal: it was to hurry what is done by now.
    pub(super) fn note(&mut self) {
        self.last.note(Instant::now());
    }

    /// Resolves at every signal, for a command to which all of them are passed on.
    pub(super) async fn every(&mut self) -> Exit {
        let exit = self.any().await;
        self.note();
        exit
    }

    async fn any(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
            () = next_of(&mut self.hangup) => Exit::HungUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_with_one_is_the_same_and_a_later_one_is_another() {
        let mut last = Last::default();
        let begun = Instant::now();
        let expected = [
            (0, true),
            (1, false),
            (999, false),
            (1_000, true),
            (1_999, false),
            (5_000, true),
        ];
        for (after, is_other) in expected {
            let now = begun + Duration::from_millis(after);
            assert_eq!(last.is_other(now), is_other, "{after}");
        }
    }

    #[test]
    fn a_signal_that_comes_right_behind_what_it_was_to_hurry_is_no_other() {
        let (mut last, begun) = (Last::default(), Instant::now());
        assert!(last.is_other(begun));
        let done = begun + Duration::from_secs(5);
        last.note(done);
        assert!(!last.is_other(done + Duration::from_millis(500)));
        assert!(last.is_other(done + SAME_SIGNAL));
    }
}
