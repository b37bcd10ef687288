//! What runs on the targets, and the rules of what may begin, judged from outside: from what begins
//! on a backend and from what executors are told.

use crate::{checks, journal::Journal};
use rallypoint::{
    core::{
        Assignment, Attempt, Completion, Delivery, Epoch, Handle, Outcome, Report, Seq, Time,
        Unresolved,
    },
    executor_protocol::{Host, Token},
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

#[derive(Default)]
pub(crate) struct Targets {
    /// By backend.
    running: BTreeMap<i32, (Handle, Seq, Token)>,
    /// Backends that have ended.
    dead: BTreeSet<i32>,
    begun: BTreeSet<Token>,
    /// Counted as not started.
    never: BTreeSet<Token>,
    /// The youngest ownership for which an executor was admitted.
    admitted: BTreeMap<Uuid, Epoch>,
    /// What a hub calls an attempt: by its process.
    named: BTreeMap<(Uuid, Handle, Seq, Attempt), Token>,
    /// Reported as a success, and arrived at the process that owns the shard.
    arrived: BTreeSet<(Uuid, Token)>,
    /// The core of that process has been told how these ended: saying it again changes nothing.
    taken_up: BTreeSet<(Uuid, Token)>,
    /// What exactly-once tasks have committed.
    markers: BTreeSet<(Handle, Seq)>,
    /// Backends that run such tasks.
    exact: BTreeSet<i32>,
}

impl Targets {
    /// A text begins.
    pub(crate) fn begin(
        &mut self,
        pid: i32,
        token: Token,
        assignment: &Assignment,
        journal: &mut Journal,
    ) {
        let (handle, first) = (assignment.handle, assignment.first);
        let runs_it = |(h, seq, _): &&(Handle, Seq, Token)| (*h, *seq) == (handle, first);
        let other = self.running.values().find(runs_it);
        assert!(
            other.is_none(),
            "task {handle}/{} runs twice at a time: as {token:?} and as {other:?}",
            first.0
        );
        assert!(
            !self.never.contains(&token),
            "task {handle}/{} as {token:?} begins, and counts as not started",
            first.0
        );
        assert!(self.begun.insert(token), "{token:?} begins twice");
        assert!(!self.dead.contains(&pid), "a dead backend begins something");
        checks::begun(journal, handle, first, 1, true);
        self.running.insert(pid, (handle, first, token));
        if assignment.spec.options.delivery() == Delivery::ExactlyOnce {
            self.exact.insert(pid);
        }
    }

    /// A text ends by itself; false: its backend has ended before.
    pub(crate) fn end(&mut self, pid: i32) -> bool {
        self.exact.remove(&pid);
        self.running.remove(&pid).is_some()
    }

    /// The transaction of an exactly-once task is committed.
    pub(crate) fn commit(&mut self, handle: Handle, seq: Seq) {
        let first = self.markers.insert((handle, seq));
        assert!(first, "{handle}/{} is done twice", seq.0);
    }

    pub(crate) fn has_marker(&self, handle: Handle, seq: Seq) -> bool {
        self.markers.contains(&(handle, seq))
    }

    /// A target says what became of a task of which nothing runs any more.
    pub(crate) fn resolve(&self, lost: &Unresolved, now: Time) -> Completion {
        let (handle, seq) = (lost.handle, lost.seq);
        let runs = |(h, s, _): &(Handle, Seq, Token)| (*h, *s) == (handle, seq);
        assert!(
            !self.running.values().any(runs),
            "{handle}/{} still runs, and its target is asked for its marker",
            seq.0
        );
        Completion {
            handle,
            first: seq,
            attempt: lost.attempt,
            report: match self.has_marker(handle, seq) {
                true => Report::Succeeded(None),
                false => Report::Lost,
            },
            started: now,
            ended: now,
            slot: 1,
            backend_pid: 1,
            diagnostics: Default::default(),
        }
    }

    /// After the end of everything: what is told of an exactly-once task is what it has done.
    pub(crate) fn tell_the_truth(&self, journal: &Journal) {
        for tables in &journal.schedulers {
            for (task, seq) in tables.tasks.iter().zip(1..) {
                let succeeded = match task.ended {
                    Some((outcome, _)) if task.exactly_once => outcome == Outcome::Succeeded,
                    _ => continue,
                };
                let done = self.has_marker(tables.handle(), Seq(seq));
                assert_eq!(
                    succeeded,
                    done,
                    "{}/{seq} has ended, and has done what is not told of it",
                    tables.handle()
                );
            }
        }
    }

    /// A backend ends, and what it ran.
    pub(crate) fn kill(&mut self, pid: i32) {
        self.dead.insert(pid);
        let ran = self.running.remove(&pid);
        // Of some the commit was done, and its answer is lost.
        if self.exact.remove(&pid)
            && let Some((handle, seq, token)) = ran
            && token.serial.is_multiple_of(3)
        {
            self.commit(handle, seq);
        }
    }

    pub(crate) fn is_dead(&self, pid: i32) -> bool {
        self.dead.contains(&pid)
    }

    /// An executor takes an assignment: not from an older owner than the one it was admitted by.
    pub(crate) fn taken(&self, run: Uuid, token: Token) {
        let admitted = self.admitted.get(&run);
        assert!(
            admitted.is_none_or(|epoch| token.epoch >= *epoch),
            "{token:?} is taken by an executor that works for {admitted:?}"
        );
    }

    /// An owner admits an executor.
    pub(crate) fn admit(&mut self, run: Uuid, epoch: Epoch) {
        let admitted = self.admitted.entry(run).or_default();
        *admitted = epoch.max(*admitted);
    }

    /// The hub of a process gives an attempt this name.
    pub(crate) fn name(&mut self, run: Uuid, of: (Handle, Seq, Attempt), token: Token) {
        let named = self.named.entry((run, of.0, of.1, of.2)).or_insert(token);
        *named = token.max(*named);
    }

    /// A success has arrived at the process of an owner, in a session that it has admitted, and
    /// was not taken up yet.
    pub(crate) fn arrives(&mut self, run: Uuid, token: Token, report: &Report) {
        if let Report::Succeeded(_) = report
            && !self.taken_up.contains(&(run, token))
        {
            self.arrived.insert((run, token));
        }
    }

    /// An ownership of this process has ended: executors report everything anew.
    pub(crate) fn disband(&mut self, run: Uuid) {
        self.arrived.retain(|(at, _)| *at != run);
        self.taken_up.retain(|(at, _)| *at != run);
    }

    /// A hub says to its core how an attempt ended. `owner`: its word counts; what an overtaken one
    /// says never becomes durable, and rests on a register that is the next owner's by now.
    pub(crate) fn said(
        &mut self,
        run: Uuid,
        owner: bool,
        of: (Handle, Seq, Attempt),
        report: &Report,
        journal: &Journal,
    ) {
        let named = self.named.remove(&(run, of.0, of.1, of.2));
        let Some(token) = named.filter(|_| owner) else {
            return;
        };
        self.taken_up.insert((run, token));
        let arrived = self.arrived.remove(&(run, token));
        let tables = journal.tables(of.0).expect("a known scheduler");
        assert!(
            !arrived || !is_lost(report) || tables.task(of.1).ended.is_some(),
            "{token:?} succeeded, its report has arrived, and it counts as lost"
        );
        if *report != Report::NotStarted {
            return;
        }
        assert!(
            !self.begun.contains(&token),
            "{token:?} counts as not started, and began"
        );
        self.never.insert(token);
    }

    /// An executor is told that a success need not be kept: it is on record, or its host was
    /// fenced, so that the task runs again.
    pub(crate) fn acknowledged(
        &self,
        host: Host,
        of: (Handle, Seq),
        report: &Report,
        journal: &Journal,
    ) {
        // A result that cannot be stored is a failure.
        let Report::Succeeded(None) = report else {
            return;
        };
        let tables = journal.tables(of.0).expect("a known scheduler");
        let ended = tables.task(of.1).ended.map(|(outcome, _)| outcome);
        assert!(
            ended.is_some_and(|outcome| outcome != Outcome::Exhausted)
                || journal.register.is_fenced(host),
            "task {}/{} succeeded, is acknowledged, and its outcome is {ended:?}",
            of.0,
            of.1.0
        );
    }
}

/// Whether a hub says so of what ran on a fenced host.
fn is_lost(report: &Report) -> bool {
    *report == Report::Lost
}
