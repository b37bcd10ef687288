//! The protocol as a state machine: what may happen next, and what must never happen.

mod steps;

use crate::state::{REPLICAS, Record, State};
use stateright::{Model, Property};
use steps::{finish, rejoin, report, submit};

/// The rules of the protocol. Each can be left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// An ownership begins with a batch, which takes the number that the owner before would write
    /// next.
    pub first_batch: bool,
    /// A number is written once, and a batch that is sent again is recognised by it.
    pub recognise: bool,
    /// A replica that has not reported is fenced before its work is started again.
    pub fence: bool,
    /// A fenced replica gets no session under its old name.
    pub register: bool,
    /// An executor refuses work of an epoch older than the one it has reported to.
    pub refuse_old_work: bool,
    /// A replica that starts asks for the epoch before it takes work.
    pub ask_first: bool,
    /// A task that may be running waits until it is reported or fenced.
    pub in_doubt_waits: bool,
    /// The owner adopts the attempts that a replica reports.
    pub adopt: bool,
    /// An outcome counts only from the live attempt.
    pub token: bool,
    /// Nothing is acknowledged before it is durable.
    pub durable_first: bool,
}

impl Rules {
    pub(crate) fn all() -> Rules {
        Rules {
            first_batch: true,
            recognise: true,
            fence: true,
            register: true,
            refuse_old_work: true,
            ask_first: true,
            in_doubt_waits: true,
            adopt: true,
            token: true,
            durable_first: true,
        }
    }
}

/// The protocol, and how much may go wrong.
pub(crate) struct Protocol {
    rules: Rules,
    epochs: u8,
    starts: u8,
    crashes: u8,
    /// Search for what may happen, not for what must not.
    examples: bool,
}

impl Protocol {
    pub(crate) fn small(rules: Rules) -> Protocol {
        Protocol {
            rules,
            epochs: 2,
            starts: 2,
            crashes: 1,
            examples: false,
        }
    }

    pub(crate) fn examples() -> Protocol {
        Protocol {
            examples: true,
            ..Protocol::small(Rules::all())
        }
    }
}

/// What happens to a batch that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Commit {
    Answered,
    /// It arrived, the answer did not.
    Unanswered,
    Lost,
    /// It may arrive later.
    Limbo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    TakeOver(usize),
    Submit(usize),
    Send(usize, Commit),
    Arrive,
    Report(usize),
    ReadReport(usize, usize),
    Fence(usize, usize),
    FenceDead(usize),
    Decide(usize),
    Dispatch(usize, usize),
    Deliver,
    Finish(usize),
    Tell(usize, usize),
    Crash(usize),
    Rejoin(usize),
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([Action::Arrive, Action::Deliver]);
        for one in 0..REPLICAS {
            use Action::*;
            actions.extend([
                TakeOver(one),
                Submit(one),
                Report(one),
                Decide(one),
                Finish(one),
                Crash(one),
                Rejoin(one),
                FenceDead(one),
            ]);
            actions.extend(
                [
                    Commit::Answered,
                    Commit::Unanswered,
                    Commit::Lost,
                    Commit::Limbo,
                ]
                .map(|commit| Send(one, commit)),
            );
            for other in 0..REPLICAS {
                actions.extend([
                    ReadReport(one, other),
                    Fence(one, other),
                    Dispatch(one, other),
                    Tell(other, one),
                ]);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match action {
            Action::TakeOver(one) => self.take_over(&mut next, one),
            Action::Submit(one) => submit(&mut next, one),
            Action::Send(one, commit) => self.send(&mut next, one, commit),
            Action::Arrive => next
                .limbo
                .take()
                .map(|batch| _ = self.append(&mut next, batch)),
            Action::Report(one) => report(&mut next, one),
            Action::ReadReport(one, other) => self.read_report(&mut next, one, other),
            Action::Fence(one, other) => self.fence(&mut next, one, other),
            Action::FenceDead(one) => self.fence_dead(&mut next, one),
            Action::Decide(one) => self.decide(&mut next, one),
            Action::Dispatch(one, other) => self.dispatch(&mut next, one, other),
            Action::Deliver => self.deliver(&mut next),
            Action::Finish(one) => finish(&mut next, one),
            Action::Tell(other, one) => self.tell(&mut next, other, one),
            Action::Crash(one) => self.crash(&mut next, one),
            Action::Rejoin(one) => rejoin(&mut next, one),
        }?;
        if !self.examples {
            (next.refused, next.adopted, next.recognised) = (false, false, false);
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        if self.examples {
            possible()
        } else {
            promised()
        }
    }
}

/// What must hold in every state.
fn promised() -> Vec<Property<Protocol>> {
    vec![
        Property::always("no write of an older epoch", |_, state: &State| {
            !state.stale_write
        }),
        Property::always("one outcome", |_, state: &State| {
            state
                .journal
                .iter()
                .filter(|batch| matches!(batch.record, Record::Ended(_)))
                .count()
                <= 1
        }),
        Property::always("no attempt beside another", |_, state: &State| {
            state.backends.len() <= 1
        }),
        Property::always("what survives is not started again", |_, state: &State| {
            state.starts <= 1 + state.losses
        }),
        Property::always("only the live attempt ends a task", |_, state: &State| {
            !state.wrong_end
        }),
        Property::always("what was acknowledged is kept", |_, state: &State| {
            let submitted =
                !state.acknowledged_submit || state.holds(|record| *record == Record::Submitted);
            submitted
                && (!state.acknowledged_end
                    || state.holds(|record| matches!(record, Record::Ended(_))))
        }),
    ]
}

/// What must be possible: a protocol that does nothing would keep every promise.
fn possible() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes("a zombie is refused", |_, state: &State| state.refused),
        Property::sometimes("a batch is recognised", |_, state: &State| state.recognised),
        Property::sometimes("an adopted attempt ends its task", |_, state: &State| {
            state.adopted && state.acknowledged_end && state.starts == 1
        }),
        Property::sometimes("a lost attempt is repeated", |_, state: &State| {
            state.starts == 2 && state.acknowledged_end
        }),
    ]
}
