//! What follows from the outcome of a batch: release, resend, rebuild the core, or find the command
//! that Postgres rejects.
//!
//! Whatever happens to a batch, completions and closed streams in it are kept for the rebuilt core.

use super::{
    Decided, InFlight, Machine, State,
    envelope::{Envelope, split, storable, survives},
    event::{Effect, Release},
};
use crate::{
    core::{Action, BatchNo, Reject, Reply, Tally, Time},
    journal::Commit,
};
use std::time::Duration;

/// Wait before a batch is sent again, doubled up to `RESEND_MAX`.
pub(super) const RESEND_MIN: Duration = Duration::from_millis(50);
const RESEND_MAX: Duration = Duration::from_secs(2);
/// How often Postgres says that it did not accept a batch before it is taken apart.
const MAX_REFUSALS: u32 = 5;
/// A batch that takes so long has kept callers from being answered.
const OUTAGE: Duration = Duration::from_secs(1);

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
                let took = self.steady(now).since(flight.sent_at);
                if let State::Working(core) = &mut self.state
                    && took >= OUTAGE
                {
                    core.renew_claims(now);
                }
                let over =
                    self.executors
                        .released(now, &flight.decided.commands, &flight.decided.actions);
                effects.push(flight.decided.release(Some(flight.batch), over));
            }
            Commit::Unknown { .. } => {
                flight.uncertain = true;
                self.resend(flight, effects);
            }
            Commit::Fenced => self.rebuild(flight.decided, effects),
            // What brings no command is nobody's fault, and stays what has to be written.
            Commit::Rejected { .. } if flight.decided.commands.is_empty() => {
                self.resend(flight, effects)
            }
            Commit::Rejected { .. } => self.isolate(flight.decided, effects),
            Commit::RolledBack { blames, .. } => {
                flight.refusals += 1;
                let alone = self.isolating && !blames;
                match () {
                    _ if alone || flight.decided.commands.is_empty() => {
                        self.resend(flight, effects)
                    }
                    _ if flight.refusals < MAX_REFUSALS => self.resend(flight, effects),
                    // An earlier send may have written it after all.
                    _ if flight.uncertain => self.rebuild(flight.decided, effects),
                    _ => self.isolate(flight.decided, effects),
                }
            }
        }
    }

    fn resend(&mut self, mut flight: InFlight, effects: &mut Vec<Effect>) {
        effects.push(Effect::Append(flight.batch.clone(), flight.pause));
        flight.pause = (flight.pause * 2).min(RESEND_MAX);
        self.in_flight = Some(flight);
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
                tally: Tally::default(),
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
        self.without_core(State::Recovering, effects);
        effects.push(Effect::Recover);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::machine::{
        Event,
        fixture::{NOW, answers, opens, owner, recovered},
    };

    /// An owner of which two callers have asked something that leaves records.
    fn asked() -> Machine {
        let mut machine = owner();
        machine.step(NOW, [1, 2].map(opens));
        machine
    }

    fn refused(no: i64, blames: bool) -> Event {
        let commit = Commit::RolledBack {
            sqlstate: "XX000".into(),
            message: "no".into(),
            blames,
        };
        Event::Commit(BatchNo(no), commit)
    }

    /// Refuses a batch until something else is done than to send it again.
    fn refuse(machine: &mut Machine, no: i64) -> Vec<Effect> {
        for _ in 0..100 {
            let effects = machine.step(NOW, [refused(no, true)]);
            if !matches!(effects.as_slice(), [Effect::Append(..)]) {
                return effects;
            }
        }
        panic!("it is sent again for ever");
    }

    #[test]
    fn a_batch_that_is_refused_again_and_again_is_taken_apart_and_only_the_culprit_fails() {
        let mut machine = asked();
        let effects = refuse(&mut machine, 1);
        assert!(
            matches!(effects.as_slice(), [Effect::Discard(_), Effect::Recover]),
            "{effects:?}"
        );
        machine.step(NOW, [recovered(2)]);
        let effects = refuse(&mut machine, 1);
        assert_eq!(answers(&effects), [(1, false)]);
        machine.step(NOW, [recovered(3)]);
        let effects = machine.step(NOW, [Event::Commit(BatchNo(1), Commit::Durable)]);
        assert_eq!(answers(&effects), [(2, true)]);
    }

    #[test]
    fn a_batch_that_may_have_been_written_before_it_was_refused_is_not_applied_again() {
        let mut machine = asked();
        let unknown = Commit::Unknown {
            message: "no answer".into(),
        };
        machine.step(NOW, [Event::Commit(BatchNo(1), unknown)]);
        let effects = refuse(&mut machine, 1);
        assert!(
            matches!(effects.as_slice(), [Effect::Discard(_), Effect::Recover]),
            "{effects:?}"
        );
        assert!(machine.undecided_tickets().is_empty());
    }

    #[test]
    fn a_single_command_is_not_blamed_for_a_server_without_memory() {
        let mut machine = asked();
        refuse(&mut machine, 1);
        machine.step(NOW, [recovered(2)]);
        for _ in 0..100 {
            let effects = machine.step(NOW, [refused(1, false)]);
            assert!(
                matches!(effects.as_slice(), [Effect::Append(..)]),
                "{effects:?}"
            );
        }
    }
}
