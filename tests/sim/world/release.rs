//! What the loop releases is judged, and done: answers reach callers, tasks reach executors once
//! their body is there.

use super::{CLEARED, World};
use crate::{checks, claimants::Claimants, job_keepers::JobKeepers, prefetch};
use rallypoint::{
    coordinator::machine::Release,
    core::{Action, Assignment, Reply, Ticket, Time, Work},
    executor_protocol::Body,
};

impl World<'_> {
    pub(super) fn release(&mut self, release: Release) {
        checks::released(&self.journal, &release);
        let batch = release.batch.as_deref();
        self.executors.acknowledged(&release.over);
        if let Some(batch) = batch {
            self.prefetch.bodies.durable(&batch.records);
        }
        for action in release.actions {
            self.journal.oracle.acts(self.now, batch, &action);
            match action {
                Action::Reply(CLEARED, _) => {
                    self.survivors = None;
                    let unstopped = self.executors.unstopped();
                    self.journal.oracle.nothing_goes_on_unasked(&unstopped);
                }
                Action::Reply(ticket, reply) if JobKeepers::waits(ticket) => {
                    self.job_keepers.answered(ticket, &reply);
                }
                Action::Reply(ticket, reply) if Claimants::waits(ticket) => {
                    let renewed = self.claimants.answered(ticket, &reply);
                    if let Some((claim, asked_at)) = renewed {
                        self.journal.oracle.resources.renewed(claim, asked_at);
                    }
                }
                Action::Reply(ticket, reply) => self.answer(ticket, &reply),
                Action::Dispatch(assignment) => {
                    let state = self.journal.oracle.executors_then(batch).clone();
                    let early = batch.is_none();
                    let (journal, executors) = (&mut self.journal, &self.executors);
                    checks::dispatched(journal, executors, &state, early, &assignment);
                    if let Some(window) = self.window().get(&assignment.spec.work) {
                        checks::would_be_in_doubt(&self.journal, *window, &assignment);
                    }
                    self.hand_out(assignment);
                }
                Action::Resolve(one) => unreachable!("no task here runs exactly once: {one:?}"),
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => match self.prefetch.bodies.stop(handle, first, attempt) {
                    Some(assignment) => self.executors.decline(self.now, &assignment),
                    None => self
                        .executors
                        .stop(self.now, handle, first, attempt, &mut self.rng),
                },
            }
        }
        for (handle, _) in release
            .progress
            .iter()
            .filter(|(_, progress)| progress.pending == 0)
        {
            self.prefetch.bodies.forget(*handle);
        }
    }

    fn answer(&mut self, ticket: Ticket, reply: &Reply) {
        let pending = self
            .callers
            .pending
            .remove(&ticket)
            .expect("an answer nobody waits for");
        let namespace = self.callers.namespace(pending.handle);
        let call = (pending.handle, &pending.verb);
        self.journal.oracle.use_now(pending.handle, self.now);
        self.journal
            .oracle
            .answered(self.now, (ticket, reply), &namespace, call);
        let (journal, callers) = (&self.journal, &mut self.callers);
        match reply {
            Reply::Rejected(reject) => {
                checks::refused(self.now, journal, callers, (&pending, reject));
            }
            reply => checks::answered(journal, callers, &pending, reply),
        }
    }

    fn hand_out(&mut self, assignment: Assignment) {
        if assignment.spec.work == Work::Noop {
            return self.begin(assignment);
        }
        self.executors.awaiting.push(assignment.clone());
        let here = self.prefetch.bodies.take(assignment);
        here.into_iter()
            .for_each(|(assignment, body)| self.begin_with(assignment, body));
    }

    fn begin_with(&mut self, assignment: Assignment, body: Option<Body>) {
        prefetch::check(&self.journal, &assignment, body.as_ref());
        self.executors.awaited(&assignment);
        self.begin(assignment);
    }

    fn begin(&mut self, assignment: Assignment) {
        let (handle, first, count) = (assignment.handle, assignment.first, assignment.count);
        let work = assignment.spec.work.clone();
        let refuses = work != Work::Noop && self.faults && self.rng.percent(4);
        checks::begun(&mut self.journal, handle, first, count, false);
        if self.executors.take(self.now, assignment, refuses) {
            self.start(&work);
        }
    }

    /// Who stands in line begins on slots that are free.
    fn start(&mut self, work: &Work) {
        let slots = match work {
            Work::Noop => u32::MAX,
            _ => self.journal.oracle.slots_of(work),
        };
        let by_chance = (self.faults, &mut self.rng);
        let begun = (self.executors).start(self.now, (work, slots), self.fixtures, by_chance);
        for (handle, first, count) in begun {
            checks::begun(&mut self.journal, handle, first, count, true);
        }
    }

    /// What has ended by now leaves its slot to who is next in line.
    pub(super) fn executors_go_on(&mut self) {
        self.executors.finish(self.now);
        for work in &self.fixtures.targets {
            self.start(work);
        }
        self.executors.give_back(self.now, &mut self.rng);
    }

    pub(super) fn bodies_arrive(&mut self) {
        for (assignment, body) in self
            .prefetch
            .read(&self.journal, self.faults, &mut self.rng)
        {
            self.begin_with(assignment, body);
        }
    }

    /// Nothing is under way: only time can change anything.
    pub(super) fn is_quiet(&self) -> bool {
        let awaiting = !self.executors.awaiting.is_empty() || self.executors.has_line();
        let executing =
            self.executors.next_end() != Time::NEVER || self.executors.has_reports() || awaiting;
        self.sent.is_none()
            && !self.recovering
            && self.survivors.is_none()
            && !executing
            && self.machine.backlog() == 0
    }
}
