//! The executor's side of the sessions of one process: the real machine, over the model network.

use super::{
    executor::{Executor, Link},
    outside::Outside,
};
use rallypoint::hub::session::{
    machine::{Effect, Event, Owner, SessionMachine},
    message::ToOwner,
};
use std::collections::VecDeque;
use uuid::Uuid;

/// Messages in a connection before there is no more room.
const ROOM: usize = 4;

pub(crate) struct Client {
    run: Uuid,
    machine: SessionMachine,
    /// It gives up what it has, because it was fenced.
    pub giving_up: bool,
}

impl Client {
    pub(crate) fn new(run: Uuid) -> Self {
        Client {
            run,
            machine: SessionMachine::new("r".into()),
            giving_up: false,
        }
    }

    /// It learns who owns the shard, as far as its process knows.
    pub(crate) fn learn(
        &mut self,
        owner: Option<Owner>,
        executor: &mut Executor,
        outside: &mut Outside<'_>,
    ) {
        let elsewhere = owner.filter(|owner| owner.replica != self.run);
        self.step(Event::Owner(elsewhere), executor, outside);
    }

    /// One of the things that may happen to it does.
    pub(crate) fn act(&mut self, executor: &mut Executor, outside: &mut Outside<'_>) {
        if self.giving_up {
            if executor.begins_afresh(outside) {
                self.giving_up = false;
                self.step(Event::Afresh(true), executor, outside);
            }
            return;
        }
        let uptime = outside.uptime();
        if self.machine.next_due().is_some_and(|due| due <= uptime) {
            self.step(Event::TimePassed, executor, outside);
        }
        if let Some(event) = self.arrives(outside) {
            self.step(event, executor, outside);
        }
        if self.machine.takes_reports() && executor.link != Link::Elsewhere {
            // Its process owns the shard by now, and has taken the outbox over.
            self.step(Event::Closed, executor, outside);
        }
        if self.machine.takes_reports() {
            let events = executor.outbox.next_events();
            if !events.is_empty() {
                self.step(Event::Reported(events), executor, outside);
            }
        }
        let mut has_room = |run| {
            let connection = outside.network.of_client(run);
            connection.is_some_and(|one| one.up.len() < ROOM)
        };
        if self.machine.has_message() && has_room(self.run) {
            self.step(Event::Room, executor, outside);
        }
    }

    /// What comes from the owner.
    fn arrives(&mut self, outside: &mut Outside<'_>) -> Option<Event> {
        let percent = outside.rng.percent(60);
        let connection = outside.network.of_client(self.run)?;
        if connection.stalled || !percent {
            return None;
        }
        if connection.cut {
            return Some(Event::Closed);
        }
        if !connection.connected && !connection.down.is_empty() {
            connection.connected = true;
            return Some(Event::Connected);
        }
        match connection.down.pop_front() {
            Some(message) => Some(Event::Heard(message)),
            None => connection.down_closed.then_some(Event::Closed),
        }
    }

    fn step(&mut self, event: Event, executor: &mut Executor, outside: &mut Outside<'_>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.machine.step(outside.uptime(), event) {
                match effect {
                    Effect::Attach(epoch) => {
                        let snapshot = executor.outbox.attach(epoch, executor.enrolled_under);
                        if snapshot.is_some() {
                            executor.link = Link::Elsewhere;
                        }
                        let attached = snapshot.map(|snapshot| (executor.host, snapshot));
                        events.push_back(Event::Attached(attached));
                    }
                    Effect::Connect(to, hello) => {
                        outside.network.connect(self.run, to, ToOwner::Hello(hello));
                        if !outside.living.contains(&to) {
                            outside.network.die(to);
                        }
                    }
                    Effect::Send(message) => {
                        if let Some(connection) = outside.network.of_client(self.run) {
                            connection.up.push_back(message);
                        }
                    }
                    Effect::Obey(instruction) => executor.obey(instruction, outside),
                    Effect::HangUp => {
                        if let Some(connection) = outside.network.of_client(self.run) {
                            connection.client_open = false;
                        }
                    }
                    Effect::BeginAfresh => self.giving_up = true,
                }
            }
        }
    }
}
