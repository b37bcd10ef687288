//! What the loop of a process releases: answers, hand-outs, stops; and bodies that come in later.

use super::{
    super::{executor::Executor, outside::Outside},
    Owner,
};
use crate::{checks, prefetch};
use rallypoint::{
    coordinator::machine::Release,
    core::{Action, Assignment, Attempt, Handle, Reply, Report, Seq, Ticket, Work},
    executor_protocol::Body,
    hub::event::{Answer, Event as HubEvent},
};
use std::mem;

impl Owner {
    pub(super) fn recover(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        let undecided = self.machine.undecided_tickets();
        let lost: Vec<Ticket> = self.asked.iter().copied().collect();
        for ticket in lost
            .into_iter()
            .filter(|ticket| !undecided.contains(ticket))
        {
            self.asked.remove(&ticket);
            outside.callers.lose(&[ticket]);
        }
        let questions = mem::take(&mut self.questions);
        for (ticket, no) in questions {
            if undecided.contains(&ticket) {
                self.questions.insert(ticket, no);
            } else {
                self.feed(HubEvent::Answered(no, Answer::Failed), executor, outside);
            }
        }
        self.rebuild = true;
    }

    pub(super) fn stand_by(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        // Its number has the last word on what is still on its way.
        if let Some(batch) = self.sent.take() {
            outside.journal.append(&batch);
        }
        self.lose_calls(outside);
        self.questions.clear();
        self.bodies.bodies.recovered(&[]);
        self.bodies.bodies.drop_waiting();
        self.awaiting = 0;
        self.rebuild = false;
        self.feed(HubEvent::Disband, executor, outside);
    }

    pub(super) fn release(
        &mut self,
        release: Release,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        if let Some(batch) = &release.batch {
            assert!(
                outside.journal.holds(batch),
                "batch {} is released before it is durable",
                batch.no.0
            );
            self.bodies.bodies.durable(&batch.records);
        }
        self.feed(HubEvent::Over(release.over), executor, outside);
        let mut work = Vec::new();
        for action in release.actions {
            match action {
                Action::Reply(ticket, reply) => self.reply(ticket, &reply, executor, outside),
                Action::Dispatch(assignment) => {
                    if assignment.spec.work == Work::Noop {
                        let (first, count) = (assignment.first, assignment.count);
                        let journal = &mut outside.journal;
                        checks::begun(journal, assignment.handle, first, count, true);
                        work.push((assignment, None));
                    } else {
                        self.awaiting += 1;
                        work.extend(self.bodies.bodies.take(assignment).inspect(|_| {
                            self.awaiting -= 1;
                        }));
                    }
                }
                Action::Resolve(one) => {
                    self.feed(HubEvent::Resolve(one), executor, outside);
                }
                Action::Stop {
                    handle,
                    first,
                    attempt,
                } => self.stop((handle, first, attempt), executor, outside),
            }
        }
        self.hand_out(work, executor, outside);
        let over = release
            .progress
            .iter()
            .filter(|(_, progress)| progress.pending == 0);
        for (handle, _) in over {
            self.bodies.bodies.forget(*handle);
        }
    }

    fn stop(
        &mut self,
        (handle, first, attempt): (Handle, Seq, Attempt),
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        let stop = HubEvent::Stop {
            handle,
            first,
            attempt,
        };
        let event = match self.bodies.bodies.stop(handle, first, attempt) {
            Some(assignment) => {
                self.awaiting -= 1;
                HubEvent::Decline(assignment, Report::NotStarted)
            }
            None => stop,
        };
        self.feed(event, executor, outside);
    }

    pub(super) fn reply(
        &mut self,
        ticket: Ticket,
        reply: &Reply,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        if let Some(no) = self.questions.remove(&ticket) {
            return self.feed(HubEvent::Answered(no, Answer::Done), executor, outside);
        }
        self.asked.remove(&ticket);
        let Some(pending) = outside.callers.pending.remove(&ticket) else {
            return;
        };
        if matches!(reply, Reply::Submitted { .. } | Reply::Scheduler(_)) {
            checks::answered(&outside.journal, &mut outside.callers, &pending, reply);
        }
    }

    /// Bodies come in, and what waited for them is handed out.
    pub(crate) fn bodies_arrive(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        let faults = outside.faults;
        let ready = self.bodies.read(&outside.journal, faults, &mut outside.rng);
        self.awaiting -= ready.len();
        self.hand_out(ready, executor, outside);
    }

    pub(super) fn hand_out(
        &mut self,
        work: Vec<(Assignment, Option<Body>)>,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        let with_session = work.iter().filter(|(a, _)| a.spec.work != Work::Noop);
        for (assignment, body) in with_session {
            prefetch::check(&outside.journal, assignment, body.as_ref());
        }
        if !work.is_empty() {
            self.feed(HubEvent::Dispatch(work), executor, outside);
        }
    }
}
