//! The server's process, which must not outlive ours, however ours ends.
//!
//! The kernel signals it when the *thread* that started it ends, so a dedicated thread starts it
//! and lives until it has ended. It has a process group of its own: Ctrl-C in a terminal signals
//! the whole group of ours, which needs it until we have stopped in order.
//!
//! Only this file may be unsafe: `pre_exec` has no safe form, and it runs only two system calls.
#![allow(unsafe_code)]

use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Pid, getppid},
};
use std::{
    io, mem,
    os::unix::process::CommandExt,
    process::{self, Command, ExitStatus},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// A process that ends when ours does.
pub(crate) struct Child {
    pid: Pid,
    ended: Arc<Ended>,
}

#[derive(Default)]
struct Ended {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Child {
    /// Starts it from a dedicated thread, which waits until the process has ended.
    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        let ended = Arc::new(Ended::default());
        let (tell, started) = mpsc::sync_channel(1);
        let watch = Arc::clone(&ended);
        thread::Builder::new()
            .name("private-postgres".into())
            .spawn(move || {
                command.process_group(0);
                bind_to_us(&mut command);
                match command.spawn() {
                    Ok(child) => {
                        // The receiver waits for this very message.
                        let _ = tell.send(Ok(Pid::from_raw(child.id() as i32)));
                        watch.over(child);
                    }
                    Err(error) => mem::drop(tell.send(Err(error))),
                }
            })?;
        let pid = started
            .recv()
            .context("the thread of the server ended")?
            .context("cannot start the server")?;
        Ok(Child { pid, ended })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        *self.ended.status()
    }

    /// Sends `signal`, and harder ones when it does not end within `timeout`. Returns when it has
    /// ended.
    pub(crate) fn stop(&self, signal: Signal, timeout: Duration) {
        for signal in [signal, Signal::SIGQUIT, Signal::SIGKILL] {
            self.signal(signal);
            let status = self.ended.status();
            let waited = self
                .ended
                .changed
                .wait_timeout_while(status, timeout, |status| status.is_none());
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_some() {
                return;
            }
        }
    }

    /// Under the lock a process that is not marked as ended has not been reaped, so its id is still
    /// its own.
    fn signal(&self, signal: Signal) {
        let status = self.ended.status();
        if status.is_none() {
            // It may have ended without having been reaped.
            let _ = kill(self.pid, signal);
        }
    }
}

impl Ended {
    fn status(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self, mut child: process::Child) {
        let pid = Pid::from_raw(child.id() as i32);
        while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR)
        {
        }
        let mut status = self.status();
        *status = Some(child.wait().unwrap_or_default());
        self.changed.notify_all();
    }
}

/// Runs in the child, after the change of account (which would undo this) and before exec.
fn bind_to_us(command: &mut Command) {
    let us = process::id();
    let bind = move || {
        prctl::set_pdeathsig(Signal::SIGINT)?;
        // If the parent died before that line, no signal would ever come.
        if getppid().as_raw() as u32 == us {
            Ok(())
        } else {
            Err(io::Error::from(Errno::ESRCH))
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made (prctl, getppid), and
    // nothing is allocated.
    unsafe { command.pre_exec(bind) };
}
