//! The executors of all replicas, as the owner of the shard sees them: one pool of slots for the
//! core.
//!
//! It knows who was given what, by tokens of its own, so that a report of anybody else is stale,
//! and picks who is given the next assignment. What a lost executor had is given back or counts as
//! lost only when its sessions are known to have ended. It does no I/O, reads no clock, and decides
//! nothing about tasks.

pub(crate) mod assignments;
mod hand_out;
pub(crate) mod member;
#[cfg(test)]
mod tests;

use super::event::Effect;
use crate::{
    core::{
        Assignment, Attempt, Command, Completion, Epoch, Handle, Report, Seq, SlotCounts, Time,
        Work,
    },
    executor_protocol::{Body, Event, ExecutorId, ExecutorReport, Hello, Host, Instruction, Token},
};
use assignments::Given;
use bytes::Bytes;
use member::Member;
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    collections::{BTreeMap, VecDeque, hash_map::Entry},
    mem,
};
use uuid::Uuid;

/// Why an executor is not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is being fenced, and must come as its next incarnation.
    Fenced,
    /// What it says is older than what is known.
    Stale,
}

/// The pool of one ownership.
#[derive(Debug, Default)]
pub(crate) struct ExecutorPool {
    pub epoch: Epoch,
    /// The first of our ownerships in a row: since then no other replica has owned the shard.
    pub since: Epoch,
    /// Set by whoever feeds the pool.
    pub now: Time,
    pub effects: Vec<Effect>,
    pub members: BTreeMap<ExecutorId, Member>,
    pub given: FxHashMap<(Handle, Seq), Given>,
    /// Handed out by the core before a slot is free: bounded by the slots it was told of.
    pub waiting: VecDeque<(Assignment, Body)>,
    /// The latest session of each replica since then; a hello of an earlier one is stale.
    sessions: FxHashMap<Uuid, u64>,
    reported: FxHashSet<Host>,
    /// Those who are being fenced: they cannot come back under this incarnation.
    fenced: FxHashSet<Host>,
    serial: u64,
}

impl ExecutorPool {
    /// Begins afresh, for an ownership that follows on another replica's, or for none (0).
    pub(crate) fn reset(&mut self, epoch: Epoch) {
        let effects = mem::take(&mut self.effects);
        *self = ExecutorPool {
            epoch,
            since: epoch,
            now: self.now,
            effects,
            ..ExecutorPool::default()
        };
    }

    /// Whether a hello may be heard at all.
    pub(crate) fn hears(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.epoch < self.since || self.sessions.get(&hello.host.replica) > Some(&hello.session)
        {
            return Err(Refusal::Stale);
        }
        match self.fenced.contains(&hello.host) {
            true => Err(Refusal::Fenced),
            false => Ok(()),
        }
    }

    /// Takes an executor in whose hello is heard. The core learns what it has, then its slots, then
    /// what has ended.
    pub(crate) fn join(&mut self, member: ExecutorId, hello: Hello, local: bool) {
        let Hello {
            host,
            session,
            snapshot,
            ..
        } = hello;
        self.sessions.insert(host.replica, session);
        self.reported.insert(host);
        let before = self.remove(|member| member.host.replica == host.replica);
        self.members
            .insert(member, Member::new(host, local, &snapshot));
        let claimed = self.claim(host, &snapshot.attempts);
        self.tell(Command::Reported(claimed));
        let never_arrived = self.end_what_never_arrived(host, &snapshot.attempts);
        self.count_held(host);
        let works = snapshot.slots.into_iter().map(|(work, _)| work);
        for work in before.into_iter().chain(works) {
            self.tell_slots(work);
        }
        self.effects.extend(never_arrived);
        let completed = |(token, completion)| Event::Completed(token, completion);
        let events = snapshot.completions.into_iter().map(completed).collect();
        self.report(ExecutorReport::of(member, events));
    }

    /// The session of an executor has ended: it is given nothing more. Returns who it was, unless
    /// it has come again in another session.
    pub(crate) fn leave(&mut self, member: ExecutorId) -> Option<Host> {
        let host = self.members.get(&member)?.host;
        for work in self.remove(|member| member.host == host) {
            self.tell_slots(work);
        }
        Some(host)
    }

    /// What an executor reports, as far as it concerns the core. Returns who is gone when its
    /// session ended behind that.
    pub(crate) fn report(&mut self, report: ExecutorReport) -> Option<Host> {
        for event in report.events {
            match event {
                Event::Slots { work, total } => {
                    let Some(member) = self.members.get_mut(&report.member) else {
                        continue;
                    };
                    member.slots.insert(work.clone(), total);
                    self.tell_slots(work);
                }
                Event::Completed(token, completion) => {
                    if let Some(completion) = self.accept(report.member, token, completion) {
                        self.tell_completed(completion);
                    }
                }
            }
        }
        let gone = report.ended.then(|| self.leave(report.member)).flatten();
        self.hand_out_waiting();
        gone
    }

    /// Hands these out. Work without a session is done when this returns.
    pub(crate) fn dispatch(&mut self, work: Vec<(Assignment, Option<Body>)>) {
        for (assignment, body) in work {
            if !assignment.spec.work.has_session() {
                self.end_unstarted(&assignment, Report::Succeeded(None));
            } else {
                self.hand_out(assignment, body.unwrap_or_default());
            }
        }
    }

    pub(crate) fn stop(&mut self, handle: Handle, first: Seq, attempt: Attempt) {
        let is_stopped = |(a, _): &(Assignment, Body)| {
            (a.handle, a.first, a.attempt) == (handle, first, attempt)
        };
        if let Some(at) = self.waiting.iter().position(is_stopped)
            && let Some((assignment, _)) = self.waiting.remove(at)
        {
            self.end_unstarted(&assignment, Report::NotStarted);
        } else if let Some(given) = self
            .given
            .get(&(handle, first))
            .filter(|given| given.running.attempt == attempt)
        {
            let (host, token) = (given.host, given.token);
            self.send(host, Instruction::Stop(token));
        }
    }

    /// Ends an assignment that nobody was given.
    pub(crate) fn end_unstarted(&mut self, assignment: &Assignment, report: Report) {
        let Assignment {
            handle,
            first,
            attempt,
            ..
        } = *assignment;
        self.tell_completed(Completion {
            handle,
            first,
            attempt,
            report,
            started: self.now,
            ended: self.now,
            slot: 0,
            backend_pid: 0,
            diagnostics: Bytes::new(),
        });
    }

    /// These are durably over: their executors need not keep them.
    pub(crate) fn over(&mut self, over: &[(Handle, Seq, Attempt)]) {
        let mut acknowledged: BTreeMap<ExecutorId, Vec<Token>> = BTreeMap::new();
        for (handle, first, attempt) in over {
            let Entry::Occupied(given) = self.given.entry((*handle, *first)) else {
                continue;
            };
            if !given.get().over || given.get().running.attempt != *attempt {
                continue;
            }
            let given = given.remove();
            let mut members = self.members.iter_mut();
            if let Some((id, member)) = members.find(|(_, member)| member.host == given.host) {
                member.release(&given.work);
                acknowledged.entry(*id).or_default().push(given.token);
            }
        }
        // One message each: a batch may hold more ends than may be on their way to an executor.
        let acknowledge = |(id, tokens)| Effect::Send(id, Instruction::Acknowledge(tokens));
        self.effects
            .extend(acknowledged.into_iter().map(acknowledge));
        self.hand_out_waiting();
    }

    /// Whether this executor has reported in this or a later incarnation: it is there, or its loss
    /// is already known.
    pub(crate) fn has_reported(&self, host: Host) -> bool {
        self.reported
            .iter()
            .any(|other| other.replica == host.replica && *other >= host)
    }

    /// Whether this very incarnation has reported, so that what it had is given to it as far as the
    /// core knows.
    pub(crate) fn has_reported_as(&self, host: Host) -> bool {
        self.reported.contains(&host)
    }

    /// From now on nobody comes back under this incarnation. Fails when it is there.
    pub(crate) fn shut_out(&mut self, host: Host) -> bool {
        let gone = self.id_of(host).is_none();
        if gone {
            self.fenced.insert(host);
        }
        gone
    }

    /// A completion, unless it is stale: then its executor is told so. The token alone says whose
    /// word counts: what was said in a session before the present one is as true.
    fn accept(
        &mut self,
        member: ExecutorId,
        token: Token,
        completion: Completion,
    ) -> Option<Completion> {
        let given = self
            .given
            .get_mut(&(completion.handle, completion.first))
            .filter(|given| given.token == token);
        let Some(given) = given else {
            let stale = Instruction::Acknowledge(vec![token]);
            if self.members.contains_key(&member) {
                self.effects.push(Effect::Send(member, stale));
            }
            return None;
        };
        if mem::replace(&mut given.over, true) {
            return None;
        }
        let (host, work) = (given.host, given.work.clone());
        self.vacate(host, work);
        Some(completion)
    }

    /// Something that an executor was given has ended.
    fn vacate(&mut self, host: Host, work: Work) {
        let mut members = self.members.values_mut();
        let member = members.find(|member| member.host == host);
        let has_slots = member.is_some_and(|member| {
            member.vacate(&work);
            member.total(&work) > 0
        });
        if !has_slots {
            self.tell_slots(work);
        }
    }

    pub(crate) fn id_of(&self, host: Host) -> Option<ExecutorId> {
        let is_host = |(_, member): &(&ExecutorId, &Member)| member.host == host;
        self.members.iter().find(is_host).map(|(id, _)| *id)
    }

    fn send(&mut self, host: Host, instruction: Instruction) {
        if let Some(id) = self.id_of(host) {
            self.effects.push(Effect::Send(id, instruction));
        }
    }

    /// Removes members; returns the kinds of slots they had.
    fn remove(&mut self, leaves: impl Fn(&Member) -> bool) -> Vec<Work> {
        let gone: Vec<ExecutorId> = self
            .members
            .iter()
            .filter(|(_, member)| leaves(member))
            .map(|(id, _)| *id)
            .collect();
        let mut works = Vec::new();
        for id in gone {
            works.extend(
                self.members
                    .remove(&id)
                    .into_iter()
                    .flat_map(|m| m.slots.into_keys()),
            );
            self.effects.push(Effect::HangUp(id));
        }
        works
    }

    fn tell_slots(&mut self, work: Work) {
        let mut counts = SlotCounts::default();
        for member in self.members.values() {
            let slots = member.total(&work);
            counts.total += slots;
            counts.window += slots.saturating_mul(member.begun_per_slot);
            counts.line += slots.saturating_mul(member.line_per_slot);
        }
        let with_slots = || self.members.values().filter(|one| one.total(&work) > 0);
        counts.spare = with_slots().map(|one| one.spare(&work)).min().unwrap_or(0);
        let with_slots: FxHashSet<Host> = with_slots().map(|one| one.host).collect();
        let open = self.given.values().filter(|given| !given.over);
        let open = open.filter(|given| given.work == work);
        for given in open.filter(|given| !with_slots.contains(&given.host)) {
            counts.away += 1;
            counts.away_in_line += u32::from(given.lined_up);
        }
        self.tell(Command::Slots {
            work,
            slots: counts,
        });
    }

    fn tell_completed(&mut self, completion: Completion) {
        self.tell(Command::Completed(vec![completion]));
    }

    fn tell(&mut self, command: Command) {
        self.effects.push(Effect::Command(command));
    }
}
