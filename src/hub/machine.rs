//! The hub as a pure machine: who is admitted, who is given what, and how those that are gone are
//! shown dead before their work is started again.
//!
//! Invariant: nothing is handed out, admitted or fenced except on behalf of the present ownership.
//! No I/O, no clock, no runtime: `driver` runs it in the server, the simulator in the tests.

use super::{
    event::{Answer, Effect, Event, Moment, RegisterRequest, RequestNo},
    executor_pool::{ExecutorPool, Refusal},
    fencing::Fencing,
};
use crate::{
    core::{Command, Epoch, SlotCounts, Time, Work},
    executor_protocol::{Admission, ExecutorId, ExecutorReport, Hello},
};
use std::{collections::BTreeMap, mem, time::Duration};
use uuid::Uuid;

/// How far the clock of an executor may be from that of the owner.
const CLOCK_MARGIN: Duration = Duration::from_secs(86_400);

/// The hub of one process.
#[derive(Debug)]
pub struct HubMachine {
    /// This run of the server.
    replica: Uuid,
    /// Tasks without a session at any time: they are done by the owner itself.
    noop_slots: u32,
    pool: ExecutorPool,
    fencing: Fencing,
    /// Hellos that wait for the register to say whether their executors are fenced.
    hellos: BTreeMap<RequestNo, (ExecutorId, Hello)>,
}

impl HubMachine {
    /// The hub of a process that does not own the shard yet.
    pub fn new(replica: Uuid, noop_slots: u32) -> Self {
        HubMachine {
            replica,
            noop_slots,
            pool: ExecutorPool::default(),
            fencing: Fencing::default(),
            hellos: BTreeMap::new(),
        }
    }

    /// Takes an event in and says what is to be done, in this order.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.pool.now = now.time;
        match event {
            Event::Begin {
                epoch,
                inherited,
                member,
            } => self.begin(epoch, inherited, member),
            Event::Disband => self.disband(),
            Event::Attached(member, hello) => self.attached(member, hello),
            Event::Hello(member, hello) => self.hear(member, hello),
            Event::Report(report) => self.report(now, report),
            Event::Unreachable(id) => {
                if let Some(member) = self.pool.members.get_mut(&id) {
                    member.reachable = false;
                }
            }
            Event::Dispatch(work) => self.pool.dispatch(work),
            Event::Stop {
                handle,
                first,
                attempt,
            } => self.pool.stop(handle, first, attempt),
            Event::Decline(assignment, report) => self.pool.end_unstarted(&assignment, report),
            Event::Resolve(unresolved) => self.fencing.resolve(unresolved, &mut self.pool),
            Event::Over(over) => self.pool.over(&over),
            Event::Answered(no, answer) => self.answered(now, no, answer),
            Event::TimePassed => self.fencing.on_time(now, &mut self.pool),
        }
        mem::take(&mut self.pool.effects)
    }

    /// The present ownership; 0: none.
    pub fn epoch(&self) -> Epoch {
        self.pool.epoch
    }

    /// Uptime at which [`Event::TimePassed`] has something to do.
    pub fn next_due(&self) -> Option<Duration> {
        self.fencing.next_due()
    }

    /// Markers of tasks that ended before this time are asked for by nobody any more; at most
    /// `before`. `None`: somebody may ask for any.
    pub(crate) fn unasked_before(&self, before: Time) -> Option<Time> {
        // What an executor has it may be asking for itself.
        let given = self.pool.given.values();
        let starts = given.map(|given| given.running.since - CLOCK_MARGIN);
        let is_known = self.epoch() != Epoch(0) && self.fencing.is_settled();
        is_known.then(|| starts.fold(before, Time::min))
    }

    /// What is handed out and not durably over, or waits for a slot, for checks in the simulator.
    pub fn open_assignments(&self) -> usize {
        self.pool.given.len() + self.pool.waiting.len()
    }

    /// Slots that are busy, for checks in the simulator.
    pub fn busy_slots(&self) -> u32 {
        let members = self.pool.members.values();
        members.flat_map(|member| member.busy.values()).sum()
    }

    fn begin(&mut self, epoch: Epoch, inherited: Option<Vec<Work>>, member: ExecutorId) {
        if inherited.is_some() {
            self.forget();
            self.pool.reset(epoch);
            self.fencing = Fencing::begin(epoch, inherited, self.fencing.serial());
            self.fencing.reconcile(&mut self.pool);
        }
        self.pool.epoch = epoch;
        self.pool.effects.push(Effect::Command(Command::Slots {
            work: Work::Noop,
            slots: SlotCounts::of(self.noop_slots),
        }));
        if self.pool.members.is_empty() {
            self.pool.effects.push(Effect::Attach(member, epoch));
        }
    }

    fn disband(&mut self) {
        self.forget();
        self.pool.reset(Epoch(0));
        self.fencing = Fencing::begin(Epoch(0), None, self.fencing.serial());
    }

    /// Ends what is under way on behalf of an ownership.
    fn forget(&mut self) {
        for (_, (member, _)) in mem::take(&mut self.hellos) {
            self.pool
                .effects
                .push(Effect::Admit(member, Admission::NotNow));
        }
        let members = mem::take(&mut self.pool.members).into_keys();
        self.pool.effects.extend(members.map(Effect::HangUp));
        self.pool.effects.push(Effect::EndOfOwnership);
    }

    fn attached(&mut self, member: ExecutorId, hello: Hello) {
        if hello.epoch == self.pool.epoch && self.pool.hears(&hello).is_ok() {
            self.pool.join(member, hello, true);
            self.fencing.on_join(&mut self.pool);
        }
    }

    /// After a crash a process finds the owner it was in the journal, at its own address, and
    /// reports to itself. What it says so is older than what it has been given here meanwhile.
    fn hear(&mut self, member: ExecutorId, hello: Hello) {
        let owned = self.pool.epoch != Epoch(0) && hello.epoch <= self.pool.epoch;
        if !owned || hello.host.replica == self.replica {
            return self.admit(member, Admission::NotNow);
        }
        let no = RequestNo(self.fencing.next());
        let request = RegisterRequest::IsFenced(hello.host);
        self.pool.effects.push(Effect::Register(no, request));
        self.hellos.insert(no, (member, hello));
    }

    fn answered(&mut self, now: Moment, no: RequestNo, answer: Answer) {
        let Some((member, hello)) = self.hellos.remove(&no) else {
            return self.fencing.on_answer(now, no, answer, &mut self.pool);
        };
        let heard = match answer {
            Answer::Fenced(false) => self.pool.hears(&hello),
            Answer::Fenced(true) => Err(Refusal::Fenced),
            _ => Err(Refusal::Stale),
        };
        match heard {
            Ok(()) => {
                self.admit(member, Admission::Admitted(member));
                self.pool.join(member, hello, false);
                self.fencing.on_join(&mut self.pool);
            }
            Err(Refusal::Fenced) => self.admit(member, Admission::Fenced),
            Err(Refusal::Stale) => self.admit(member, Admission::NotNow),
        }
    }

    /// Takes in what was said in a session, and then its end.
    fn report(&mut self, now: Moment, report: ExecutorReport) {
        if let Some(gone) = self.pool.report(report) {
            self.fencing.on_lost(now, gone, &mut self.pool);
        }
    }

    fn admit(&mut self, member: ExecutorId, admission: Admission) {
        self.pool.effects.push(Effect::Admit(member, admission));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{Attempt, Handle, Running, Seq, ShardId},
        executor_protocol::{Host, Token},
        hub::executor_pool::assignments::Given,
    };

    #[test]
    fn a_marker_stays_while_an_executor_may_ask_for_it() {
        let (day, before) = (Duration::from_secs(86_400), Time(1_800_000_000_000_000));
        let mut machine = HubMachine::new(Uuid::nil(), 1);
        assert_eq!(machine.unasked_before(before), None, "it owns nothing");
        machine.pool.epoch = Epoch(7);
        assert_eq!(machine.unasked_before(before), Some(before));
        let handle = Handle::new(ShardId(0), 0, [0; 10]);
        for (first, since) in [(1, before + day * 9), (2, before - day * 2)] {
            let running = Running {
                handle,
                first: Seq(first),
                count: 1,
                attempt: Attempt(1),
                since,
            };
            let given = Given {
                lined_up: false,
                host: Host {
                    replica: Uuid::nil(),
                    incarnation: 1,
                },
                token: Token {
                    epoch: Epoch(7),
                    serial: first as u64,
                },
                running,
                work: Work::Noop,
                over: false,
            };
            machine.pool.given.insert((handle, Seq(first)), given);
        }
        let oldest = before - day * 3;
        assert_eq!(machine.unasked_before(before), Some(oldest));
        machine.fencing = Fencing::begin(Epoch(7), Some(Vec::new()), 0);
        assert_eq!(machine.unasked_before(before), None, "a takeover");
    }
}
