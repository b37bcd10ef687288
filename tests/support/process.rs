//! `rallypoint serve` as a process of its own: the one way in which tests start the real program.
//!
//! A process is started, signalled, killed and started again with the same command line. It is
//! killed when its value is dropped, so that no test leaves one behind. It knows nothing of what
//! the server does.

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use std::{
    env,
    ffi::OsStr,
    fs::File,
    net::{SocketAddr, TcpListener},
    ops::Range,
    os::{
        linux::net::SocketAddrExt,
        unix::{self, fs::FileExt, net::UnixListener},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rallypoint");

/// The ports that tests listen on.
const PORTS: Range<u16> = 12_000..32_000;
/// Ports that a process takes at a time.
const BLOCK: u16 = 50;
/// Bytes at the end of a log that are shown.
const LOG_TAIL: u64 = 2_000;

/// A server process, running or not.
pub(crate) struct Process {
    command: Command,
    child: Option<Child>,
    /// `None`: it goes where it can be read.
    log: Option<File>,
}

impl Process {
    /// A process that is not started yet, with these options of `serve`.
    #[allow(dead_code)] // The campaign says which program.
    pub(crate) fn serve<O: AsRef<OsStr>>(options: impl IntoIterator<Item = O>) -> Process {
        Process::serve_by(Path::new(PROGRAM), options)
    }

    /// The same by another build of the program.
    ///
    /// Its log is kept for [`Process::log_tail`], or goes to stderr with RALLYPOINT_TEST_LOG=1.
    pub(crate) fn serve_by<O: AsRef<OsStr>>(
        program: &Path,
        options: impl IntoIterator<Item = O>,
    ) -> Process {
        let log = match env::var_os("RALLYPOINT_TEST_LOG") {
            Some(_) => None,
            None => Some(tempfile::tempfile().expect("a file for the log")),
        };
        let stderr = match &log {
            Some(log) => log.try_clone().expect("the log").into(),
            None => Stdio::inherit(),
        };
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        Process {
            command,
            child: None,
            log,
        }
    }

    /// The command behind it, to change its environment or its log before it is started.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it, for the first time or again.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "the process runs already");
        self.child = Some(self.command.spawn().expect("the program starts"));
    }

    /// Its process id, while it runs or has not been reaped.
    pub(crate) fn pid(&self) -> Option<Pid> {
        let child = self.child.as_ref()?;
        Some(Pid::from_raw(i32::try_from(child.id()).expect("a pid")))
    }

    /// Sends a signal, if it runs. What is suspended does nothing more when this returns.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid() else { return };
        kill(pid, signal).expect("our own child");
        if signal == Signal::SIGSTOP {
            // One of its threads takes the signal; until then the others go on.
            let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            waitid(Id::Pid(pid), flags).expect("our own child");
        }
    }

    /// Kills it at once: it gets no chance to write or to say anything.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
    }

    /// Whether it was started and has ended by itself since.
    #[allow(dead_code)] // The campaign starts it again.
    pub(crate) fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let state = self.pid().map(|pid| waitid(Id::Pid(pid), flags));
        state.is_some_and(|state| state != Ok(WaitStatus::StillAlive))
    }

    /// What it said last.
    #[allow(dead_code)] // The campaign has logs of its own.
    pub(crate) fn log_tail(&self) -> String {
        let Some(log) = &self.log else {
            return "(see above)".to_owned();
        };
        let length = log.metadata().expect("the log").len();
        let mut tail = vec![0; length.min(LOG_TAIL) as usize];
        log.read_exact_at(&mut tail, length.saturating_sub(LOG_TAIL))
            .expect("the log");
        String::from_utf8_lossy(&tail).into_owned()
    }

    /// Its exit status, once, after it has ended without [`Process::kill`].
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().expect("our own child")?;
        self.child = None;
        Some(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address on this machine that nobody listens on and nobody else is given: no other test, in
/// this process or in another one.
pub(crate) fn free_address() -> SocketAddr {
    static PORTS: Mutex<Ports> = Mutex::new(Ports::new());
    PORTS.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Hands out ports, each once. They are below those that the kernel gives to whoever asks for any.
///
/// A process has blocks of them to itself: the name of a block is that of a Unix socket, which one
/// process can have at a time, and which is free again when that ends.
struct Ports {
    /// What comes next, of the last block.
    left: Range<u16>,
    blocks: Vec<UnixListener>,
}

impl Ports {
    const fn new() -> Ports {
        Ports {
            left: 0..0,
            blocks: Vec::new(),
        }
    }

    fn next(&mut self) -> SocketAddr {
        loop {
            let port = self.left.next().unwrap_or_else(|| self.of_new_block());
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            // Other programs listen as well.
            if TcpListener::bind(address).is_ok() {
                return address;
            }
        }
    }

    /// The first port of another block.
    fn of_new_block(&mut self) -> u16 {
        for first in PORTS.step_by(BLOCK.into()) {
            let name = format!("rallypoint-test-ports-{first}");
            let name = unix::net::SocketAddr::from_abstract_name(name).expect("a name");
            if let Ok(block) = UnixListener::bind_addr(&name) {
                self.blocks.push(block);
                self.left = first + 1..first + BLOCK;
                return first;
            }
        }
        panic!("all ports from {PORTS:?} are taken by tests");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_handed_out_twice() {
        let addresses: BTreeSet<SocketAddr> = (0..1_000).map(|_| free_address()).collect();
        assert_eq!(addresses.len(), 1_000);
        // As another process has them.
        let mut others = Ports::new();
        let shared = (0..100).map(|_| others.next());
        assert_eq!(shared.filter(|one| addresses.contains(one)).count(), 0);
    }

    #[test]
    fn the_kernel_gives_nobody_a_port_of_ours() {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let range = range.expect("the ports that the kernel gives");
        let first = range.split_whitespace().next().expect("the first one");
        let first: u16 = first.parse().expect("a number");
        assert!(PORTS.end <= first, "{range}");
    }
}
