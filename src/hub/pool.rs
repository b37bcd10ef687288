//! The executors of all replicas, as the owner of the shard sees them: one pool of slots for the core.
//!
//! It knows who was given what, by tokens of its own, so that a report of anybody else is stale, and picks who is given
//! the next. It never waits: an executor that takes nothing off its way is let go, and reports again. What a lost
//! executor had is given back or counts as lost only when its sessions are known to have ended. It decides nothing about tasks.

pub(crate) mod assignments;
pub(crate) mod member;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use member::{Host, Instruction, Joining, Refusal, Route};

use crate::{
    assignment::{Body, Dispatch, Event, ExecutorId, ExecutorReport, Token},
    clock::Clock,
    core::{
        Assignment, Attempt, Command, Completion, Epoch, Handle, Report, Running, Seq, TaskError,
        Work,
    },
};
use member::Member;
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// The pool. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    noop_slots: u32,
}

struct State {
    clock: Clock,
    epoch: Epoch,
    /// The ownership since which nobody else has had the shard.
    since: Epoch,
    /// The latest session of each replica since then: what was said before it and comes late says nothing.
    sessions: FxHashMap<Uuid, u64>,
    /// Who has reported since then.
    reported: FxHashSet<Host>,
    serial: u64,
    members: BTreeMap<ExecutorId, Member>,
    given: FxHashMap<(Handle, Seq), Given>,
    /// The core gave them out, and no slot is free yet: bounded by the slots it was told of.
    waiting: VecDeque<(Assignment, Body)>,
    /// Over as soon as given out.
    done: Vec<Completion>,
    /// Those who are being fenced: they cannot come back as who they were.
    fenced: FxHashSet<Host>,
    last_member: u64,
}

/// An assignment that somebody has.
struct Given {
    host: Host,
    token: Token,
    running: Running,
    work: Work,
    /// Its completion is on its way into the journal.
    over: bool,
}

impl Pool {
    /// An empty one. Work without a session is done here, by the owner itself.
    pub(crate) fn new(noop_slots: u32, clock: Clock) -> Self {
        Pool(Arc::new(Shared {
            state: Mutex::new(State::new(clock, 0)),
            noop_slots,
        }))
    }

    /// Begins an ownership. `anew`: others have owned the shard since, and everybody reports anew.
    pub(crate) fn begin(&self, epoch: Epoch, anew: bool) {
        let mut state = self.state();
        if anew {
            *state = State::new(state.clock.clone(), state.last_member);
            state.since = epoch;
        }
        state.epoch = epoch;
    }

    /// The shard is another's: everybody goes.
    pub(crate) fn disband(&self) {
        let mut state = self.state();
        *state = State::new(state.clock.clone(), state.last_member);
    }

    /// The present ownership.
    pub(crate) fn epoch(&self) -> Epoch {
        self.state().epoch
    }

    /// Nobody is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().members.is_empty()
    }

    /// A name for who is about to join.
    pub(crate) fn new_member(&self) -> ExecutorId {
        let mut state = self.state();
        state.last_member += 1;
        ExecutorId(state.last_member)
    }

    /// Takes an executor in, and says what the core must be told.
    pub(crate) fn join(&self, joining: Joining) -> Result<Vec<Command>, Refusal> {
        let mut state = self.state();
        if joining.epoch < state.since
            || state.sessions.get(&joining.host.replica) > Some(&joining.session)
        {
            return Err(Refusal::Stale);
        }
        if state.fenced.contains(&joining.host) {
            return Err(Refusal::Fenced);
        }
        state.sessions.insert(joining.host.replica, joining.session);
        state.reported.insert(joining.host);
        let before: Vec<Work> = state.leave(|member| member.host.replica == joining.host.replica);
        let Joining {
            member,
            host,
            name,
            snapshot,
            route,
            ..
        } = joining;
        state
            .members
            .insert(member, Member::new(host, name, route, &snapshot.slots));
        let mut commands = vec![Command::Reported(state.claim(host, &snapshot.attempts))];
        commands.extend(
            state
                .never_arrived(host, &snapshot.attempts)
                .into_iter()
                .map(completed),
        );
        state.count_busy(host);
        let works = before
            .into_iter()
            .chain(snapshot.slots.into_iter().map(|(work, _)| work));
        commands.extend(works.map(|work| state.slots(work)).collect::<Vec<_>>());
        let events = snapshot
            .completions
            .into_iter()
            .map(|(token, completion)| Event::Completed(token, completion))
            .collect();
        commands.extend(state.told(ExecutorReport { member, events }));
        state.hand_out_waiting();
        Ok(commands)
    }

    /// What the core must be told of the slots here, besides those of executors.
    pub(crate) fn own_slots(&self) -> Command {
        Command::Slots {
            work: Work::Noop,
            total: self.0.noop_slots,
        }
    }

    /// The way to an executor is gone: it takes nothing more. Who it was, unless it has come again by another way, and what
    /// the core must be told.
    pub(crate) fn leave(&self, member: ExecutorId) -> (Option<Host>, Vec<Command>) {
        let mut state = self.state();
        let Some(host) = state.members.get(&member).map(|member| member.host) else {
            return (None, Vec::new());
        };
        let works = state.leave(|member| member.host == host);
        (
            Some(host),
            works.into_iter().map(|work| state.slots(work)).collect(),
        )
    }

    /// What an executor tells, as far as it concerns the core.
    pub(crate) fn told(&self, told: ExecutorReport) -> Vec<Command> {
        let mut state = self.state();
        let commands = state.told(told);
        state.hand_out_waiting();
        commands
    }

    /// Hands these out. Work without a session is done when this returns.
    pub(crate) fn dispatch(&self, work: Vec<(Assignment, Option<Body>)>) {
        let mut state = self.state();
        for (assignment, body) in work {
            if assignment.spec.work == Work::Noop {
                let completion = state.ended(&assignment, Report::Succeeded(None));
                state.done.push(completion);
            } else {
                state.hand_out(assignment, body.unwrap_or_default());
            }
        }
    }

    /// Stops an assignment; its completion tells what came first.
    pub(crate) fn stop(&self, handle: Handle, first: Seq, attempt: Attempt) {
        let mut state = self.state();
        let waits = |(a, _): &(Assignment, Body)| {
            (a.handle, a.first, a.attempt) == (handle, first, attempt)
        };
        if let Some(at) = state.waiting.iter().position(waits)
            && let Some((assignment, _)) = state.waiting.remove(at)
        {
            let completion = state.ended(&assignment, Report::NotStarted);
            state.done.push(completion);
        } else if let Some(given) = state
            .given
            .get(&(handle, first))
            .filter(|given| given.running.attempt == attempt)
        {
            let (host, token) = (given.host, given.token);
            state.send(host, Instruction::Stop(token));
        }
    }

    /// An assignment will not be handed out after all.
    pub(crate) fn decline(&self, assignment: &Assignment) {
        let mut state = self.state();
        let completion = state.ended(assignment, Report::NotStarted);
        state.done.push(completion);
    }

    /// Something has ended without an executor.
    pub(crate) fn has_done(&self) -> bool {
        !self.state().done.is_empty()
    }

    /// What has ended without an executor.
    pub(crate) fn take_done(&self) -> Vec<Completion> {
        mem::take(&mut self.state().done)
    }

    /// These are durably over: executors need not keep them.
    pub(crate) fn over(&self, over: &[(Handle, Seq, Attempt)]) {
        if over.is_empty() {
            return;
        }
        let mut state = self.state();
        for (handle, first, attempt) in over {
            let is_it = |given: &&Given| given.over && given.running.attempt == *attempt;
            if let Some((host, token)) = state
                .given
                .get(&(*handle, *first))
                .filter(is_it)
                .map(|given| (given.host, given.token))
            {
                state.given.remove(&(*handle, *first));
                state.send(host, Instruction::Acknowledge(vec![token]));
            }
        }
    }

    /// Whether this one has reported, as it is or later in its life: it is there, or its loss is already known.
    pub(crate) fn has_reported(&self, host: Host) -> bool {
        self.state()
            .reported
            .iter()
            .any(|other| other.replica == host.replica && *other >= host)
    }

    /// Whether this very one has reported: what it had then is given to it as far as the core knows.
    pub(crate) fn was_here(&self, host: Host) -> bool {
        self.state().reported.contains(&host)
    }

    /// From now on nobody comes back as this one; false: it is there.
    pub(crate) fn shut_out(&self, host: Host) -> bool {
        let mut state = self.state();
        let gone = !state.members.values().any(|member| member.host == host);
        if gone {
            state.fenced.insert(host);
        }
        gone
    }

    /// Nothing of this kind runs any more that the one shut out was given. `began`: some of it may have run.
    pub(crate) fn fenced(&self, host: Host, work: &Work, began: bool) -> Vec<Command> {
        let report = if began { lost() } else { Report::NotStarted };
        let ended = self
            .state()
            .end(&report, |given| given.host == host && given.work == *work);
        ended.into_iter().map(completed).collect()
    }

    /// The kinds of work an executor had been given.
    pub(crate) fn given_to(&self, host: Host) -> Vec<Work> {
        let state = self.state();
        let mut works: Vec<Work> = state
            .given
            .values()
            .filter(|given| given.host == host)
            .map(|g| g.work.clone())
            .collect();
        works.sort_unstable();
        works.dedup();
        works
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(clock: Clock, last_member: u64) -> Self {
        State {
            clock,
            epoch: Epoch(0),
            since: Epoch(0),
            sessions: FxHashMap::default(),
            reported: FxHashSet::default(),
            serial: 0,
            members: BTreeMap::new(),
            given: FxHashMap::default(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            fenced: FxHashSet::default(),
            last_member,
        }
    }

    /// What is over before anybody was given it.
    fn ended(&self, assignment: &Assignment, report: Report) -> Completion {
        let Assignment {
            handle,
            first,
            attempt,
            ..
        } = *assignment;
        let now = self.clock.now();
        Completion {
            handle,
            first,
            attempt,
            report,
            started: now,
            ended: now,
            slot: 0,
            backend_pid: 0,
        }
    }

    fn told(&mut self, told: ExecutorReport) -> Vec<Command> {
        let mut commands = Vec::new();
        for event in told.events {
            match event {
                Event::Slots { work, total } => {
                    let Some(member) = self.members.get_mut(&told.member) else {
                        continue;
                    };
                    member.slots.insert(work.clone(), total);
                    commands.push(self.slots(work));
                }
                Event::Completed(token, completion) => {
                    commands.extend(self.accept(told.member, token, completion).map(completed));
                }
            }
        }
        commands
    }

    /// A completion, unless it is stale: then its executor is told so.
    fn accept(
        &mut self,
        member: ExecutorId,
        token: Token,
        completion: Completion,
    ) -> Option<Completion> {
        let host = self.members.get(&member)?.host;
        let given = self
            .given
            .get_mut(&(completion.handle, completion.first))
            .filter(|given| given.token == token);
        let Some(given) = given else {
            self.send(host, Instruction::Acknowledge(vec![token]));
            return None;
        };
        if mem::replace(&mut given.over, true) {
            return None;
        }
        let work = given.work.clone();
        if let Some(member) = self.members.get_mut(&member) {
            member.vacate(&work);
        }
        Some(completion)
    }

    /// Gives an assignment to whoever has most room, to this replica when others have no more.
    fn hand_out(&mut self, assignment: Assignment, body: Body) {
        let work = assignment.spec.work.clone();
        let free = |(id, member): (&ExecutorId, &Member)| {
            Some((member.free(&work)?, member.is_local(), *id))
        };
        let Some((_, _, id)) = self
            .members
            .iter()
            .filter_map(free)
            .max_by_key(|(free, local, id)| (*free, *local, id.0))
        else {
            return self.waiting.push_back((assignment, body));
        };
        self.serial += 1;
        let token = Token {
            epoch: self.epoch,
            serial: self.serial,
        };
        let Assignment {
            handle,
            first,
            count,
            attempt,
            ..
        } = assignment;
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        *member.busy.entry(work.clone()).or_default() += 1;
        let running = Running {
            handle,
            first,
            count,
            attempt,
            since: self.clock.now(),
        };
        let host = member.host;
        // Another attempt of it may still be noted: one that was over long ago, told again by who does not know that.
        self.give(Given {
            host,
            token,
            running,
            work,
            over: false,
        });
        self.send(
            host,
            Instruction::Run(Box::new(Dispatch {
                token,
                assignment,
                body,
            })),
        );
    }

    fn hand_out_waiting(&mut self) {
        for (assignment, body) in mem::take(&mut self.waiting) {
            self.hand_out(assignment, body);
        }
    }

    fn send(&mut self, host: Host, message: Instruction) {
        if let Some(member) = self.members.values_mut().find(|member| member.host == host) {
            member.send(message);
        }
    }

    /// Lets members go; says whose kinds have changed.
    fn leave(&mut self, who: impl Fn(&Member) -> bool) -> Vec<Work> {
        let gone: Vec<ExecutorId> = self
            .members
            .iter()
            .filter(|(_, member)| who(member))
            .map(|(id, _)| *id)
            .collect();
        let gone = gone.into_iter().filter_map(|id| self.members.remove(&id));
        gone.flat_map(|member| member.slots.into_keys()).collect()
    }

    fn slots(&self, work: Work) -> Command {
        let total = self
            .members
            .values()
            .filter_map(|member| member.slots.get(&work))
            .sum();
        Command::Slots { work, total }
    }
}

fn completed(completion: Completion) -> Command {
    Command::Completed(vec![completion])
}

fn lost() -> Report {
    let error = TaskError {
        code: "LOST".into(),
        message: "its host was lost while it ran".into(),
    };
    Report::Failed {
        error: Arc::new(error),
        transient: true,
    }
}
