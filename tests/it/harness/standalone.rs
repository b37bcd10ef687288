//! `rallypoint serve` without a database of its own choice: it starts a private Postgres below a
//! data directory, as a newcomer's first server does. For tests that look from outside.
//!
//! The server ends, and its directory goes, with the value.

use super::process::{PROGRAM, Process};
use nix::sys::signal::{Signal, killpg};
use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running server.
pub(crate) struct Standalone {
    process: Process,
    folder: PathBuf,
    log: PathBuf,
    /// `http://127.0.0.1:PORT`
    pub url: String,
}

impl Standalone {
    /// Starts a server on a port of its choice and waits until it serves.
    pub(crate) fn start() -> Standalone {
        Standalone::with(&[])
    }

    /// The same with more options of `serve`.
    pub(crate) fn with(more: &[&Path]) -> Standalone {
        let mut server = Standalone::prepare(more);
        server.start_again();
        server
    }

    /// The same in a process group of its own, as a shell starts it.
    pub(crate) fn in_own_group() -> Standalone {
        let mut server = Standalone::prepare(&[]);
        server.process.command().process_group(0);
        server.start_again();
        server
    }

    fn prepare(more: &[&Path]) -> Standalone {
        let folder = folder();
        let log = folder.with_extension("log");
        let options = ["--listen", "127.0.0.1:0", "--data-dir"];
        let options = options.map(Path::new).into_iter().chain([&*folder]);
        let mut process = Process::serve(options.chain(more.iter().copied()));
        let stderr = File::options().create(true).append(true).open(&log);
        let stderr = stderr.expect("a log file");
        process.command().stderr(stderr);
        Standalone {
            process,
            folder,
            log,
            url: String::new(),
        }
    }

    /// Starts it on what it left, and waits until it serves.
    pub(crate) fn start_again(&mut self) {
        fs::write(&self.log, "").expect("a log file");
        self.url.clear();
        self.process.start();
        let begun = Instant::now();
        while !self.is_ready() {
            assert!(
                begun.elapsed() < START_TIMEOUT && self.process.exited().is_none(),
                "the server does not get ready"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Runs the program as a caller of this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM)
            .args(["--server", &self.url])
            .args(arguments)
            .output()
            .expect("the program runs")
    }

    /// Process id of its private Postgres, as that has written it last.
    pub(crate) fn postmaster(&self) -> i32 {
        let file = self.folder.join("data/postmaster.pid");
        let text = fs::read_to_string(file).unwrap_or_default();
        let pid = text.lines().next().and_then(|line| line.parse().ok());
        pid.unwrap_or(0)
    }

    /// The most memory that its process has used so far.
    pub(crate) fn peak_mib(&self) -> u64 {
        let pid = self.process.pid().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.expect("a number") >> 10
    }

    /// Has it read its configuration file again.
    pub(crate) fn hang_up(&self) {
        self.process.signal(Signal::SIGHUP);
    }

    /// Signals its whole process group, as Ctrl-C in a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let group = self.process.pid().expect("it runs");
        killpg(group, signal).expect("our own child");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.exited() {
                return status;
            }
            assert!(begun.elapsed() < STOP_TIMEOUT, "it does not end");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Lets it do nothing and answer nothing until [`Standalone::thaw`].
    pub(crate) fn freeze(&self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log file")
    }

    fn is_ready(&mut self) -> bool {
        if self.url.is_empty() {
            self.url = self.url_from_log().unwrap_or_default();
        }
        !self.url.is_empty() && self.run(&["health"]).status.success()
    }

    /// The address that the server names in a line of its log.
    fn url_from_log(&self) -> Option<String> {
        let log = fs::read_to_string(&self.log).ok()?;
        let whole_lines = log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole_lines
            .filter_map(|line| line.strip_prefix("listening on "))
            .map(|url| url.trim_end().to_owned())
            .next()
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGTERM);
        self.thaw();
        let begun = Instant::now();
        while self.process.pid().is_some()
            && self.process.exited().is_none()
            && begun.elapsed() < STOP_TIMEOUT
        {
            thread::sleep(POLL_INTERVAL);
        }
        if thread::panicking() {
            println!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
        fs::remove_dir_all(&self.folder).ok();
        fs::remove_file(&self.log).ok();
    }
}

/// A short path that a server run as root can hand to the account of Postgres.
pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("rallypoint-test-{}-{number}", std::process::id()))
}
