//! A server whose owner died and which still runs or is just stopping. The caller holds the lock of its directory, so
//! nobody else cares for it.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Ends the server that runs on `data`, if there is one: in good order, or at once when its data are to be thrown away.
pub(crate) fn end(data: &Path, in_order: bool) {
    let Some(pid) = running(data) else { return };
    tracing::info!(
        pid,
        "stopping the private Postgres that an earlier process left behind"
    );
    let signals = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGKILL];
    for signal in signals.into_iter().skip(usize::from(!in_order)) {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(pid), signal);
        if gone(data, Duration::from_secs(10)) {
            return;
        }
    }
}

/// The process named in the data directory, if it lives there: the number may long be another's.
fn running(data: &Path) -> Option<i32> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    let home = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (pid > 1 && home == fs::canonicalize(data).ok()?).then_some(pid)
}

fn gone(data: &Path, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while running(data).is_some() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
