//! Programs on a terminal, and what one waits for beside them.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A shell with a terminal of its own, to whose standard input one types.
pub(crate) fn on_terminal(script: &str) -> Child {
    Command::new("script")
        .args(["--quiet", "--return", "--command", script, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("script runs")
}

/// Blocks until it is there, and panics when that takes a minute.
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}
