//! The model register of executors and their sessions, as the real one keeps it
//! (`src/journal/ownership/target_sessions.rs`): a fenced incarnation opens no more sessions, and
//! the last session on a target stays until its executor is fenced.

use rallypoint::{
    core::{Epoch, Time, Work},
    executor_protocol::Host,
    hub::event::{Enrolled, Life},
    journal::Session,
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

#[derive(Default)]
pub(crate) struct Register {
    executors: BTreeMap<Uuid, Row>,
    /// By backend.
    sessions: BTreeMap<i32, Session>,
    last_pid: i32,
}

struct Row {
    incarnation: i32,
    fenced: i32,
}

impl Register {
    pub(crate) fn enrol(&mut self, run: Uuid) {
        let row = Row {
            incarnation: 1,
            fenced: 0,
        };
        self.executors.insert(run, row);
    }

    pub(crate) fn executors(&self) -> usize {
        self.executors.len()
    }

    pub(crate) fn is_fenced(&self, host: Host) -> bool {
        let row = self.executors.get(&host.replica);
        row.is_none_or(|row| row.fenced >= host.incarnation)
    }

    /// Refused to whoever is not the owner any more.
    pub(crate) fn fence(&mut self, host: Host, epoch: Epoch, present: Epoch) -> bool {
        if epoch == present
            && let Some(row) = self.executors.get_mut(&host.replica)
        {
            row.fenced = row.fenced.max(host.incarnation);
        }
        epoch == present
    }

    /// The next incarnation of an executor.
    pub(crate) fn readmit(&mut self, run: Uuid) -> i32 {
        let row = self.executors.get_mut(&run).expect("an enrolled executor");
        row.incarnation = row.incarnation.max(row.fenced) + 1;
        row.incarnation
    }

    /// The executors of others that are not fenced.
    pub(crate) fn not_fenced(&self, me: Uuid, living: &BTreeSet<Uuid>) -> Vec<Enrolled> {
        let others = self.executors.iter().filter(|(run, _)| **run != me);
        others
            .filter(|(_, row)| row.fenced < row.incarnation)
            .map(|(run, row)| Enrolled {
                replica: *run,
                incarnation: row.incarnation,
                life: match living.contains(run) {
                    true => Life::Alive,
                    false => Life::Ended,
                },
            })
            .collect()
    }

    /// A session for a slot; `None`: its executor is fenced.
    pub(crate) fn open(&mut self, host: Host, work: &Work) -> Option<i32> {
        let Work::Sql { target } = work else {
            panic!("a session for work without one");
        };
        if self.is_fenced(host) {
            return None;
        }
        self.last_pid += 1;
        let session = Session {
            replica: host.replica,
            incarnation: host.incarnation,
            target: target.clone(),
            slot: 1,
            backend_pid: self.last_pid,
            backend_start: Time(0),
            postmaster: None,
        };
        self.sessions.insert(self.last_pid, session);
        Some(self.last_pid)
    }

    /// Its executor has no more use for a session.
    pub(crate) fn let_go(&mut self, pid: i32) {
        let Some(gone) = self.sessions.get(&pid) else {
            return;
        };
        let is_like = |other: &Session| {
            other.backend_pid != pid
                && (other.replica, other.incarnation, &other.target)
                    == (gone.replica, gone.incarnation, &gone.target)
        };
        if self.sessions.values().any(is_like) {
            self.sessions.remove(&pid);
        }
    }

    pub(crate) fn of_fenced(&self) -> Vec<Session> {
        let is_fenced = |session: &&Session| {
            self.is_fenced(Host {
                replica: session.replica,
                incarnation: session.incarnation,
            })
        };
        self.sessions.values().filter(is_fenced).cloned().collect()
    }

    pub(crate) fn forget(&mut self, pid: i32) {
        self.sessions.remove(&pid);
    }
}
