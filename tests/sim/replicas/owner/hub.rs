//! The hub of a process over the model network and the model register: what `hub/driver.rs` and
//! `hub/session/server.rs` do for the machine.

use super::{
    super::{
        executor::{Executor, Link},
        network::Server,
        outside::Outside,
    },
    HubRequest, Owner,
};
use rallypoint::{
    core::Command,
    executor_protocol::{Admission, Event, ExecutorId, ExecutorReport, Hello, Instruction},
    hub::{
        event::{Answer, Effect, Event as HubEvent, RegisterRequest},
        session::message::{ToExecutor, ToOwner},
    },
};
use std::collections::VecDeque;

/// Instructions in a connection before its executor does not keep up.
const INSTRUCTIONS: usize = 12;

impl Owner {
    /// The hub's side goes on: a timer, an answer of the register, a message.
    pub(crate) fn hub_goes_on(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        let uptime = outside.uptime();
        if self.hub.next_due().is_some_and(|due| due <= uptime) {
            self.feed(HubEvent::TimePassed, executor, outside);
        }
        if !self.requests.is_empty() {
            let at = outside.rng.place(self.requests.len());
            let (no, request) = self.requests.swap_remove(at);
            let answer = self.answer(request, outside);
            self.feed(HubEvent::Answered(no, answer), executor, outside);
        }
        for at in 0..outside.network.connections.len() {
            if outside.network.connections[at].to == self.run && outside.rng.percent(70) {
                self.listen(at, executor, outside);
            }
        }
    }

    pub(super) fn answer(&self, request: HubRequest, outside: &mut Outside<'_>) -> Answer {
        if outside.chance(10) {
            return Answer::Failed;
        }
        let present = outside.journal.epoch;
        let register = &mut outside.journal.register;
        let answer = match request {
            HubRequest::EndSession(session) => {
                outside.targets.kill(session.backend_pid);
                return Answer::Done;
            }
            HubRequest::Resolve(unresolved) => {
                return Answer::Resolved(outside.targets.resolve(&unresolved, outside.now));
            }
            HubRequest::Register(RegisterRequest::NotFenced) => {
                Answer::Executors(register.not_fenced(self.run, &outside.living))
            }
            HubRequest::Register(RegisterRequest::IsFenced(host)) => {
                Answer::Fenced(register.is_fenced(host))
            }
            HubRequest::Register(RegisterRequest::Fence(host, epoch)) => {
                Answer::Fenced(register.fence(host, epoch, present))
            }
            HubRequest::Register(RegisterRequest::SessionsOfFenced) => {
                Answer::Sessions(register.of_fenced())
            }
            HubRequest::Register(RegisterRequest::Forget(session)) => {
                register.forget(session.backend_pid);
                Answer::Done
            }
        };
        // It was done, and the answer is lost.
        if outside.chance(5) {
            Answer::Failed
        } else {
            answer
        }
    }

    /// The owner's side of a connection goes on, as `hub/session/server.rs` has it.
    pub(super) fn listen(&mut self, at: usize, executor: &mut Executor, outside: &mut Outside<'_>) {
        let connection = &mut outside.network.connections[at];
        if connection.stalled {
            return;
        }
        let hears = matches!(connection.server, Server::Fresh | Server::Admitted(_));
        let message = match connection.cut || !hears {
            true => None,
            false => connection.up.pop_front(),
        };
        match (connection.server, message) {
            (Server::Fresh, Some(ToOwner::Hello(hello))) => {
                self.last_member += 1;
                let member = ExecutorId(self.last_member);
                connection.server = Server::Asked(member);
                self.hosts.insert(member, hello.host);
                self.hellos.insert(member, hello.clone());
                self.feed(HubEvent::Hello(member, hello), executor, outside);
            }
            (Server::Admitted(member), Some(ToOwner::Event(event))) => {
                // A fence may be concluded before what comes in after it is read.
                let host = self.hosts[&member];
                if let Event::Completed(token, completion) = &event
                    && self.admitted_since <= member
                    && !outside.journal.register.is_fenced(host)
                {
                    outside
                        .targets
                        .arrives(self.run, *token, &completion.report);
                }
                let events = vec![event];
                self.reports.push_back(ExecutorReport::of(member, events));
            }
            (Server::Admitted(_), Some(ToOwner::Heartbeat)) => {
                if !connection.down_closed && connection.down.is_empty() {
                    connection.down.push_back(ToExecutor::Heartbeat);
                }
            }
            (Server::Admitted(member), None) if connection.cut || !connection.client_open => {
                (connection.server, connection.down_closed) = (Server::Over, true);
                self.reports.push_back(ExecutorReport::end_of(member));
            }
            (Server::Fresh, None) if connection.cut || !connection.client_open => {
                (connection.server, connection.down_closed) = (Server::Over, true);
            }
            (_, None) => {}
            (server, Some(message)) => unreachable!("{message:?} to {server:?}"),
        }
    }

    pub(super) fn new_member(&mut self) -> ExecutorId {
        self.last_member += 1;
        ExecutorId(self.last_member)
    }

    pub(super) fn feed(
        &mut self,
        event: HubEvent,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.hub.step(outside.moment(), event) {
                events.extend(self.carry_out(effect, executor, outside));
            }
        }
    }

    /// What `hub/driver.rs` does. Says what follows at once.
    pub(super) fn carry_out(
        &mut self,
        effect: Effect,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) -> Option<HubEvent> {
        match effect {
            Effect::Command(command) => {
                self.note(&command, outside);
                self.commands.push((None, command));
            }
            Effect::Ask(no, command) => self.commands.push((Some(no), command)),
            Effect::Send(member, instruction) => {
                return self.send(member, instruction, executor, outside);
            }
            Effect::HangUp(member) => {
                self.local.take_if(|local| *local == member);
                if let Some(connection) = outside.network.of_member(self.run, member) {
                    connection.down_closed = true;
                }
            }
            Effect::Attach(member, epoch) => {
                let host = executor.host;
                let snapshot = executor.outbox.attach(epoch, executor.enrolled_under)?;
                executor.link = Link::Here(member);
                self.local = Some(member);
                let hello = Hello {
                    host,
                    epoch,
                    session: 0,
                    name: "here".into(),
                    snapshot,
                };
                outside.targets.admit(host.replica, epoch);
                self.claimed(&hello, outside);
                return Some(HubEvent::Attached(member, hello));
            }
            Effect::Admit(member, admission) => self.admit(member, admission, outside),
            Effect::Register(no, request) => {
                self.requests.push((no, HubRequest::Register(request)))
            }
            Effect::EndSession(no, session) => {
                self.requests.push((no, HubRequest::EndSession(session)));
            }
            Effect::Resolve(no, unresolved) => {
                self.requests.push((no, HubRequest::Resolve(unresolved)));
            }
            // `hub_goes_on` looks at what is due.
            Effect::Wake(_) => {}
            Effect::EndOfOwnership => {
                self.admitted_since = self.new_member();
                outside.targets.disband(self.run);
                self.commands.clear();
                self.requests.clear();
            }
        }
        None
    }

    pub(super) fn admit(
        &mut self,
        member: ExecutorId,
        admission: Admission,
        outside: &mut Outside<'_>,
    ) {
        let hello = self.hellos.remove(&member);
        let Some(connection) = outside.network.of_member(self.run, member) else {
            return;
        };
        match admission {
            Admission::Admitted(member) => {
                connection.server = Server::Admitted(member);
                connection.down.push_back(ToExecutor::Welcome);
                let hello = hello.expect("its hello");
                outside.targets.admit(hello.host.replica, hello.epoch);
                self.claimed(&hello, outside);
            }
            Admission::Fenced => {
                connection.down.push_back(ToExecutor::Fenced);
                (connection.server, connection.down_closed) = (Server::Over, true);
            }
            Admission::NotNow => {
                (connection.server, connection.down_closed) = (Server::Over, true);
            }
        }
    }

    pub(super) fn send(
        &mut self,
        member: ExecutorId,
        instruction: Instruction,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) -> Option<HubEvent> {
        if let Instruction::Run(dispatch) = &instruction {
            let a = &dispatch.assignment;
            let of = (a.handle, a.first, a.attempt);
            outside.targets.name(self.run, of, dispatch.token);
        }
        if self.local == Some(member) {
            executor.obey(instruction, outside);
            return None;
        }
        let connection = outside.network.of_member(self.run, member);
        let connection = connection.filter(|one| !one.down_closed)?;
        if connection.down.len() >= INSTRUCTIONS {
            connection.down_closed = true;
            return Some(HubEvent::Unreachable(member));
        }
        connection
            .down
            .push_back(ToExecutor::Instruction(instruction));
        None
    }

    /// What an executor says it has, it has under these tokens.
    pub(super) fn claimed(&self, hello: &Hello, outside: &mut Outside<'_>) {
        for held in &hello.snapshot.attempts {
            let of = (
                held.running.handle,
                held.running.first,
                held.running.attempt,
            );
            outside.targets.name(self.run, of, held.token);
        }
    }

    pub(super) fn note(&self, command: &Command, outside: &mut Outside<'_>) {
        let owner = outside.owner == Some(self.run);
        if let Command::Completed(completions) = command {
            for one in completions {
                let of = (one.handle, one.first, one.attempt);
                let (targets, journal) = (&mut outside.targets, &outside.journal);
                targets.said(self.run, owner, of, &one.report, journal);
            }
        }
    }
}
