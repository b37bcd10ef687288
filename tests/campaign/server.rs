//! A server process and the proxies around it: to Postgres, from its callers, from other servers. It is started again when it ends, as Kubernetes would.

use crate::{
    clock::Clock,
    memory::Trap,
    proxy::{Behind, Proxy},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rallypoint::postgres::{COORDINATION, PrivatePostgres, TARGET};
use std::{
    fs::{File, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Of each server.
pub(crate) const SLOTS: u32 = 8;
/// Shorter than usual, so that more of them end.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// From SIGTERM to SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(45);
/// Until it asks for memory that it cannot have.
const STARVES: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub number: usize,
    /// Where it listens for callers.
    address: SocketAddr,
    /// What it reaches Postgres through.
    pub proxy: Proxy,
    /// What callers reach it through.
    pub callers: Proxy,
    /// Where it listens for other servers, and what they reach it through; `None`: it is alone.
    peers: Option<(SocketAddr, Proxy)>,
    /// `None`: that of the machine.
    pub clock: Option<Clock>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
    /// Nobody starts it again now.
    held: Mutex<u32>,
    /// How often it ended without being told to.
    pub ended_by_itself: AtomicU64,
}

impl Server {
    /// Starts one; `alone` without the port of the replicas.
    pub(crate) async fn new(
        number: usize,
        alone: bool,
        clock: Option<Clock>,
        postgres: &PrivatePostgres,
        folder: &Path,
    ) -> Server {
        let (address, callers) = entrance().await;
        let peers = if alone { None } else { Some(entrance().await) };
        let socket = postgres.socket_dir().join(".s.PGSQL.5432");
        let server = Server {
            number,
            address,
            proxy: Proxy::start(Behind::Postgres(socket))
                .await
                .expect("a proxy"),
            callers,
            peers,
            clock,
            log: folder.join(format!("server-{number}.log")),
            child: Mutex::new(None),
            held: Mutex::new(0),
            ended_by_itself: AtomicU64::new(0),
        };
        server.start();
        server
    }

    /// What callers call.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.callers.address)
    }

    /// What other servers reach it through.
    pub(crate) fn peer_proxy(&self) -> Option<&Proxy> {
        self.peers.as_ref().map(|(_, proxy)| proxy)
    }

    /// Process id, while it runs.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.child()
            .as_ref()
            .map(|child| Pid::from_raw(child.id() as i32))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            kill(pid, signal).expect("our own child");
        }
    }

    /// Dies at once, and stays dead until [`Server::release`].
    pub(crate) fn kill(&self) {
        *self.held() += 1;
        if let Some(mut child) = self.child().take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
    }

    /// Stops in good order; whether it ended in time and well. Stays stopped until [`Server::release`].
    pub(crate) async fn terminate(&self) -> bool {
        *self.held() += 1;
        self.signal(Signal::SIGTERM);
        self.ends_within(STOP_PATIENCE)
            .await
            .is_some_and(|status| status.success())
    }

    /// Has no memory to take, until that ends it. Stays so until [`Server::release`].
    pub(crate) async fn starve(&self, trap: &Trap) {
        for _ in 0..500 {
            if self.pid().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        *self.held() += 1;
        if let Some(pid) = self.pid() {
            trap.catch(pid).expect("our own child and cgroup");
        }
        self.ends_within(STARVES).await;
    }

    /// Waits for its end, and brings it about when patience is over.
    async fn ends_within(&self, patience: Duration) -> Option<ExitStatus> {
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let mut child = self.child();
            if let Some(status) = child.as_mut()?.try_wait().expect("our own child") {
                *child = None;
                return Some(status);
            }
        }
        if let Some(mut child) = self.child().take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
        None
    }

    /// It may run again.
    pub(crate) fn release(&self) {
        *self.held() -= 1;
        self.tend();
    }

    /// Starts it when it has ended and may run.
    pub(crate) fn tend(&self) {
        let held = self.held();
        if *held > 0 {
            return;
        }
        let mut child = self.child();
        if let Some(running) = child.as_mut()
            && let Some(status) = running.try_wait().expect("our own child")
        {
            self.ended_by_itself.fetch_add(1, Relaxed);
            eprintln!("server {} ended by itself: {status}", self.number);
            *child = None;
        }
        let idle = child.is_none();
        drop(child);
        if idle {
            self.start();
        }
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often its log holds a text.
    pub(crate) fn says(&self, text: &str) -> u64 {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count() as u64
    }

    fn start(&self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
        command.args([
            "serve",
            "--listen",
            &self.address.to_string(),
            "--replica-name",
            &format!("r{}", self.number),
        ]);
        command.args([
            "--slots",
            &SLOTS.to_string(),
            "--noop-slots",
            "64",
            "--log-format",
            "json",
        ]);
        command.args(["--database", &self.proxy.url(COORDINATION, COORDINATION)]);
        // Tells every session of a task on which server it is, for the witnesses.
        let target = format!(
            "{}&options=-c%20campaign.server%3D{}",
            self.proxy.url(TARGET, TARGET),
            self.number
        );
        command.args(["--target", &format!("{TARGET}={target}")]);
        command.args(["--lease", &LEASE.as_secs_f64().to_string()]);
        if let Some((listen, proxy)) = &self.peers {
            command.args([
                "--peer-listen",
                &listen.to_string(),
                "--peer-advertise",
                &proxy.address.to_string(),
            ]);
        }
        command.env("RUST_LOG", "info").stdin(Stdio::null());
        if let Some(clock) = &self.clock {
            // Every new connection has a line, so that there are lines to tell the time by.
            command.env("RUST_LOG", "info,h2::proto::settings=debug");
            clock.give(&mut command);
        }
        command
            .stdout(File::open("/dev/null").expect("it is there"))
            .stderr(log);
        *self.child() = Some(command.spawn().expect("the program starts"));
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, u32> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port to listen on, and a proxy before it.
async fn entrance() -> (SocketAddr, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    (
        address,
        Proxy::start(Behind::Address(address))
            .await
            .expect("a proxy"),
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
