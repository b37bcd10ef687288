//! How assignments get a slot: with the line of the real executors.

use super::{Executors, Job};
use crate::{fixtures::Fixtures, rng::Rng};
use rallypoint::core::{Assignment, Handle, Report, Seq, Time, Work};
use std::time::Duration;

/// How long those who leave a line have stood there, at most.
pub(crate) const LONGEST_IN_LINE: Duration = Duration::from_millis(20);

/// What has begun: a scheduler, the first task, how many.
pub(crate) type Begun = (Handle, Seq, u32);

impl Executors {
    /// Takes an assignment on; says whether it goes on here.
    pub(crate) fn take(&mut self, now: Time, assignment: Assignment, refuses: bool) -> bool {
        if refuses {
            self.end(&assignment, Report::NotStarted, now, now);
            return false;
        }
        let line = self.lines.entry(assignment.spec.work.clone()).or_default();
        let leaves_free = assignment.leaves_free;
        line.join(now, (now, assignment), leaves_free);
        true
    }

    /// Has those begin for whom a slot of this kind is free.
    pub(crate) fn start(
        &mut self,
        now: Time,
        (work, slots): (&Work, u32),
        fixtures: &Fixtures,
        (faults, rng): (bool, &mut Rng),
    ) -> Vec<Begun> {
        let mut begun = Vec::new();
        while let Some(next) = self.next_in_line(work, slots) {
            let Assignment {
                handle,
                first,
                count,
                ..
            } = next;
            self.begin(now, next, fixtures, faults, rng);
            begun.push((handle, first, count));
        }
        begun
    }

    fn next_in_line(&mut self, work: &Work, slots: u32) -> Option<Assignment> {
        let on_slot = |job: &&Job| {
            let a = &job.assignment;
            a.spec.work == *work && !self.is_unreported((a.handle, a.first))
        };
        let busy = self.running.iter().filter(on_slot).count();
        let line = self.lines.get_mut(work)?;
        let next = line.next((slots as usize).saturating_sub(busy))?;
        Some(next.1)
    }

    /// Some leave the line, because what runs lasts too long, or their target has gone.
    pub(crate) fn give_back(&mut self, now: Time, rng: &mut Rng) {
        if !self.has_line() || !rng.percent(10) {
            return;
        }
        let longest = rng.up_to(LONGEST_IN_LINE);
        let lines = self.lines.values_mut();
        let left: Vec<_> = lines.flat_map(|line| line.leave(now, longest)).collect();
        for (_, assignment) in left {
            self.end(&assignment, Report::NotStarted, now, now);
        }
    }

    /// What stands in line.
    pub(super) fn in_line(&self) -> impl Iterator<Item = &Assignment> {
        let all = self.lines.values().flat_map(|line| line.iter());
        all.map(|(_, assignment)| assignment)
    }

    /// Whether somebody stands in line.
    pub(crate) fn has_line(&self) -> bool {
        self.in_line().next().is_some()
    }

    /// Those of whom this is false leave the line, and nobody hears of them.
    pub(super) fn keep_in_line(&mut self, mut keep: impl FnMut() -> bool) {
        for line in self.lines.values_mut() {
            for (since, assignment) in line.leave(Time::NEVER, Duration::ZERO) {
                let leaves_free = assignment.leaves_free;
                if keep() {
                    line.join(since, (since, assignment), leaves_free);
                }
            }
        }
    }
}
