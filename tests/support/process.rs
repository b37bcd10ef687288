//! `rallypoint serve` as a process of its own: the one way in which tests start the real program.
//!
//! A process is started, signalled, killed and started again with the same command line. It is
//! killed when its value is dropped, so that no test leaves one behind. It knows nothing of what
//! the server does.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    env,
    ffi::OsStr,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rallypoint");

/// A server process, running or not.
pub(crate) struct Process {
    command: Command,
    child: Option<Child>,
}

impl Process {
    /// A process that is not started yet, with these options of `serve`.
    #[allow(dead_code)] // The campaign says which program.
    pub(crate) fn serve<O: AsRef<OsStr>>(options: impl IntoIterator<Item = O>) -> Process {
        Process::serve_by(Path::new(PROGRAM), options)
    }

    /// The same by another build of the program.
    ///
    /// Its log goes nowhere, or to stderr with RALLYPOINT_TEST_LOG=1.
    pub(crate) fn serve_by<O: AsRef<OsStr>>(
        program: &Path,
        options: impl IntoIterator<Item = O>,
    ) -> Process {
        let log = if env::var_os("RALLYPOINT_TEST_LOG").is_some() {
            Stdio::inherit()
        } else {
            Stdio::null()
        };
        let mut command = Command::new(program);
        command
            .arg("serve")
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Process {
            command,
            child: None,
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

    /// Sends a signal, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            kill(pid, signal).expect("our own child");
        }
    }

    /// Kills it at once: it gets no chance to write or to say anything.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
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

/// An address on this machine that nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
}
