//! An executor with its real outbox and model slots: each slot has a session, registered before its
//! first task, and a backend that runs on when the process is paused or dead.

use super::outside::Outside;
use crate::executors::LONGEST_IN_LINE;
use rallypoint::{
    core::{Assignment, Completion, Delivery, Epoch, Report, Running, TaskError, Work},
    executor::{Line, Outbox},
    executor_protocol::{Dispatch, ExecutorId, HeldAssignment, Host, Instruction, Token},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

pub(crate) struct Executor {
    pub host: Host,
    /// The ownership when it was last entered in the register.
    pub enrolled_under: Epoch,
    pub outbox: Outbox,
    /// Where its reports go.
    pub link: Link,
    jobs: BTreeMap<Token, Job>,
    /// The sessions of free slots, by kind: each slot has one or none yet.
    free: BTreeMap<Work, Vec<Option<i32>>>,
    /// What stands in line for a slot, by kind.
    lines: BTreeMap<Work, Line<(Token, Assignment)>>,
    /// Kinds whose target cannot be reached.
    away: BTreeSet<Work>,
    giving_up: bool,
    /// Sessions that the register is still to forget.
    unused: Vec<i32>,
    /// Ended and not acknowledged.
    ended: BTreeMap<Token, Completion>,
}

/// The way of its reports to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    None,
    /// To the hub of its own process, which calls it so.
    Here(ExecutorId),
    /// Into the session with another replica.
    Elsewhere,
}

struct Job {
    assignment: Assignment,
    session: Option<i32>,
    began: bool,
    stop: bool,
}

impl Executor {
    pub(crate) fn new(host: Host, enrolled_under: Epoch, slots: &BTreeMap<Work, u32>) -> Self {
        let mut outbox = Outbox::default();
        for (work, total) in slots {
            outbox.set_slots(work.clone(), *total);
        }
        let free = |(work, total): (&Work, &u32)| (work.clone(), vec![None; *total as usize]);
        Executor {
            host,
            enrolled_under,
            outbox,
            link: Link::None,
            jobs: BTreeMap::new(),
            free: slots.iter().map(free).collect(),
            lines: BTreeMap::new(),
            away: BTreeSet::new(),
            giving_up: false,
            unused: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Backends that run something.
    pub(crate) fn backends(&self) -> impl Iterator<Item = i32> {
        let began = self.jobs.values().filter(|job| job.began);
        began.filter_map(|job| job.session)
    }

    pub(crate) fn is_idle(&self) -> bool {
        let jobs = self.jobs.is_empty() && !self.has_line();
        jobs && self.outbox.is_empty() && !self.giving_up && self.away.is_empty()
    }

    pub(crate) fn obey(&mut self, instruction: Instruction, outside: &mut Outside<'_>) {
        match instruction {
            Instruction::Run(dispatch) => self.take(*dispatch, outside),
            Instruction::Stop(token) => self.stop(token, outside),
            Instruction::Acknowledge(tokens) => {
                for ended in tokens.iter().filter_map(|token| self.ended.remove(token)) {
                    let of = (ended.handle, ended.first);
                    let journal = &outside.journal;
                    outside
                        .targets
                        .acknowledged(self.host, of, &ended.report, journal);
                }
                self.outbox.acknowledge(&tokens);
            }
        }
    }

    fn take(&mut self, dispatch: Dispatch, outside: &mut Outside<'_>) {
        let Dispatch {
            token,
            assignment,
            leaves_free,
            ..
        } = dispatch;
        let work = assignment.spec.work.clone();
        let held = HeldAssignment {
            token,
            running: Running {
                handle: assignment.handle,
                first: assignment.first,
                count: assignment.count,
                attempt: assignment.attempt,
                since: outside.now,
            },
            work: work.clone(),
        };
        if !self.outbox.take(held, assignment.is_numbered()) {
            return;
        }
        outside.targets.taken(self.host.replica, token);
        if self.away.contains(&work) || self.giving_up {
            return self.complete(token, &assignment, Report::NotStarted, outside);
        }
        let line = self.lines.entry(work.clone()).or_default();
        line.join(outside.now, (token, assignment), leaves_free);
        self.start(&work);
    }

    fn stop(&mut self, token: Token, outside: &Outside<'_>) {
        let mut lines = self.lines.values_mut();
        let is_it = |(other, _): &(Token, Assignment)| *other == token;
        if let Some((_, assignment)) = lines.find_map(|line| line.remove(is_it)) {
            self.complete(token, &assignment, Report::NotStarted, outside);
        } else if let Some(job) = self.jobs.get_mut(&token) {
            job.stop = true;
        }
    }

    /// Who is next in line takes a slot, while the target is there.
    fn start(&mut self, work: &Work) {
        if self.away.contains(work) {
            return;
        }
        let free = self.free.entry(work.clone()).or_default();
        let line = self.lines.entry(work.clone()).or_default();
        while let Some((token, assignment)) = line.next(free.len()) {
            let job = Job {
                assignment,
                session: free.pop().expect("one is free"),
                began: false,
                stop: false,
            };
            self.jobs.insert(token, job);
        }
    }

    fn has_line(&self) -> bool {
        self.lines.values().any(|line| line.since().is_some())
    }

    /// Those who have stood in line for so long leave it: what runs lasts too long, or there is
    /// nothing to run on.
    fn leave_lines(&mut self, longest: Duration, outside: &Outside<'_>) {
        let lines = self.lines.values_mut();
        let left: Vec<_> = lines
            .flat_map(|line| line.leave(outside.now, longest))
            .collect();
        for (token, assignment) in left {
            self.complete(token, &assignment, Report::NotStarted, outside);
        }
    }

    /// Something goes on here.
    pub(crate) fn act(&mut self, outside: &mut Outside<'_>) {
        if let Some(pid) = self.unused.pop() {
            outside.journal.register.let_go(pid);
        }
        if !self.jobs.is_empty() {
            let at = outside.rng.place(self.jobs.len());
            let token = *self.jobs.keys().nth(at).expect("one of them");
            self.go_on(token, outside);
        }
        if self.has_line() && outside.rng.percent(10) {
            let longest = outside.rng.up_to(LONGEST_IN_LINE);
            self.leave_lines(longest, outside);
        }
        if outside.rng.percent(20)
            && let Some(work) = self.away.pop_first()
        {
            self.start(&work);
            let total = outside.slots[&work];
            self.outbox.set_slots(work, total);
        }
    }

    fn go_on(&mut self, token: Token, outside: &mut Outside<'_>) {
        let job = self.jobs.get_mut(&token).expect("just found");
        if job.began {
            if outside.chance(80) {
                return;
            }
            let report = outcome(job, outside);
            return self.end(token, report, outside);
        }
        let work = job.assignment.spec.work.clone();
        if let Some(pid) = job.session.take_if(|pid| outside.targets.is_dead(*pid)) {
            self.unused.push(pid);
        }
        if job.session.is_none() && !outside.chance(15) {
            job.session = outside.journal.register.open(self.host, &work);
        }
        match job.session {
            None => {
                self.away.insert(work.clone());
                self.outbox.set_slots(work, 0);
                self.end(token, Report::NotStarted, outside);
            }
            Some(_) if job.stop => self.end(token, Report::Stopped, outside),
            Some(_)
                if outside
                    .targets
                    .has_marker(job.assignment.handle, job.assignment.first) =>
            {
                self.end(token, Report::Succeeded(None), outside);
            }
            Some(pid) => {
                job.began = true;
                let journal = &mut outside.journal;
                outside.targets.begin(pid, token, &job.assignment, journal);
            }
        }
    }

    fn end(&mut self, token: Token, report: Report, outside: &mut Outside<'_>) {
        let job = self.jobs.remove(&token).expect("it was here");
        let mut session = job.session;
        if let Some(pid) = session
            && (outside.targets.is_dead(pid) || matches!(report, Report::TimedOut(_)))
        {
            // Interrupted, or gone: never used again, and the register need not keep it.
            outside.targets.kill(pid);
            self.unused.insert(0, pid);
            session = None;
        }
        let work = &job.assignment.spec.work;
        let free = self.free.get_mut(work);
        free.expect("a known kind").push(session);
        self.start(work);
        self.complete(token, &job.assignment, report, outside);
    }

    fn complete(
        &mut self,
        token: Token,
        assignment: &Assignment,
        report: Report,
        outside: &Outside<'_>,
    ) {
        let completion = Completion {
            handle: assignment.handle,
            first: assignment.first,
            attempt: assignment.attempt,
            report,
            started: outside.now,
            ended: outside.now,
            slot: 1,
            backend_pid: 1,
            diagnostics: Default::default(),
        };
        if !self.giving_up {
            self.ended.insert(token, completion.clone());
        }
        self.outbox.complete(token, completion);
    }

    /// If it is fenced, it gives everything up, and begins afresh when nothing runs any more. Says
    /// whether that is done.
    pub(crate) fn begins_afresh(&mut self, outside: &mut Outside<'_>) -> bool {
        if !outside.journal.register.is_fenced(self.host) {
            return true;
        }
        if !mem::replace(&mut self.giving_up, true) {
            self.outbox.give_up();
            self.ended.clear();
            self.leave_lines(Duration::ZERO, outside);
        }
        self.jobs.values_mut().for_each(|job| job.stop = true);
        if !self.jobs.is_empty() {
            return false;
        }
        self.giving_up = false;
        for pid in self.free.values_mut().flatten().filter_map(Option::take) {
            outside.targets.kill(pid);
        }
        self.host.incarnation = outside.journal.register.readmit(self.host.replica);
        self.enrolled_under = outside.journal.epoch;
        true
    }
}

/// How a text that runs ends.
fn outcome(job: &Job, outside: &mut Outside<'_>) -> Report {
    let pid = job.session.expect("it began in one");
    let (handle, seq) = (job.assignment.handle, job.assignment.first);
    if !outside.targets.end(pid) {
        if outside.targets.has_marker(handle, seq) {
            return Report::Succeeded(None);
        }
        let error = TaskError {
            code: "CONNECTION_LOST".into(),
            message: "so it is".into(),
        };
        return Report::Failed {
            error: Arc::new(error),
            transient: true,
        };
    }
    match job.stop && outside.rng.percent(80) {
        true => Report::Stopped,
        false => {
            let report = outside.fixtures.report(outside.faults, &mut outside.rng);
            let once = job.assignment.spec.options.delivery() == Delivery::ExactlyOnce;
            if once && let Report::Succeeded(_) = report {
                outside.targets.commit(handle, seq);
            }
            report
        }
    }
}
