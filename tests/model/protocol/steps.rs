//! The steps of the protocol. A step returns `None` if it is not possible now.

use super::{Commit, Protocol};
use crate::state::{Batch, Owner, REPLICAS, Record, State, View, Work};

impl Protocol {
    pub(crate) fn take_over(&self, state: &mut State, one: usize) -> Option<()> {
        let owns = state.replicas[one]
            .owner
            .is_some_and(|owner| owner.epoch == state.epoch);
        if owns || state.epoch == self.epochs {
            return None;
        }
        state.epoch += 1;
        state.reports = [None; REPLICAS];
        let ended = state.holds(|record| matches!(record, Record::Ended(_)));
        let submitted = state.holds(|record| *record == Record::Submitted);
        let task = match (submitted, ended) {
            (_, true) => View::Ended,
            (true, false) if state.epoch > 1 && self.rules.in_doubt_waits => View::InDoubt,
            (true, false) => View::Queued,
            (false, false) => View::Unknown,
        };
        if self.rules.first_batch {
            state.journal.push(Batch {
                no: state.journal.len() as u8 + 1,
                epoch: state.epoch,
                record: Record::Begun,
            });
        }
        let owner = Owner {
            epoch: state.epoch,
            durable: state.journal.len() as u8,
            in_flight: None,
            task,
            cleared: [false; REPLICAS],
            dead_cleared: false,
        };
        state.replicas[one].owner = Some(owner);
        Some(())
    }

    pub(crate) fn send(&self, state: &mut State, one: usize, commit: Commit) -> Option<()> {
        let owner = state.replicas[one].owner?;
        let record = owner.in_flight?;
        let batch = Batch {
            no: owner.durable + 1,
            epoch: owner.epoch,
            record,
        };
        if !self.rules.durable_first {
            acknowledge(state, record);
        }
        match commit {
            Commit::Lost => {}
            Commit::Limbo => state.limbo = Some(batch),
            Commit::Unanswered => _ = self.append(state, batch),
            Commit::Answered if self.append(state, batch) => {
                let owner = state.replicas[one].owner.as_mut()?;
                (owner.durable, owner.in_flight) = (owner.durable + 1, None);
                owner.task = if record == Record::Submitted {
                    View::Queued
                } else {
                    View::Ended
                };
                acknowledge(state, record);
            }
            Commit::Answered => {
                state.refused |= owner.epoch < state.epoch;
                state.replicas[one].owner = None;
            }
        }
        Some(())
    }

    /// The one statement that writes; returns whether the batch is in the journal.
    pub(crate) fn append(&self, state: &mut State, batch: Batch) -> bool {
        let behind = state.journal.len() as u8 + 1;
        if self.rules.recognise && batch.no < behind {
            let known = state.journal[batch.no as usize - 1].epoch == batch.epoch;
            state.recognised |= known;
            return known;
        }
        if self.rules.recognise && batch.no != behind {
            return false;
        }
        state.stale_write |= batch.epoch < state.epoch;
        state.journal.push(batch);
        true
    }

    pub(crate) fn read_report(&self, state: &mut State, one: usize, other: usize) -> Option<()> {
        let report = state.reports[other]?;
        let owner = current(state, one)?;
        owner.cleared[other] = true;
        if let (Work::Running(token) | Work::Done(token), View::InDoubt, true) =
            (report, owner.task, self.rules.adopt)
        {
            owner.task = View::Running(other, token);
            state.adopted = true;
        }
        Some(())
    }

    /// Ends everything a replica runs, alive or not: its heartbeats may merely be late.
    pub(crate) fn fence(&self, state: &mut State, one: usize, other: usize) -> Option<()> {
        if one == other || state.fenced[other] {
            return None;
        }
        let owner = current(state, one)?;
        owner.cleared[other] = true;
        if matches!(owner.task, View::Running(on, _) if on == other) {
            owner.task = View::Queued;
        }
        state.fenced[other] = true;
        state.reports[other] = None;
        if self.rules.fence {
            let lost = state.backends.iter().any(|(_, whose)| *whose == other);
            state
                .backends
                .retain(|(_, whose)| *whose % REPLICAS != other);
            // An outcome that it had not delivered is lost with it.
            state.losses += u8::from(lost || matches!(state.replicas[other].work, Work::Done(_)));
        }
        Some(())
    }

    /// Ends everything that crashed replicas have left running.
    pub(crate) fn fence_dead(&self, state: &mut State, one: usize) -> Option<()> {
        let owner = current(state, one)?;
        (!owner.dead_cleared).then_some(())?;
        owner.dead_cleared = true;
        if self.rules.fence {
            state.backends.retain(|(_, whose)| *whose < REPLICAS);
        }
        Some(())
    }

    /// A task in doubt that no replica runs is queued again.
    pub(crate) fn decide(&self, state: &mut State, one: usize) -> Option<()> {
        let owner = current(state, one)?;
        (owner.task == View::InDoubt && owner.dead_cleared && owner.cleared == [true; REPLICAS])
            .then_some(())?;
        owner.task = View::Queued;
        Some(())
    }

    pub(crate) fn dispatch(&self, state: &mut State, one: usize, other: usize) -> Option<()> {
        let (token, many) = (state.next_token, state.starts);
        // An owner that was replaced may not know it yet.
        let owner = state.replicas[one].owner.as_mut()?;
        if owner.task != View::Queued
            || owner.in_flight.is_some()
            || state.dispatched.is_some()
            || many == self.starts
        {
            return None;
        }
        owner.task = View::Running(other, token);
        state.dispatched = Some((other, token * 8 + owner.epoch));
        state.next_token += 1;
        Some(())
    }

    /// An executor starts work if it gets a session.
    pub(crate) fn deliver(&self, state: &mut State) -> Option<()> {
        let (one, marked) = state.dispatched?;
        let (token, epoch) = (marked / 8, marked % 8);
        state.dispatched = None;
        let old = self.rules.refuse_old_work && epoch < state.replicas[one].seen;
        let no_session = self.rules.register && state.fenced[one];
        if old || no_session || state.replicas[one].work != Work::None {
            // No executor starts it under this token any more.
            state.losses += 1;
            state.starts += 1;
            return Some(());
        }
        state.replicas[one].work = Work::Running(token);
        state.backends.push((token, one));
        state.starts += 1;
        Some(())
    }

    pub(crate) fn tell(&self, state: &mut State, other: usize, one: usize) -> Option<()> {
        let Work::Done(token) = state.replicas[other].work else {
            return None;
        };
        let owner = state.replicas[one].owner.as_mut()?;
        if owner.task == View::Ended {
            // It is durable: the executor forgets it.
            state.replicas[other].work = Work::None;
            return Some(());
        }
        let live = owner.task == View::Running(other, token);
        if owner.in_flight.is_some() || (self.rules.token && !live) || owner.task == View::Unknown {
            return None;
        }
        owner.in_flight = Some(Record::Ended(token));
        state.wrong_end |= !live;
        Some(())
    }

    pub(crate) fn crash(&self, state: &mut State, one: usize) -> Option<()> {
        (state.crashes < self.crashes).then_some(())?;
        state.crashes += 1;
        lose_message(state, one);
        let seen = if self.rules.ask_first { state.epoch } else { 0 };
        let replica = &mut state.replicas[one];
        state.losses += u8::from(replica.work != Work::None);
        (replica.owner, replica.work, replica.seen) = (None, Work::None, seen);
        state.reports[one] = Some(Work::None);
        state.fenced[one] = false;
        // It comes back under another name; what runs under the old name goes on until it is
        // fenced.
        for (_, whose) in state.backends.iter_mut().filter(|(_, whose)| *whose == one) {
            *whose += REPLICAS;
        }
        state
            .replicas
            .iter_mut()
            .filter_map(|replica| replica.owner.as_mut())
            .for_each(|owner| owner.dead_cleared = false);
        Some(())
    }
}

pub(super) fn submit(state: &mut State, one: usize) -> Option<()> {
    let owner = state.replicas[one].owner.as_mut()?;
    (owner.task == View::Unknown && owner.in_flight.is_none()).then_some(())?;
    owner.in_flight = Some(Record::Submitted);
    Some(())
}

/// A replica sees a new epoch in its heartbeat and reports what it runs.
pub(super) fn report(state: &mut State, one: usize) -> Option<()> {
    (state.replicas[one].seen < state.epoch && !state.fenced[one]).then_some(())?;
    state.replicas[one].seen = state.epoch;
    state.reports[one] = Some(state.replicas[one].work);
    Some(())
}

/// The backend of an attempt ends; one that was fenced has no outcome.
pub(super) fn finish(state: &mut State, one: usize) -> Option<()> {
    let Work::Running(token) = state.replicas[one].work else {
        return None;
    };
    let ran = state.backends.contains(&(token, one));
    state.backends.retain(|backend| *backend != (token, one));
    state.replicas[one].work = if ran { Work::Done(token) } else { Work::None };
    Some(())
}

/// A fenced replica gives up its work and takes another name.
pub(super) fn rejoin(state: &mut State, one: usize) -> Option<()> {
    state.fenced[one].then_some(())?;
    state.fenced[one] = false;
    lose_message(state, one);
    state.replicas[one].work = Work::None;
    state.replicas[one].seen = state.epoch;
    state.reports[one] = Some(Work::None);
    Some(())
}

/// A message to a name that is gone is lost.
fn lose_message(state: &mut State, one: usize) {
    if state.dispatched.take_if(|(to, _)| *to == one).is_some() {
        state.starts += 1;
        state.losses += 1;
    }
}

fn acknowledge(state: &mut State, record: Record) {
    match record {
        Record::Begun => {}
        Record::Submitted => state.acknowledged_submit = true,
        Record::Ended(_) => state.acknowledged_end = true,
    }
}

/// The owner, if its epoch is the present one: reports and fences are read and written under it.
fn current(state: &mut State, one: usize) -> Option<&mut Owner> {
    let epoch = state.epoch;
    state.replicas[one]
        .owner
        .as_mut()
        .filter(|owner| owner.epoch == epoch)
}
