//! Which tasks start before their batch is durable, and whether a batch may therefore wait.
//!
//! A start that leaves no record waits for nothing but what it depends on: the task's submission,
//! the ends of the lower orders, and the row of its scheduler. The end of the task that had the
//! slot before is none of it, so a slot does not wait for the journal.
//!
//! A crash then leaves tasks that run, or have even ended, of which the journal knows nothing. The
//! next owner takes the first tasks of each order to be in doubt, as many as the register of
//! executors says (`Command::Slots`, `window`); so no more start early than that.

use crate::core::{
    Handle, Output, Shard, Time, Turn, Unwritten,
    fairness::slot_kinds::KindId,
    scheduler::{Scheduler, queue::span::Span},
};

impl Shard {
    /// Gives free slots away while an earlier batch is on its way into the journal, or the open one
    /// lingers, as far as those whose turn it is may start at once. A slot whose next task may not
    /// waits for the open batch. The others are chosen when the next batch is closed, and so is
    /// work without a session, of which a batch takes more in one go.
    pub fn start_meanwhile(&mut self, now: Time, in_flight: Option<&Unwritten>, out: &mut Output) {
        let turn = &mut Turn::new(now, out);
        for kind in self.fair.slots.kinds() {
            while let Some(grant) = self.next_grant(kind) {
                if !self.may_start_early(turn, kind, grant.handle, in_flight) {
                    turn.out.unwritten.awaited();
                    break;
                }
                self.start(turn, kind, grant, true);
                self.refresh();
            }
        }
    }

    /// Whether the batch that is open may wait for more ends: it brings nothing else, nobody's next
    /// task needs it, and slots go on from the line at their executor. Not once half of the spare
    /// window is used, because the other half is for what ends while the batch is written.
    pub fn may_linger(&self, out: &Output) -> bool {
        let goes_on = |(kind, ends): (KindId, u32)| {
            let slots = &self.fair.slots[kind];
            slots.in_line() > 0 && 2 * ends < slots.counts.spare
        };
        let has_ends = !out.records.completions.is_empty();
        has_ends && !out.is_awaited() && out.unwritten.all_reports().all(goes_on)
    }

    /// How many attempts that have a session are under way.
    pub fn attempts_with_session(&self) -> u32 {
        let slots = &self.fair.slots;
        let with_session = slots.kinds().map(|kind| &slots[kind]);
        with_session
            .filter(|slots| slots.work.has_session())
            .map(|slots| slots.open)
            .sum()
    }

    /// A task has ended: notes whether its scheduler waits for that to be durable.
    pub(crate) fn note_whether_it_goes_on(&self, turn: &mut Turn, kind: KindId, handle: Handle) {
        if !self.may_start_early(turn, kind, handle, None) {
            turn.out.unwritten.awaited();
        }
    }

    /// Whether the next task of a scheduler may start before the batch that is open is durable, and
    /// the one in flight.
    pub(crate) fn may_start_early(
        &self,
        turn: &Turn,
        kind: KindId,
        handle: Handle,
        in_flight: Option<&Unwritten>,
    ) -> bool {
        let slots = &self.fair.slots[kind];
        let scheduler = self.schedulers.expect(handle);
        if !slots.work.has_session() || scheduler.is_overdue(turn.now) {
            return false;
        }
        let batches = || [&turn.out.unwritten].into_iter().chain(in_flight);
        if batches().any(Unwritten::holds_everything) {
            return false;
        }
        let reported: u32 = batches().map(|batch| batch.reports(kind)).sum();
        // Whatever may have begun and is unfinished by the journal holds a slot, or has ended and
        // its end is not durable.
        let has_room = slots.open + reported < slots.counts.window;
        has_room && scheduler.next_depends_on_none(kind, batches())
    }
}

impl Scheduler {
    /// Its next task of a kind, if the start of that leaves no record.
    pub(crate) fn next_without_record(&self, kind: KindId) -> Option<&Span> {
        let span = self.queue.next(kind, self.start_limit())?;
        if self.lines.next(kind, Some(span.first)).is_some() {
            return None;
        }
        let recorded = self.histories.contains_key(&span.first) || self.must_record(span);
        (!recorded).then_some(span)
    }

    /// Whether the start of its next task of a kind leaves no record, and depends on nothing that
    /// these batches bring.
    fn next_depends_on_none<'a>(
        &self,
        kind: KindId,
        mut batches: impl Iterator<Item = &'a Unwritten>,
    ) -> bool {
        let free = |span: &Span| {
            let concerns =
                |batch: &Unwritten| batch.concerns(self.handle(), span.first, span.order);
            !batches.any(concerns)
        };
        self.next_without_record(kind).is_some_and(free)
    }
}
