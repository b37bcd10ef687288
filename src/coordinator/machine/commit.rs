//! What follows from the outcome of a batch: release, resend, rebuild the core, or find the command
//! that Postgres rejects.
//!
//! Whatever happens to a batch, completions and closed streams in it are kept for the rebuilt core.

use super::{
    Decided, Machine, State,
    envelope::{Envelope, split, storable, survives},
    event::{Effect, Release},
};
use crate::{
    core::{Action, BatchNo, Output, Reject, Reply, Time},
    journal::Commit,
};
use std::time::Duration;

/// Wait before a batch is sent again, doubled up to `RESEND_MAX`.
pub(super) const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_secs(2);

impl Machine {
    /// The batch in flight has this outcome. Ignored when it is a batch of an earlier core.
    pub(super) fn committed(
        &mut self,
        now: Time,
        no: BatchNo,
        commit: Commit,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut flight) = self.in_flight.take_if(|flight| flight.batch.no == no) else {
            return;
        };
        match commit {
            Commit::Durable => {
                self.isolating = false;
                let over =
                    self.executors
                        .released(now, &flight.decided.commands, &flight.decided.actions);
                let Decided {
                    actions, progress, ..
                } = flight.decided;
                effects.push(Effect::Release(Release {
                    batch: Some(flight.batch),
                    actions,
                    progress,
                    over,
                }));
            }
            Commit::Unknown { .. } => {
                effects.push(Effect::Append(flight.batch.clone(), flight.pause));
                flight.pause = (flight.pause * 2).min(RESEND_MAX);
                self.in_flight = Some(flight);
            }
            Commit::Fenced => self.rebuild(flight.decided, effects),
            Commit::Rejected { .. } => self.isolate(flight.decided, effects),
        }
    }

    /// The batch can never be durable, so the core is wrong about everything since. Callers learn
    /// that the effect is unknown; what executors reported is kept for the rebuilt core.
    fn rebuild(&mut self, decided: Decided, effects: &mut Vec<Effect>) {
        let open = std::mem::take(&mut self.open_commands);
        let mut surviving: Vec<Envelope> = Vec::new();
        for envelope in decided.commands.into_iter().chain(open) {
            // Without a ticket the caller learns that the effect is unknown.
            if survives(&envelope.command) {
                surviving.push(Envelope {
                    ticket: None,
                    ..envelope
                });
            }
        }
        for envelope in surviving.into_iter().rev() {
            self.inbox.push_front(envelope);
        }
        self.discard(effects);
    }

    /// Postgres rejected the batch: its commands are applied again one per batch, so that only the
    /// culprit fails.
    fn isolate(&mut self, decided: Decided, effects: &mut Vec<Effect>) {
        let mut commands = decided.commands;
        if self.isolating {
            // The one isolated command of this batch is the culprit.
            let rejected = commands.iter().filter_map(|culprit| culprit.ticket);
            let actions = rejected
                .map(|ticket| Action::Reply(ticket, Reply::Rejected(Reject::JournalRejected)))
                .collect();
            effects.push(Effect::Release(Release {
                batch: None,
                actions,
                progress: Vec::new(),
                over: Vec::new(),
            }));
            commands = commands.into_iter().filter_map(storable).collect();
        }
        commands.append(&mut self.open_commands);
        for envelope in split(commands).into_iter().rev() {
            self.isolated.push_front(envelope);
        }
        self.discard(effects);
    }

    fn discard(&mut self, effects: &mut Vec<Effect>) {
        self.state = State::Recovering;
        self.open = Output::default();
        self.open_bytes = 0;
        self.isolating = false;
        effects.push(Effect::Recover);
    }
}
