//! What stands in line for a slot: as the real executors have it, who is handed out for a free slot
//! comes before who is not.

use super::{Executors, Job};
use crate::{fixtures::Fixtures, rng::Rng};
use rallypoint::core::{Assignment, Handle, Report, Seq, Time, Work};

/// What has begun: a scheduler, the first task, how many.
pub(crate) type Begun = (Handle, Seq, u32);

impl Executors {
    /// Takes an assignment on that stands in line for one of `slots`; says what begins.
    pub(crate) fn line_up(
        &mut self,
        now: Time,
        assignment: Assignment,
        slots: u32,
        fixtures: &Fixtures,
        (faults, rng): (bool, &mut Rng),
    ) -> Vec<Begun> {
        let (work, leaves_free) = (assignment.spec.work.clone(), assignment.in_line);
        let job = Job {
            assignment,
            began: now,
            ends: Time::NEVER,
            report: Report::NotStarted,
            asked_to_stop: false,
            in_line: true,
        };
        match leaves_free {
            Some(_) => self.running.push(job),
            None => self.running.insert(0, job),
        }
        let mut begun = Vec::new();
        while self.free(&work, slots) > leaves_free.unwrap_or(0)
            && let Some(next) = self.next_in_line(now, &work, fixtures, (faults, rng))
        {
            begun.push(next);
        }
        begun
    }

    /// Slots that are free.
    pub(crate) fn free(&self, work: &Work, slots: u32) -> u32 {
        let known = self.running.iter().filter(|job| !job.in_line);
        let known = known.filter(|job| {
            let a = &job.assignment;
            a.spec.work == *work && !self.is_unreported((a.handle, a.first))
        });
        slots.saturating_sub(known.count() as u32)
    }

    /// A slot is free: who has stood in line for longest begins.
    pub(super) fn next_in_line(
        &mut self,
        now: Time,
        work: &Work,
        fixtures: &Fixtures,
        (faults, rng): (bool, &mut Rng),
    ) -> Option<Begun> {
        loop {
            let is_next = |job: &Job| job.in_line && job.assignment.spec.work == *work;
            let at = self.running.iter().position(is_next)?;
            let job = self.running.remove(at);
            if job.asked_to_stop {
                self.end(&job.assignment, Report::Stopped, now, now);
                continue;
            }
            let Assignment {
                handle,
                first,
                count,
                ..
            } = job.assignment;
            self.begin(now, job.assignment, fixtures, faults, rng);
            return Some((handle, first, count));
        }
    }

    /// Some leave the line, because what runs lasts too long, or their target has gone.
    pub(crate) fn give_back(&mut self, now: Time, rng: &mut Rng) {
        if !rng.percent(10) {
            return;
        }
        let (waiting, running): (Vec<Job>, _) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|job| job.in_line);
        self.running = running;
        for job in waiting {
            self.end(&job.assignment, Report::NotStarted, now, now);
        }
    }

    /// Who stands in line for a slot of this kind, or will when its body is there.
    pub(crate) fn in_line(&self, work: &Work) -> u32 {
        let waiting = self.running.iter().filter(|job| job.in_line);
        let waiting = waiting.map(|job| &job.assignment);
        let all = waiting.chain(self.awaiting.iter().filter(|one| one.in_line.is_some()));
        all.filter(|one| one.spec.work == *work).count() as u32
    }

    /// Whether somebody stands in line.
    pub(crate) fn has_line(&self) -> bool {
        self.running.iter().any(|job| job.in_line)
    }
}
