//! A batch of ends lingers: it waits a moment for more of them, when nobody waits for it.
//!
//! Written as soon as the last batch is durable, the ends of short tasks come in batches of a few,
//! and each batch costs the journal as much as many ends do.

use super::{Effect, Machine, State};
use crate::core::Time;
use std::time::Duration;

/// How long a batch that could be sent waits for more ends.
const LINGER: Duration = Duration::from_millis(2);

impl Machine {
    /// Whether the open batch lingers. Slots that have become free are given away meanwhile, which
    /// needs the lease.
    pub(super) fn lingers(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let latest = now + LINGER;
        let until = self.linger_until.map_or(latest, |until| until.min(latest));
        let lingers = now < until && self.start_unless_awaited(now, effects);
        self.linger_until = lingers.then_some(until);
        lingers
    }

    /// Gives away free slots if nobody waits for the open batch; returns whether nobody does then.
    fn start_unless_awaited(&mut self, now: Time, effects: &mut Vec<Effect>) -> bool {
        let State::Working(core) = &mut self.state else {
            return false;
        };
        // What is in the inbox had no space in the batch.
        let is_held = self.isolating || !self.inbox.is_empty() || !self.lease_holds;
        if is_held || core.next_settling() <= now || !core.may_linger(&self.open) {
            return false;
        }
        core.start_meanwhile(now, None, &mut self.open);
        // Whoever is next may have to wait for it.
        let lingers = core.may_linger(&self.open);
        self.release_early(now, effects);
        lingers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::machine::fixture::{NOW, asks, durable, ended, opens, runs, starts},
        core::{Command, SlotCounts},
        journal::Batch,
    };
    use std::sync::Arc;

    /// An owner of two slots with a line, after so many short tasks that a batch with the end of
    /// this one lingers.
    fn lingering() -> (Machine, i64) {
        let slots = SlotCounts {
            window: 24,
            line: 4,
            spare: 18,
            ..SlotCounts::of(2)
        };
        let mut machine = runs(slots, 90);
        let last = (1..60).find(|seq| {
            let sent = appended(&machine.step(NOW, [ended(*seq)]));
            sent.iter().for_each(|batch| {
                machine.step(NOW, [durable(batch.no.0)]);
            });
            sent.is_none()
        });
        (machine, last.expect("a batch lingers"))
    }

    fn appended(effects: &[Effect]) -> Option<Arc<Batch>> {
        effects.iter().find_map(|effect| match effect {
            Effect::Append(batch, _) => Some(Arc::clone(batch)),
            _ => None,
        })
    }

    /// How many ends it brings.
    fn ends(batch: Option<Arc<Batch>>) -> Option<u32> {
        let rows = &batch?.records.completions;
        Some(rows.iter().map(|row| row.count()).sum())
    }

    #[test]
    fn ends_of_short_tasks_wait_for_more_of_them_for_a_moment() {
        let (mut machine, last) = lingering();
        assert_eq!(machine.next_due(), NOW + LINGER);
        let effects = machine.step(NOW + LINGER / 2, [ended(last + 1)]);
        assert_eq!(
            (ends(appended(&effects)), starts(&effects).len()),
            (None, 1)
        );
        assert_eq!(machine.next_due(), NOW + LINGER);
        let effects = machine.step(NOW + LINGER, []);
        assert_eq!(ends(appended(&effects)), Some(2));
        let effects = machine.step(NOW + LINGER, [ended(last + 2)]);
        assert_eq!(
            (ends(appended(&effects)), starts(&effects).len()),
            (None, 1)
        );
    }

    #[test]
    fn a_call_is_not_kept_waiting() {
        let asks_what_leaves_no_record = asks(3, Command::Status);
        for call in [opens(2), asks_what_leaves_no_record] {
            let (mut machine, _) = lingering();
            assert_eq!(ends(appended(&machine.step(NOW, [call]))), Some(1));
        }
    }

    #[test]
    fn without_the_lease_nothing_waits() {
        let (mut machine, last) = lingering();
        machine.set_lease(false);
        let effects = machine.step(NOW, [ended(last + 1)]);
        assert_eq!(
            (ends(appended(&effects)), starts(&effects).len()),
            (Some(2), 0)
        );
    }
}
