//! A server process and the proxies around it: to the databases, from its callers, from other
//! servers.
//! It is started again when it ends, as Kubernetes would, unless a fault keeps it down.

use crate::{
    clock::Clock,
    database::Database,
    memory::MemoryCgroup,
    process::{Process, free_address},
    proxy::{Proxy, Purpose, Upstream},
};
use nix::{sys::signal::Signal, unistd::Pid};
use rallypoint::postgres::{COORDINATION, TARGET};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Slots of each server.
pub(crate) const SLOTS: u32 = 8;
/// Shorter than usual, so that more leases end.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Time from SIGTERM to SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(45);
/// Time in which a server without memory asks for more and is ended.
const STARVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a server that has ended is running again.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Before the name of a program in the log of a server: what follows is its log.
pub(crate) const INSTALLED: &str = "the program is ";

pub(crate) struct Server {
    pub number: usize,
    /// Where it listens itself, behind the proxy.
    pub listen: SocketAddr,
    /// Between the server and the Postgres of the journal.
    pub journal: Proxy,
    /// Between the server and the Postgres on which tasks run.
    pub target: Proxy,
    /// Between the server and its callers.
    pub callers: Proxy,
    /// Between the server and the other servers; `None`: there are no others.
    pub peers: Option<Proxy>,
    /// `None`: the clock of the machine.
    pub clock: Option<Clock>,
    options: Vec<String>,
    log: PathBuf,
    process: Mutex<Process>,
    /// Faults that keep it from being started again.
    faults: Mutex<u32>,
    /// The number of times it ended without being told to.
    ended_by_itself: AtomicU64,
}

impl Server {
    /// Starts a server; `alone` without a port for other servers.
    pub(crate) async fn new(
        number: usize,
        alone: bool,
        clock: Option<Clock>,
        databases: [&Database; 2],
        folder: &Path,
        program: &Path,
    ) -> Server {
        let [journal, target] = databases.map(|database| Upstream::Postgres(database.socket()));
        let journal = Proxy::start(journal).await.expect("a proxy");
        let target = Proxy::start(target).await.expect("a proxy");
        let (address, callers) = port_behind_proxy(Purpose::Caller).await;
        let mut options = options(number, address, &journal, &target);
        let peers = if alone {
            None
        } else {
            let (address, peers) = port_behind_proxy(Purpose::Peer).await;
            let advertised = peers.address.to_string();
            options.extend(["--peer-listen".to_owned(), address.to_string()]);
            options.extend(["--peer-advertise".to_owned(), advertised]);
            Some(peers)
        };
        let log = folder.join(format!("server-{number}.log"));
        let server = Server {
            number,
            listen: address,
            journal,
            target,
            callers,
            peers,
            process: Mutex::new(process(program, &options, &log, clock.as_ref())),
            options,
            clock,
            log,
            faults: Mutex::new(0),
            ended_by_itself: AtomicU64::new(0),
        };
        server.process().start();
        server
    }

    /// The proxies to the databases.
    pub(crate) fn databases(&self) -> [&Proxy; 2] {
        [&self.journal, &self.target]
    }

    /// All of its proxies.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let databases = self.databases().into_iter();
        databases.chain([&self.callers]).chain(&self.peers)
    }

    /// The URL for callers.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Where callers reach it.
    pub(crate) fn address(&self) -> String {
        self.callers.address.to_string()
    }

    /// The process id, while it runs.
    fn pid(&self) -> Option<Pid> {
        self.process().pid()
    }

    /// The memory that it has now.
    pub(crate) fn memory_mib(&self) -> Option<u64> {
        self.status_mib("VmRSS:")
    }

    /// The most memory that it has had.
    pub(crate) fn peak_mib(&self) -> Option<u64> {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib >> 10)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Kills it with SIGKILL. It stays down until [`Server::release`].
    pub(crate) fn kill(&self) {
        *self.faults() += 1;
        self.process().kill();
    }

    /// Stops it with SIGTERM and says whether it ended in time and well. It stays down until
    /// [`Server::release`].
    pub(crate) async fn terminate(&self) -> bool {
        *self.faults() += 1;
        self.signal(Signal::SIGTERM);
        self.ends_within(STOP_TIMEOUT)
            .await
            .is_some_and(|status| status.success())
    }

    /// Has another program run from its next start on, and its log say so. It is called while a
    /// fault keeps the server down.
    pub(crate) fn install(&self, program: &Path) {
        let mut log = log_file(&self.log);
        writeln!(log, "{INSTALLED}{}", program.display()).expect("a line of the log");
        *self.process() = process(program, &self.options, &self.log, self.clock.as_ref());
    }

    /// Gives it no more memory until that ends it. It stays down until [`Server::release`].
    pub(crate) async fn starve(&self, cgroup: &MemoryCgroup) {
        let begun = Instant::now();
        while self.pid().is_none() && begun.elapsed() < RESTART_TIMEOUT {
            sleep(POLL_INTERVAL).await;
        }
        *self.faults() += 1;
        if let Some(pid) = self.pid() {
            cgroup.add(pid).expect("our own child and cgroup");
        }
        self.ends_within(STARVE_TIMEOUT).await;
    }

    /// Waits for its end, and kills it when that takes too long.
    pub(crate) async fn ends_within(&self, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit && self.pid().is_some() {
            sleep(POLL_INTERVAL).await;
            let exited = self.process().exited();
            if exited.is_some() {
                return exited;
            }
        }
        self.process().kill();
        None
    }

    /// Ends one fault that keeps it down.
    pub(crate) fn release(&self) {
        *self.faults() -= 1;
        self.restart_if_ended();
    }

    /// Starts it again if it has ended and no fault keeps it down.
    pub(crate) fn restart_if_ended(&self) {
        let faults = self.faults();
        if *faults > 0 {
            return;
        }
        let mut process = self.process();
        if let Some(status) = process.exited() {
            self.ended_by_itself.fetch_add(1, Relaxed);
            eprintln!("server {} ended by itself: {status}", self.number);
        }
        if process.pid().is_none() {
            process.start();
        }
    }

    /// Everything it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The number of lines in its log that hold a text.
    pub(crate) fn lines_with(&self, text: &str) -> u64 {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count() as u64
    }

    /// What it did that it should not have to.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let what = [
            ("ended by itself", self.ended_by_itself.load(Relaxed)),
            ("set a scheduler aside", self.lines_with("is set aside")),
            ("panicked", self.lines_with("panicked")),
        ];
        let happened = what.into_iter().filter(|(_, count)| *count > 0);
        happened
            .map(|(what, count)| format!("{what} {count} times"))
            .collect()
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, u32> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command line of a server that reaches the databases through proxies.
fn options(number: usize, address: SocketAddr, journal: &Proxy, target: &Proxy) -> Vec<String> {
    // Every session of a task knows its server, so that witnesses can name it.
    let target = format!(
        "{}&options=-c%20campaign.server%3D{number}",
        target.url(TARGET, TARGET)
    );
    let pairs = [
        ("--listen", address.to_string()),
        ("--replica-name", format!("r{number}")),
        ("--slots", SLOTS.to_string()),
        ("--noop-slots", "64".to_owned()),
        ("--log-format", "json".to_owned()),
        ("--lease", LEASE.as_secs_f64().to_string()),
        ("--database", journal.url(COORDINATION, COORDINATION)),
        ("--target", format!("{TARGET}={target}")),
    ];
    let pairs = pairs.map(|(name, value)| [name.to_owned(), value]);
    pairs.into_iter().flatten().collect()
}

/// The process, not started yet, with its log and its clock.
fn process(program: &Path, options: &[String], log: &Path, clock: Option<&Clock>) -> Process {
    let mut process = Process::serve_by(program, options);
    let command = process.command();
    command.env("RUST_LOG", "info").stderr(log_file(log));
    if let Some(clock) = clock {
        // Every new connection logs a line, so that there are lines to read the time from.
        command.env("RUST_LOG", "info,h2::proto::settings=debug");
        clock.apply_to(command);
    }
    process
}

/// A log that goes on where it ends.
fn log_file(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    options.open(path).expect("a log")
}

/// A port to listen on, and a proxy in front of it.
async fn port_behind_proxy(purpose: Purpose) -> (SocketAddr, Proxy) {
    let address = free_address();
    let proxy = Proxy::start(Upstream::Address(address, purpose))
        .await
        .expect("a proxy");
    (address, proxy)
}
