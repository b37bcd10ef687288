//! What the tests of the machine have in common: an owner, callers that ask it, and their answers.

use super::{Effect, Envelope, Event, Machine};
use crate::{
    core::{
        Action, Attempt, BatchNo, Caller, Command, Completion, Epoch, Handle, Namespace, Open,
        Packed, Reply, Report, RequestMemory, Run, Seq, ShardId, SlotCounts, Spec, Submit,
        TaskOptions, Ticket, Time, Verb, Work, model::limits::Limits,
    },
    journal::Commit,
};
use std::sync::Arc;

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
        handle: handle(number),
        verb,
    }
}

/// The handle of the scheduler of this number.
fn handle(number: u8) -> Handle {
    Handle::new(ShardId(0), 1, [number; 10])
}

/// SQL tasks without options.
pub(super) fn waiting(count: u32) -> Run {
    let spec = Spec {
        work: target(),
        options: TaskOptions::default(),
        trace: None,
    };
    Run {
        count,
        order: None,
        spec: Arc::new(spec),
    }
}

fn target() -> Work {
    Work::Sql {
        target: "app".into(),
    }
}

/// An owner with these slots, and so many tasks in scheduler 1.
pub(super) fn runs(slots: SlotCounts, tasks: u32) -> Machine {
    let mut machine = owner();
    let (work, total) = (target(), i64::from(slots.total));
    let slots = Command::Slots { work, slots };
    machine.step(NOW, [opens(1), Event::internal(slots)]);
    let submit = Submit {
        runs: vec![waiting(tasks)],
        bodies: Packed::new(vec![b"a".as_slice(); tasks as usize]),
        ..Submit::none()
    };
    let submits = asks(2, call(1, Verb::Submit(Arc::new(submit))));
    machine.step(NOW, [durable(1), submits]);
    let first = starts(&machine.step(NOW, [durable(2)]));
    assert!(first.into_iter().eq(1..=total), "one for each slot");
    machine
}

/// The batch of this number is durable.
pub(super) fn durable(no: i64) -> Event {
    Event::Commit(BatchNo(no), Commit::Durable)
}

/// The executor of a task of scheduler 1 reports that it has ended.
pub(super) fn ended(seq: i64) -> Event {
    let completion = Completion {
        handle: handle(1),
        first: Seq(seq),
        attempt: Attempt(1),
        report: Report::Succeeded(None),
        started: NOW,
        ended: NOW,
        slot: 1,
        backend_pid: 1,
        diagnostics: Default::default(),
    };
    Event::internal(Command::Completed(vec![completion]))
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
