//! The executor's side of its session as a pure machine: it finds the owner of the shard, says
//! hello with all it has, obeys, and begins afresh when it was fenced.
//!
//! Invariant: whatever it reports follows a hello of the same session, and session numbers rise, so
//! that an owner can tell what comes late. No I/O, no clock: `client` runs it in the server, the
//! simulator in the tests.

use super::message::{HEARTBEAT_INTERVAL, SILENCE_TIMEOUT, ToExecutor, ToOwner};
use crate::{
    core::Epoch,
    executor_protocol::{Event as Report, Hello, Host, Instruction, Snapshot},
};
use std::{collections::VecDeque, mem, sync::Arc, time::Duration};
use uuid::Uuid;

/// Pause before a session is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long an owner may take to answer a hello.
const HELLO_TIMEOUT: Duration = SILENCE_TIMEOUT.saturating_mul(2);
/// Messages that may wait on their way to the owner; more waits in the outbox.
pub(crate) const QUEUED_MESSAGES: usize = 64;

/// The replica that owns the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub replica: Uuid,
    pub epoch: Epoch,
}

/// Something that happened to the session.
#[derive(Debug)]
pub enum Event {
    /// The owner, as far as known; `None`: nobody, or this replica itself.
    Owner(Option<Owner>),
    /// The answer to [`Effect::Attach`]; `None`: the executor works for a younger owner.
    Attached(Option<(Host, Snapshot)>),
    /// The owner has answered the hello.
    Connected,
    /// Time has passed; so long ago part of what the owner says has arrived.
    Arriving(Duration),
    /// The owner says something.
    Heard(ToExecutor),
    /// The executor has something to report.
    Reported(Vec<Report>),
    /// There is room for another message to the owner.
    Room,
    /// The connection, or the way from the outbox, has ended.
    Closed,
    /// Whether the executor could begin afresh.
    Afresh(bool),
    TimePassed,
}

/// Something the session wants done.
#[derive(Debug)]
pub enum Effect {
    /// The executor is to work for this ownership from now on.
    Attach(Epoch),
    /// Connect to the owner with this hello.
    Connect(Uuid, Hello),
    /// Send this to the owner: there is room.
    Send(ToOwner),
    /// The executor is to do this.
    Obey(Instruction),
    /// Close the connection and the way from the outbox.
    HangUp,
    /// Give up everything, and come as the next incarnation.
    BeginAfresh,
}

#[derive(Debug)]
enum State {
    /// Nobody else owns the shard.
    Idle,
    Attaching(Owner),
    Session(Session),
    Paused {
        until: Duration,
    },
    BeginningAfresh,
}

#[derive(Debug)]
struct Session {
    owner: Owner,
    connected: bool,
    silent_until: Duration,
    next_heartbeat: Duration,
    queue: VecDeque<ToOwner>,
}

/// The executor's side of the sessions of one process, one after the other.
#[derive(Debug)]
pub struct SessionMachine {
    /// Of its replica.
    name: Arc<str>,
    owner: Option<Owner>,
    state: State,
    last_session: u64,
}

impl SessionMachine {
    /// One that knows of no owner yet.
    pub fn new(name: Arc<str>) -> Self {
        SessionMachine {
            name,
            owner: None,
            state: State::Idle,
            last_session: 0,
        }
    }

    /// Takes an event in and says what is to be done, in this order. `now` is monotonic.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Owner(owner) => self.on_owner(now, owner, &mut effects),
            Event::Attached(attached) => self.on_attached(now, attached, &mut effects),
            Event::Connected => self.on_connected(now),
            Event::Arriving(ago) => {
                if let State::Session(session) = &mut self.state {
                    session.silent_until = now.saturating_sub(ago) + SILENCE_TIMEOUT;
                }
                self.on_time(now, &mut effects);
            }
            Event::Heard(message) => self.on_message(now, message, &mut effects),
            Event::Reported(reports) => {
                if let State::Session(session) = &mut self.state {
                    session
                        .queue
                        .extend(reports.into_iter().map(ToOwner::Event));
                }
            }
            Event::Room => {
                if let State::Session(session) = &mut self.state {
                    effects.extend(session.queue.pop_front().map(Effect::Send));
                }
            }
            Event::Closed => self.hang_up(now, &mut effects),
            Event::Afresh(true) => self.look_for_owner(&mut effects),
            Event::Afresh(false) => self.pause(now),
            Event::TimePassed => self.on_time(now, &mut effects),
        }
        effects
    }

    /// Whether a message waits for room on its way to the owner.
    pub fn has_message(&self) -> bool {
        let session = self.session().filter(|session| session.connected);
        session.is_some_and(|session| !session.queue.is_empty())
    }

    /// Whether it takes more reports.
    pub fn takes_reports(&self) -> bool {
        let session = self.session().filter(|session| session.connected);
        session.is_some_and(|session| session.queue.len() < QUEUED_MESSAGES)
    }

    /// When the passing of time has something to do.
    pub fn next_due(&self) -> Option<Duration> {
        match &self.state {
            State::Session(session) if session.connected => {
                Some(session.silent_until.min(session.next_heartbeat))
            }
            State::Session(session) => Some(session.silent_until),
            State::Paused { until } => Some(*until),
            State::Idle | State::Attaching(_) | State::BeginningAfresh => None,
        }
    }

    fn session(&self) -> Option<&Session> {
        match &self.state {
            State::Session(session) => Some(session),
            _ => None,
        }
    }

    fn on_owner(&mut self, now: Duration, owner: Option<Owner>, effects: &mut Vec<Effect>) {
        self.owner = owner;
        match &self.state {
            State::Idle | State::Paused { .. } => self.look_for_owner(effects),
            State::Session(session)
                if self.owner.map(|owner| owner.replica) != Some(session.owner.replica) =>
            {
                self.hang_up(now, effects);
            }
            State::Session(_) | State::Attaching(_) | State::BeginningAfresh => {}
        }
    }

    fn look_for_owner(&mut self, effects: &mut Vec<Effect>) {
        self.state = match self.owner {
            Some(owner) => {
                effects.push(Effect::Attach(owner.epoch));
                State::Attaching(owner)
            }
            None => State::Idle,
        };
    }

    fn on_attached(
        &mut self,
        now: Duration,
        attached: Option<(Host, Snapshot)>,
        effects: &mut Vec<Effect>,
    ) {
        let State::Attaching(owner) = self.state else {
            return;
        };
        let Some((host, mut snapshot)) = attached else {
            return self.pause(now);
        };
        let completions = mem::take(&mut snapshot.completions).into_iter();
        let queue = completions
            .map(|(token, completion)| ToOwner::Event(Report::Completed(token, completion)))
            .collect();
        self.last_session += 1;
        let hello = Hello {
            host,
            epoch: owner.epoch,
            session: self.last_session,
            name: self.name.clone(),
            snapshot,
        };
        effects.push(Effect::Connect(owner.replica, hello));
        self.state = State::Session(Session {
            owner,
            connected: false,
            silent_until: now + HELLO_TIMEOUT,
            next_heartbeat: now,
            queue,
        });
    }

    fn on_connected(&mut self, now: Duration) {
        if let State::Session(session) = &mut self.state {
            session.connected = true;
            session.silent_until = now + SILENCE_TIMEOUT;
            session.next_heartbeat = now + HEARTBEAT_INTERVAL;
        }
    }

    fn on_message(&mut self, now: Duration, message: ToExecutor, effects: &mut Vec<Effect>) {
        let State::Session(session) = &mut self.state else {
            return;
        };
        session.silent_until = now + SILENCE_TIMEOUT;
        match message {
            ToExecutor::Welcome | ToExecutor::Heartbeat => {}
            ToExecutor::Instruction(instruction) => effects.push(Effect::Obey(instruction)),
            ToExecutor::Fenced => {
                effects.extend([Effect::HangUp, Effect::BeginAfresh]);
                self.state = State::BeginningAfresh;
            }
        }
    }

    fn on_time(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match &mut self.state {
            State::Session(session) if session.silent_until <= now => self.hang_up(now, effects),
            State::Session(session) if session.connected && session.next_heartbeat <= now => {
                session.next_heartbeat = now + HEARTBEAT_INTERVAL;
                session.queue.push_back(ToOwner::Heartbeat);
            }
            State::Paused { until } if *until <= now => self.look_for_owner(effects),
            _ => {}
        }
    }

    fn hang_up(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if let State::Session(_) = self.state {
            effects.push(Effect::HangUp);
            self.pause(now);
        }
    }

    /// The known owner may be the one of before for a while.
    fn pause(&mut self, now: Duration) {
        let until = now + RETRY_PAUSE;
        self.state = State::Paused { until };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One whose session has begun.
    fn connected() -> SessionMachine {
        let mut machine = SessionMachine::new("a".into());
        let owner = Owner {
            replica: Uuid::nil(),
            epoch: Epoch(1),
        };
        let host = Host {
            replica: Uuid::max(),
            incarnation: 1,
        };
        for event in [
            Event::Owner(Some(owner)),
            Event::Attached(Some((host, Snapshot::default()))),
            Event::Connected,
        ] {
            machine.step(Duration::ZERO, event);
        }
        machine
    }

    #[test]
    fn an_owner_is_silent_when_not_even_part_of_a_message_arrives() {
        let mut machine = connected();
        let (arrived, ago) = (Duration::from_secs(2), Duration::from_millis(900));
        machine.step(arrived + ago, Event::Arriving(ago));
        let mut hangs_up = |after: Duration| {
            let effects = machine.step(arrived + after, Event::TimePassed);
            effects.iter().any(|one| matches!(one, Effect::HangUp))
        };
        assert!(!hangs_up(SILENCE_TIMEOUT - HEARTBEAT_INTERVAL));
        assert!(hangs_up(SILENCE_TIMEOUT));
    }

    #[test]
    fn it_sends_heartbeats_while_parts_of_messages_arrive_all_the_time() {
        let (mut machine, mut sent) = (connected(), 0);
        let during = SILENCE_TIMEOUT * 3;
        while let Some(now) = machine.next_due().filter(|due| *due <= during) {
            machine.step(now, Event::Arriving(Duration::ZERO));
            assert!(machine.next_due() > Some(now), "it does nothing else");
            while machine.has_message() {
                machine.step(now, Event::Room);
                sent += 1;
            }
        }
        assert_eq!(sent, during.as_secs() / HEARTBEAT_INTERVAL.as_secs());
    }
}
