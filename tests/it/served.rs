//! A real `rallypoint serve` as a child process on a private Postgres of its own, for tests that look from outside.
//! It ends, and its folder goes, with the value.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rallypoint");
const READY: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Served {
    child: Child,
    folder: PathBuf,
    /// `http://127.0.0.1:PORT`
    pub url: String,
}

impl Served {
    /// Starts one and waits until it serves.
    pub(crate) fn start() -> Served {
        let folder = folder();
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let url = url_from_log(&mut child);
        let served = Served { child, folder, url };
        let begun = Instant::now();
        while !served.run(&["health"]).status.success() {
            assert!(begun.elapsed() < READY, "the server does not get ready");
            thread::sleep(Duration::from_millis(50));
        }
        served
    }

    /// Runs the program as a caller of this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(["--server", &self.url])
            .args(arguments)
            .output()
            .expect("the program runs")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        kill(pid, Signal::SIGTERM).ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Reads stderr up to the address, and drains the rest so that the server never blocks on it.
fn url_from_log(child: &mut Child) -> String {
    let mut log = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let url = log
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
    thread::spawn(move || {
        log.map_while(Result::ok)
            .for_each(|line| println!("server: {line}"))
    });
    url.expect("the server says where it listens")
}

/// A short path that a server run as root can hand to Postgres' own account.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("rallypoint-test-{}-{number}", std::process::id()))
}
