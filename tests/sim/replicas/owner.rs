//! The loop of one process: the shipped machines of the coordinator and of the hub, and what
//! `coordinator/driver.rs` does for them with channels and tasks, one step at a time.

mod hub;
mod keeper;
mod release;

use super::{
    executor::{Executor, Link},
    outside::Outside,
};
use crate::prefetch::Prefetch;
use rallypoint::{
    coordinator::machine::{Effect as LoopEffect, Envelope, Event, Machine},
    core::{Command, Epoch, ShardId, Ticket, Unresolved, model::limits::Limits},
    executor_protocol::{ExecutorId, ExecutorReport, Hello, Host},
    hub::{
        event::{Event as HubEvent, RegisterRequest, RequestNo},
        machine::HubMachine,
    },
    journal::{Batch, Commit, Session},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// The first ticket of the hub's own questions: callers count up from 1.
const HUB_TICKETS: u64 = 1 << 40;
/// Whoever keeps the ownership.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keeper {
    Standby,
    /// Takes over: whether others have owned the shard since.
    Claimed {
        epoch: Epoch,
        last_batch: i64,
        anew: bool,
    },
    Serving(Epoch),
}

/// Something the hub has asked for.
enum HubRequest {
    Register(RegisterRequest),
    EndSession(Session),
    Resolve(Unresolved),
}

pub(crate) struct Owner {
    pub run: Uuid,
    pub machine: Machine,
    pub hub: HubMachine,
    pub keeper: Keeper,
    /// A batch that was sent and whose outcome was not told.
    pub sent: Option<Arc<Batch>>,
    bodies: Prefetch,
    /// Released, and waiting for their bodies.
    awaiting: usize,
    arriving: VecDeque<Event>,
    calls: VecDeque<Envelope>,
    reports: VecDeque<ExecutorReport>,
    /// Whose the executors are that said hello from elsewhere.
    hosts: BTreeMap<ExecutorId, Host>,
    /// What the hub has for the loop.
    commands: Vec<(Option<RequestNo>, Command)>,
    requests: Vec<(RequestNo, HubRequest)>,
    /// What the hub has asked the loop.
    questions: BTreeMap<Ticket, RequestNo>,
    /// Hellos that are not answered.
    hellos: BTreeMap<ExecutorId, Hello>,
    /// Calls that wait for an answer.
    asked: BTreeSet<Ticket>,
    /// The executor of this process, as the hub calls it.
    local: Option<ExecutorId>,
    /// Sessions of earlier ownerships have lower numbers: what they still say, executors say again.
    admitted_since: ExecutorId,
    last_member: u64,
    last_ticket: u64,
    rebuild: bool,
}

impl Owner {
    pub(crate) fn new(run: Uuid, outside: &mut Outside<'_>) -> Self {
        let budget = *outside.rng.one_of(&[0, 700, 1 << 20]);
        Owner {
            run,
            machine: Machine::new(ShardId(0), limits()).0,
            hub: HubMachine::new(run, 4),
            keeper: Keeper::Standby,
            sent: None,
            bodies: Prefetch::new(budget),
            awaiting: 0,
            arriving: VecDeque::new(),
            calls: VecDeque::new(),
            reports: VecDeque::new(),
            hosts: BTreeMap::new(),
            commands: Vec::new(),
            requests: Vec::new(),
            questions: BTreeMap::new(),
            hellos: BTreeMap::new(),
            asked: BTreeSet::new(),
            local: None,
            admitted_since: ExecutorId::default(),
            last_member: 0,
            last_ticket: HUB_TICKETS,
            rebuild: false,
        }
    }

    pub(crate) fn call(&mut self, envelope: Envelope) {
        self.asked.extend(envelope.ticket);
        self.calls.push_back(envelope);
    }

    pub(crate) fn depose(&mut self) {
        self.arriving.push_back(Event::Deposed);
        self.keeper = Keeper::Standby;
    }

    /// The answers it owed never come.
    pub(crate) fn lose_calls(&mut self, outside: &mut Outside<'_>) {
        let lost: Vec<Ticket> = mem::take(&mut self.asked).into_iter().collect();
        outside.callers.lose(&lost);
    }

    pub(crate) fn is_quiet(&self, outside: &Outside<'_>) -> bool {
        let serving =
            matches!(self.keeper, Keeper::Serving(epoch) if epoch == outside.journal.epoch);
        let idle = self.sent.is_none() && self.machine.backlog() == 0 && !self.rebuild;
        let empty = self.arriving.is_empty() && self.calls.is_empty() && self.reports.is_empty();
        let hub = self.commands.is_empty()
            && self.requests.is_empty()
            && self.hub.next_due().is_none()
            && self.hub.open_assignments() == 0;
        serving && idle && empty && hub && self.awaiting == 0
    }

    /// It knows that the shard is another's.
    pub(crate) fn stands_by(&self) -> bool {
        self.machine.stands_by() && self.arriving.is_empty() && self.calls.is_empty()
    }

    /// Once around the loop: something happens, and everything that has arrived is taken with it.
    pub(crate) fn turn(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        let mut events = Vec::new();
        match outside.rng.below(3) {
            0 => {
                if let Some(batch) = self.sent.take() {
                    let commit = commit(&batch, outside);
                    events.push(Event::Commit(batch.no, commit));
                }
            }
            1 => events.extend(self.arriving.pop_front()),
            _ => {}
        }
        self.take_arrived(&mut events, executor, outside);
        self.step(events, executor, outside);
        if !self.commands.is_empty() {
            let mut done = Vec::new();
            self.take_arrived(&mut done, executor, outside);
            self.step(done, executor, outside);
        }
    }

    fn take_arrived(
        &mut self,
        events: &mut Vec<Event>,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        events.extend(self.arriving.drain(..));
        if let Link::Here(member) = executor.link {
            let events = executor.outbox.next_events();
            self.reports.push_back(ExecutorReport::of(member, events));
        }
        for report in mem::take(&mut self.reports) {
            self.feed(HubEvent::Report(report), executor, outside);
        }
        self.take_commands(events);
        for envelope in mem::take(&mut self.calls) {
            if self.machine.stands_by() {
                outside.callers.lose(envelope.ticket.as_slice());
            } else {
                events.push(Event::Command(envelope));
            }
        }
    }

    /// What the hub has for the core.
    fn take_commands(&mut self, events: &mut Vec<Event>) {
        for (asked, command) in mem::take(&mut self.commands) {
            let ticket = asked.map(|no| {
                self.last_ticket += 1;
                self.questions.insert(Ticket(self.last_ticket), no);
                Ticket(self.last_ticket)
            });
            events.push(Event::Command(Envelope { ticket, command }));
        }
    }

    fn step(&mut self, mut events: Vec<Event>, executor: &mut Executor, outside: &mut Outside<'_>) {
        let end = events
            .iter()
            .position(|event| matches!(event, Event::Deposed));
        if let Some(end) = end.filter(|end| end + 1 < events.len()) {
            let later = events.split_off(end + 1);
            self.step(events, executor, outside);
            return self.step(later, executor, outside);
        }
        let holds = match self.keeper {
            Keeper::Claimed { epoch, .. } | Keeper::Serving(epoch) => {
                epoch == outside.journal.epoch
            }
            Keeper::Standby => false,
        };
        self.machine.set_lease(holds);
        self.begin(&mut events, executor, outside);
        for effect in self.machine.step(outside.now, events) {
            match effect {
                LoopEffect::Append(batch, _) => {
                    assert!(self.sent.is_none(), "two batches in flight");
                    self.sent = Some(batch);
                }
                LoopEffect::Release(release) => self.release(release, executor, outside),
                LoopEffect::Discard(_) => {}
                LoopEffect::Recover => self.recover(executor, outside),
                LoopEffect::StandBy => self.stand_by(executor, outside),
            }
        }
        if let Some(core) = self.machine.core() {
            self.bodies.look_ahead(core);
        }
    }

    /// An ownership begins, if it does.
    fn begin(
        &mut self,
        events: &mut Vec<Event>,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        let begun = events.iter().find_map(|event| match event {
            Event::Recovered {
                schedulers,
                epoch,
                window,
                ..
            } => {
                self.bodies.bodies.recovered(schedulers);
                Some((*epoch, window.clone()))
            }
            _ => None,
        });
        let Some((epoch, window)) = begun else {
            return;
        };
        if window.is_some() {
            self.bodies.bodies.drop_waiting();
            self.awaiting = 0;
        }
        let inherited = window.map(|window| window.into_keys().collect());
        let member = self.new_member();
        let begin = HubEvent::Begin {
            epoch,
            inherited,
            member,
        };
        self.feed(begin, executor, outside);
        self.take_commands(events);
    }
}

fn limits() -> Limits {
    Limits {
        ended_schedulers: 1,
        // So that lines are used, however long it takes.
        short_attempt: Duration::from_secs(60),
        ..Limits::default()
    }
}

fn commit(batch: &Arc<Batch>, outside: &mut Outside<'_>) -> Commit {
    let unknown = || Commit::Unknown {
        message: "no answer".into(),
    };
    if outside.chance(10) {
        return unknown();
    }
    let commit = outside.journal.append(batch);
    if outside.chance(10) {
        unknown()
    } else {
        commit
    }
}
