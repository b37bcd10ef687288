//! Model executors: they run what is released, for as long as they like, and tell how it ended, in
//! any order and some of it twice. They keep a completion until it is durable. A crash of the owner
//! takes those with it that ran in its process; the others report to the next one.

mod line;
mod survivors;

use crate::{fixtures::Fixtures, rng::Rng};
pub(crate) use line::LONGEST_IN_LINE;
use rallypoint::{
    core::{Assignment, Attempt, Completion, Handle, Report, Running, Seq, Time, TimeLimit, Work},
    executor::Line,
};
use std::{collections::BTreeMap, time::Duration};
pub(crate) use survivors::Survivors;

const LONGEST: Duration = Duration::from_millis(1_500);
/// Reports kept to be told again.
const OLD: usize = 6;

#[derive(Default)]
pub(crate) struct Executors {
    pub running: Vec<Job>,
    /// What stands in line for a slot, by kind, and since when.
    lines: BTreeMap<Work, Line<(Time, Assignment)>>,
    /// Handed out, and waiting for their body.
    pub awaiting: Vec<Assignment>,
    outbox: Vec<Completion>,
    /// Of those that have not reported to the new owner yet: they tell nothing before.
    silent: Vec<Completion>,
    /// Told, and not yet durable.
    unacknowledged: Vec<Completion>,
    old: Vec<Completion>,
    unreported: Vec<Running>,
}

pub(crate) struct Job {
    pub assignment: Assignment,
    began: Time,
    ends: Time,
    report: Report,
    asked_to_stop: bool,
}

impl Executors {
    fn begin(
        &mut self,
        now: Time,
        assignment: Assignment,
        fixtures: &Fixtures,
        faults: bool,
        rng: &mut Rng,
    ) {
        let noop = assignment.spec.work == Work::Noop;
        let (mut ends, mut report) = match noop {
            true => (now, Report::Succeeded(None)),
            false => (now + rng.up_to(LONGEST), fixtures.report(faults, rng)),
        };
        if !noop && faults && rng.percent(2) {
            ends = Time::NEVER;
        }
        let (limit, error) = match assignment.time_limit {
            None => (Time::NEVER, &fixtures.timed_out),
            Some(TimeLimit::Timeout(timeout)) => (now + timeout, &fixtures.timed_out),
            Some(TimeLimit::Deadline(at)) => (at.max(now), &fixtures.overdue),
        };
        if limit < ends {
            (ends, report) = (limit, Report::TimedOut(error.clone()));
        }
        self.running.push(Job {
            assignment,
            began: now,
            ends,
            report,
            asked_to_stop: false,
        });
    }

    /// An assignment has got its body.
    pub(crate) fn awaited(&mut self, assignment: &Assignment) {
        self.awaiting
            .retain(|other| (other.handle, other.first) != (assignment.handle, assignment.first));
    }

    /// An assignment will not begin after all.
    pub(crate) fn decline(&mut self, now: Time, assignment: &Assignment) {
        self.awaited(assignment);
        self.end(assignment, Report::NotStarted, now, now);
    }

    /// What would go on for ever ends, but for what callers can cancel: nobody cancels the tasks
    /// that follow a failure.
    pub(crate) fn end_the_endless(&mut self, now: Time, cancelled: &[Handle]) {
        for job in &mut self.running {
            let endless = job.ends == Time::NEVER;
            if endless && !cancelled.contains(&job.assignment.handle) {
                job.ends = now;
            }
        }
    }

    /// Stops an assignment; what came first counts. One that stands in line is given back.
    pub(crate) fn stop(
        &mut self,
        now: Time,
        handle: Handle,
        first: Seq,
        attempt: Attempt,
        rng: &mut Rng,
    ) {
        let is_it = |a: &Assignment| (a.handle, a.first, a.attempt) == (handle, first, attempt);
        let mut lines = self.lines.values_mut();
        if let Some((_, waiting)) = lines.find_map(|line| line.remove(|(_, one)| is_it(one))) {
            return self.end(&waiting, Report::NotStarted, now, now);
        }
        let mut running = self.running.iter_mut();
        let Some(job) = running.find(|job| is_it(&job.assignment)) else {
            return;
        };
        job.asked_to_stop = true;
        if job.ends == Time::NEVER || rng.percent(80) {
            (job.ends, job.report) = (now, Report::Stopped);
        }
    }

    /// What runs, or is about to, and was not asked to stop.
    pub(crate) fn unstopped(&self) -> Vec<(Handle, Seq, Work)> {
        let running = self.running.iter().filter(|job| !job.asked_to_stop);
        let running = running.map(|job| &job.assignment);
        let running = running.chain(&self.awaiting).chain(self.in_line());
        let with_session = running.filter(|one| one.spec.work.has_session());
        with_session
            .map(|one| (one.handle, one.first, one.spec.work.clone()))
            .collect()
    }

    /// Their completion is durable.
    pub(crate) fn acknowledged(&mut self, over: &[(Handle, Seq, Attempt)]) {
        self.unacknowledged
            .retain(|c| !over.contains(&(c.handle, c.first, c.attempt)));
    }

    fn all(&self) -> impl Iterator<Item = &Assignment> {
        self.running
            .iter()
            .map(|job| &job.assignment)
            .chain(&self.awaiting)
            .chain(self.in_line())
    }

    /// Attempts that run or are still to be reported: scheduler and first task.
    pub(crate) fn occupied(&self) -> Vec<(Handle, i64)> {
        let run = self.all().map(|a| (a.handle, a.first.0));
        let ended = self.outbox.iter().chain(&self.silent);
        run.chain(ended.map(|c| (c.handle, c.first.0))).collect()
    }

    /// The next end of a job.
    pub(crate) fn next_end(&self) -> Time {
        self.running
            .iter()
            .map(|job| job.ends)
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// Takes in what has ended by now.
    pub(crate) fn finish(&mut self, now: Time) {
        while let Some(at) = self.running.iter().position(|job| job.ends <= now) {
            let Job {
                assignment,
                began,
                ends,
                report,
                ..
            } = self.running.remove(at);
            self.end(&assignment, report, began, ends);
        }
    }

    fn end(&mut self, assignment: &Assignment, report: Report, began: Time, ended: Time) {
        let completion = completion(assignment, report, began, ended);
        let to = match self.is_unreported((completion.handle, completion.first)) {
            true => &mut self.silent,
            false => &mut self.outbox,
        };
        to.push(completion);
    }

    pub(crate) fn has_reports(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Some of the reports that wait, in any order, and perhaps an old one again.
    pub(crate) fn reports(&mut self, faults: bool, rng: &mut Rng) -> Vec<Completion> {
        let mut reports = Vec::new();
        for _ in 0..=rng.below(3).min(self.outbox.len() as u64) {
            if !self.outbox.is_empty() {
                let at = rng.place(self.outbox.len());
                reports.push(self.outbox.swap_remove(at));
            }
        }
        self.unacknowledged.extend(
            reports
                .iter()
                .filter(|completion| !completion.is_sessionless())
                .cloned(),
        );
        if faults && !self.old.is_empty() && rng.percent(10) {
            reports.push(rng.one_of(&self.old).clone());
        }
        // An attempt that never began may be handed out again under its number: the real executor
        // tells of it once.
        for completion in reports
            .iter()
            .filter(|completion| completion.report != Report::NotStarted)
        {
            if self.old.len() < OLD {
                self.old.push(completion.clone());
            } else {
                let at = rng.place(OLD);
                self.old[at] = completion.clone();
            }
        }
        reports
    }

    /// Attempts that run and are not reported to the owner yet.
    pub(crate) fn unreported(&self) -> Vec<(Handle, Seq)> {
        let all = self.unreported.iter();
        all.map(|one| (one.handle, one.first)).collect()
    }

    /// Tasks of a scheduler that run now, whoever has handed them out.
    pub(crate) fn tasks_of(&self, handle: Handle) -> i64 {
        self.all()
            .filter(|assignment| assignment.handle == handle)
            .map(|assignment| i64::from(assignment.count))
            .sum()
    }

    /// Tasks of a kind that were handed out and go on, besides those that were `unreported`.
    pub(crate) fn open(
        &self,
        work: &Work,
        unreported: &[(Handle, Seq)],
    ) -> impl Iterator<Item = &Assignment> {
        let all = self.all().filter(move |one| one.spec.work == *work);
        all.filter(move |one| !unreported.contains(&(one.handle, one.first)))
    }

    /// Whether one of these tasks runs now.
    pub(crate) fn runs(&self, handle: Handle, first: Seq, count: u32) -> bool {
        self.all().any(|a| {
            a.handle == handle && a.first < first.plus(count) && first < a.first.plus(a.count)
        })
    }
}

fn completion(assignment: &Assignment, report: Report, started: Time, ended: Time) -> Completion {
    let Assignment {
        handle,
        first,
        attempt,
        ..
    } = *assignment;
    let slot = slot_of(&assignment.spec.work);
    Completion {
        handle,
        first,
        attempt,
        report,
        started,
        ended,
        slot,
        backend_pid: 1,
        diagnostics: Default::default(),
    }
}

/// The slot that a kind of work takes, told by its target; 0: none.
pub(crate) fn slot_of(work: &Work) -> u32 {
    match work {
        Work::Noop => 0,
        Work::Sql { target } if **target == *"app" => 1,
        Work::Sql { .. } => 2,
    }
}
