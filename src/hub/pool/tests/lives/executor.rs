//! An executor with its real desk and model slots: each slot has a session, registered before its first task, and a backend
//! that runs on when the process is paused or dead.

use super::outside::Outside;
use crate::{
    assignment::{Dispatch, Event, ExecutorReport, HeldAssignment, Link, Token},
    core::{Assignment, Completion, Report, Running, TaskError, Work},
    executor::Outbox,
    hub::pool::Instruction,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};
use tokio::sync::mpsc::error::TrySendError;
use uuid::Uuid;

pub(crate) struct Executor {
    pub run: Uuid,
    pub incarnation: i32,
    pub desk: Outbox,
    pub jobs: BTreeMap<Token, Job>,
    /// The sessions of free slots, by kind: each slot has one or none yet.
    free: BTreeMap<Work, Vec<Option<u32>>>,
    away: BTreeSet<Work>,
    /// What stands at the link's door.
    carrying: Option<(Link, Vec<Event>)>,
    giving_up: bool,
    /// Sessions that the register is still to forget.
    forgotten: Vec<u32>,
}

pub(crate) struct Job {
    assignment: Assignment,
    session: Option<u32>,
    began: bool,
    stop: bool,
}

impl Executor {
    pub(crate) fn new(run: Uuid, slots: &BTreeMap<Work, u32>) -> Self {
        let desk = Outbox::default();
        slots
            .iter()
            .for_each(|(work, total)| desk.slots(work.clone(), *total));
        let free = slots
            .iter()
            .map(|(work, total)| (work.clone(), vec![None; *total as usize]))
            .collect();
        let (jobs, away, forgotten) = Default::default();
        Executor {
            run,
            incarnation: 1,
            desk,
            jobs,
            free,
            away,
            carrying: None,
            giving_up: false,
            forgotten,
        }
    }

    /// Backends that run something.
    pub(crate) fn backends(&self) -> impl Iterator<Item = u32> {
        self.jobs
            .values()
            .filter(|job| job.began)
            .filter_map(|job| job.session)
    }

    pub(crate) fn obey(&mut self, message: Instruction, outside: &mut Outside) {
        match message {
            Instruction::Run(order) => self.dispatch(*order, outside),
            Instruction::Stop(token) => self
                .jobs
                .get_mut(&token)
                .into_iter()
                .for_each(|job| job.stop = true),
            Instruction::Acknowledge(tokens) => self.desk.acknowledge(&tokens),
        }
    }

    fn dispatch(&mut self, order: Dispatch, outside: &mut Outside) {
        let Dispatch {
            token, assignment, ..
        } = order;
        let Assignment {
            handle,
            first,
            count,
            attempt,
            ..
        } = assignment;
        let work = assignment.spec.work.clone();
        let running = Running {
            handle,
            first,
            count,
            attempt,
            since: outside.now,
        };
        if !self.desk.take(HeldAssignment {
            token,
            running,
            work: work.clone(),
        }) {
            return;
        }
        let slot = if self.away.contains(&work) {
            None
        } else {
            self.free.get_mut(&work).and_then(Vec::pop)
        };
        match slot {
            Some(session) => drop(self.jobs.insert(
                token,
                Job {
                    assignment,
                    session,
                    began: false,
                    stop: false,
                },
            )),
            None => self
                .desk
                .completed(token, completion(&assignment, Report::NotStarted, outside)),
        }
    }

    /// Something goes on here.
    pub(crate) fn act(&mut self, outside: &mut Outside) {
        self.forward();
        if let Some(pid) = self.forgotten.pop() {
            outside.journal.let_go(pid);
        }
        if !self.jobs.is_empty() {
            let at = outside.rng.place(self.jobs.len());
            let token = *self.jobs.keys().nth(at).expect("one of them");
            self.go_on(token, outside);
        }
        if outside.rng.percent(20)
            && let Some(work) = self.away.pop_first()
        {
            self.desk.slots(work.clone(), outside.slots[&work]);
        }
    }

    /// Carries to the owner what the link had no room for, as the desk's own task does.
    fn forward(&mut self) {
        while let Some((link, events)) = self.carrying.take().or_else(|| self.desk.next()) {
            if let Err(TrySendError::Full(told)) = link.out.try_send(ExecutorReport {
                member: link.member,
                events,
            }) {
                self.carrying = Some((link, told.events));
                return;
            }
        }
    }

    fn go_on(&mut self, token: Token, outside: &mut Outside) {
        let job = self.jobs.get_mut(&token).expect("just found");
        if job.began {
            if outside.chance(80) {
                return;
            }
            let report = outcome(job, outside);
            return self.end(token, report, outside);
        }
        let work = job.assignment.spec.work.clone();
        if let Some(pid) = job.session.take_if(|pid| outside.dead.contains(pid)) {
            self.forgotten.push(pid);
        }
        if job.session.is_none() {
            let can = !outside.chance(15);
            job.session = can
                .then(|| outside.journal.register(self.run, self.incarnation, &work))
                .flatten();
        }
        match job.session {
            None => {
                self.away.insert(work.clone());
                self.desk.slots(work, 0);
                self.end(token, Report::NotStarted, outside);
            }
            Some(_) if job.stop => self.end(token, Report::Stopped, outside),
            Some(pid) => {
                job.began = true;
                let at_most_once = job.assignment.spec.options.at_most_once();
                outside
                    .rules
                    .begins(pid, job.assignment.first, token, at_most_once);
            }
        }
    }

    fn end(&mut self, token: Token, report: Report, outside: &mut Outside) {
        let Job {
            assignment,
            mut session,
            ..
        } = self.jobs.remove(&token).expect("it was here");
        if let Some(pid) = session
            && (outside.dead.contains(&pid) || matches!(report, Report::TimedOut(_)))
        {
            // Interrupted, or gone: never used again, and the register need not keep it.
            outside.kill(pid);
            self.forgotten.insert(0, pid);
            session = None;
        }
        self.free
            .get_mut(&assignment.spec.work)
            .expect("a known kind")
            .push(session);
        self.desk
            .completed(token, completion(&assignment, report, outside));
    }

    /// If it is fenced, it gives everything up, and begins afresh when nothing runs any more. Says whether that is done.
    pub(crate) fn begins_afresh(&mut self, outside: &mut Outside) -> bool {
        if !outside.journal.is_fenced(self.run, self.incarnation) {
            return true;
        }
        if !mem::replace(&mut self.giving_up, true) {
            self.desk.give_up();
        }
        self.jobs.values_mut().for_each(|job| job.stop = true);
        if self.jobs.is_empty() {
            self.giving_up = false;
            self.readmit(outside);
        }
        !self.giving_up
    }

    fn readmit(&mut self, outside: &mut Outside) {
        self.free
            .values_mut()
            .flatten()
            .filter_map(Option::take)
            .for_each(|pid| outside.kill(pid));
        self.incarnation = outside.journal.readmit(self.run);
    }
}

/// How a text that runs ends.
fn outcome(job: &Job, outside: &mut Outside) -> Report {
    let error = |code: &str| {
        Arc::new(TaskError {
            code: code.into(),
            message: "so it is".into(),
        })
    };
    let pid = job.session.expect("it began in one");
    if outside.rules.running.remove(&pid).is_none() {
        return Report::Failed {
            error: error("CONNECTION_LOST"),
            transient: true,
        };
    }
    match outside.rng.below(20) {
        _ if job.stop && outside.rng.percent(80) => Report::Stopped,
        0..=1 => Report::Failed {
            error: error("22012"),
            transient: false,
        },
        2 => Report::Failed {
            error: error("40001"),
            transient: true,
        },
        3..=4 => Report::TimedOut(error("TIMEOUT")),
        _ => Report::Succeeded(None),
    }
}

fn completion(assignment: &Assignment, report: Report, outside: &Outside) -> Completion {
    let Assignment {
        handle,
        first,
        attempt,
        ..
    } = *assignment;
    let (started, ended) = (outside.now, outside.now);
    Completion {
        handle,
        first,
        attempt,
        report,
        started,
        ended,
        slot: 1,
        backend_pid: 1,
    }
}
