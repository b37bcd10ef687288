//! The line for slots that are not free yet: who may stand there, and what becomes of a place that
//! was given back.

use super::{Fair, FairShare, Grant, Hold};
use crate::core::{fairness::slot_kinds::KindId, model::limits::FIRST_LENGTH};
use std::time::Duration;

impl Fair {
    /// Who may stand in line for a slot of `kind` while none is free for it: who is next, while
    /// its attempts are `short` and those of all others. So it hardly waits, and neither does
    /// anybody who comes behind it.
    pub(crate) fn pick_for_line(&self, kind: KindId, short: Duration) -> Option<Grant> {
        let slots = &self.slots[kind];
        let short = short.as_micros() as i64;
        if !slots.has_place_in_line() || !slots.learned || slots.length > short {
            return None;
        }
        let namespace = slots.queue.first()?;
        Some(Grant {
            handle: self.member(namespace, kind).queue.first()?,
            slots: 1,
            ahead_of_turn: false,
            in_line: true,
        })
    }

    /// The scheduler gives back what has waited for a slot for so long, microseconds, and did not
    /// begin. In line that is because others run longer than was thought, and else because there
    /// is none; either way nobody should stand in line for a while.
    pub(crate) fn withdraw(&mut self, share: &mut FairShare, hold: Hold, waited: i64) {
        let slots = &mut self.slots[hold.kind];
        // Who was kept waiting by an outage knows nothing of how long tasks last.
        let waited = waited.min(FIRST_LENGTH.as_micros() as i64);
        slots.length = slots.length.max(waited);
        let new = hold.charged - hold.earlier;
        self.charge(share, hold, -new, -new);
        self.hold(share, hold, -1);
    }
}
