//! The owner reads the journal, alone or after others, and executors report to it what they run.

use super::{CLEARED, World, command};
use crate::{recover::recover, scenario::Fault};
use rallypoint::{
    coordinator::machine::{Envelope, Event},
    core::{BatchNo, Command, InDoubtWindow, SlotCounts, Unreported, Work},
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Slots of work that needs none.
const SESSIONLESS_SLOTS: u32 = 1_000;

impl World<'_> {
    pub(super) fn recover(&mut self, events: &mut Vec<Event>) {
        self.recovering = false;
        let is_quiet = self.machine.backlog() == 0 && self.callers.pending.is_empty();
        if is_quiet && self.may(Fault::Owners) && self.rng.percent(20) {
            // Nobody owned it for long, or a clock was set: calls may be repeated all the same.
            self.now = self.now + DAY;
        }
        let epoch = self.journal.take_over();
        let memory = self.journal.memory(self.now);
        let schedulers = recover(&self.journal, memory.since(self.now));
        let window = (epoch.0 > self.machine.epoch().0 + 1).then(|| self.window());
        if window.is_some() && (self.machine.epoch().0 > 0 || self.survivors.is_none()) {
            // Another owner came between, or before: who runs what is reported anew.
            self.prefetch.bodies.drop_waiting();
            let is_report = |event: &Event| match event {
                Event::Command(envelope) => matches!(envelope.command, Command::Completed(_)),
                _ => false,
            };
            events.retain(|event| !is_report(event));
            let lost = self.is_lost() || (self.faults && self.rng.percent(20));
            self.survivors = Some(self.executors.change_owner(lost, || false));
            // Streams end with the ownership they were opened under.
            self.callers.streams.clear();
        }
        if window.is_some() {
            self.since = epoch;
        }
        events.push(Event::Recovered {
            schedulers,
            pauses: self.journal.pauses_in_force(),
            resources: self.journal.resources.clone(),
            jobs: self.journal.jobs.clone().into(),
            epoch,
            last_batch: BatchNo(self.journal.last_batch()),
            memory,
            window,
        });
        events.extend(self.all_slots());
        events.push(command(Command::Slots {
            work: Work::Noop,
            slots: SlotCounts::of(SESSIONLESS_SLOTS),
        }));
    }

    /// A host was lost, and that is not on record yet.
    pub(super) fn is_lost(&self) -> bool {
        self.survivors
            .as_ref()
            .is_some_and(|survivors| survivors.lost)
    }

    /// Executors report to the new owner, a few at a time, and in the end it is known that nobody
    /// else will.
    pub(super) fn executors_return(&mut self, events: &mut Vec<Event>) {
        let survivors = self.survivors.as_mut();
        let Some(survivors) = survivors.filter(|survivors| !survivors.reported) else {
            return;
        };
        let some = self.rng.below(survivors.running.len() as u64 + 1) as usize;
        let reported: Vec<_> = survivors.running.drain(..some).collect();
        survivors.reported = survivors.running.is_empty();
        let over = survivors.reported.then_some(survivors.lost);
        self.executors.reported(&reported);
        events.push(command(Command::Reported(reported)));
        events.extend(self.all_slots());
        let Some(lost) = over else { return };
        let unreported = match lost {
            true => Unreported::MayHaveBegun,
            false => Unreported::NotBegun,
        };
        for (target, ticket) in self.fixtures.targets.iter().zip([None, Some(CLEARED)]) {
            let command = Command::Cleared {
                work: Some(target.clone()),
                unreported,
                since: self.since,
            };
            events.push(Event::Command(Envelope { ticket, command }));
        }
    }

    /// A target goes away, comes back, or changes its slots.
    pub(super) fn slots_change(&mut self, events: &mut Vec<Event>) {
        let target = self.rng.place(2);
        let most = u64::from(self.slots[target]);
        let total = match self.rng.below(4) {
            _ if !self.may(Fault::Targets) => most,
            0..=1 => most,
            2 => self.rng.below(most + 1),
            _ => 0,
        };
        events.push(self.slots_of(target, total as u32));
    }

    pub(super) fn all_slots(&self) -> Vec<Event> {
        (0..2)
            .map(|target| self.slots_of(target, self.slots[target]))
            .collect()
    }

    /// Slots of those who have reported.
    fn slots_of(&self, target: usize, total: u32) -> Event {
        let absent = self.survivors.as_ref();
        let absent = absent.map_or(0, |survivors| survivors.running.len() as u32);
        let total = total.saturating_sub(absent);
        command(Command::Slots {
            work: self.fixtures.targets[target].clone(),
            slots: SlotCounts {
                total,
                window: total * self.begun_per_slot,
                line: total * self.line_per_slot,
                spare: total * self.begun_per_slot.saturating_sub(1 + self.line_per_slot),
                ..SlotCounts::default()
            },
        })
    }

    /// What a new owner would take to be in doubt.
    pub(super) fn window(&self) -> InDoubtWindow {
        let slots = self.slots.map(|slots| slots * self.begun_per_slot);
        self.fixtures.targets.iter().cloned().zip(slots).collect()
    }
}
