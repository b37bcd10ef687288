//! What the tests of the machine have in common: an owner, callers that ask it, and their answers.

use super::{Effect, Envelope, Event, Machine};
use crate::core::{
    Action, BatchNo, Caller, Command, Epoch, Handle, Namespace, Open, Reply, RequestMemory,
    ShardId, Ticket, Time, Verb, model::limits::Limits,
};

pub(super) const NOW: Time = Time(1_800_000_000_000_000);

/// An owner under epoch 1 of a journal without a batch.
pub(super) fn owner() -> Machine {
    let mut machine = Machine::new(ShardId(0), Limits::default()).0;
    machine.step(NOW, [recovered(1)]);
    machine
}

/// The journal was read under this epoch and has no batch.
pub(super) fn recovered(epoch: i64) -> Event {
    Event::Recovered {
        schedulers: Vec::new(),
        pauses: Vec::new(),
        resources: Default::default(),
        jobs: Default::default(),
        epoch: Epoch(epoch),
        last_batch: BatchNo(0),
        memory: RequestMemory::default(),
        window: None,
    }
}

/// Somebody who waits under this ticket asks something.
pub(super) fn asks(ticket: u8, command: Command) -> Event {
    Event::Command(Envelope {
        ticket: Some(Ticket(ticket.into())),
        command,
    })
}

/// A caller opens the scheduler of this number, which leaves a record.
pub(super) fn opens(number: u8) -> Event {
    asks(number, call(number, Verb::Open(Open::default())))
}

/// A caller's command about the scheduler of this number.
pub(super) fn call(number: u8, verb: Verb) -> Command {
    let caller = Caller {
        namespace: Namespace::default_namespace(),
        name: "test".into(),
    };
    Command::Call {
        caller,
        handle: Handle::new(ShardId(0), 1, [number; 10]),
        verb,
    }
}

/// The tickets that are answered, each with whether the call was accepted.
pub(super) fn answers(effects: &[Effect]) -> Vec<(u64, bool)> {
    let actions = effects.iter().filter_map(|effect| match effect {
        Effect::Release(release) => Some(&release.actions),
        _ => None,
    });
    let answer = |action: &Action| match action {
        Action::Reply(ticket, reply) => Some((ticket.0, !matches!(reply, Reply::Rejected(_)))),
        _ => None,
    };
    actions.flatten().filter_map(answer).collect()
}

/// The tasks that start, in this order.
pub(super) fn starts(effects: &[Effect]) -> Vec<i64> {
    let actions = effects.iter().filter_map(|effect| match effect {
        Effect::Release(release) => Some(&release.actions),
        _ => None,
    });
    let start = |action: &Action| match action {
        Action::Dispatch(assignment) => Some(assignment.first.0),
        _ => None,
    };
    actions.flatten().filter_map(start).collect()
}
