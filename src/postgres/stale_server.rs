//! Stops a server whose owner has died. The caller holds the lock of its directory, so nobody else
//! uses it.

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

/// Stops the server that runs on `data`, if any: cleanly, or at once when its data are to be
/// removed.
pub(crate) fn end(data: &Path, cleanly: bool) {
    let Some(pid) = running(data) else { return };
    tracing::info!(
        pid,
        "stopping the private Postgres that an earlier process left behind"
    );
    let signals = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGKILL];
    for signal in signals.into_iter().skip(usize::from(!cleanly)) {
        // It may have ended in the meantime.
        let _ = kill(Pid::from_raw(pid), signal);
        if gone(data, Duration::from_secs(10)) {
            return;
        }
    }
}

/// The process named in the data directory, if it runs there: the id may have been reused.
fn running(data: &Path) -> Option<i32> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    let home = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (pid > 1 && home == fs::canonicalize(data).ok()?).then_some(pid)
}

fn gone(data: &Path, timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    while running(data).is_some() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
