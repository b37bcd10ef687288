//! A due time meets earlier runs of its job: what becomes of it, and of them, is what the rule of
//! the job says. Runs of backfills meet nobody, and those that catch up wait whatever the rule is.

use super::*;

impl Jobs {
    /// Before the batch is taken in. Where a job changes with it, it is not known which definition
    /// counts.
    pub(super) fn due_times_meet(&self, records: &JobRecords) {
        for (key, run) in &records.runs {
            let is_of_schedule = matches!(run.cause, RunCause::Scheduled | RunCause::Followed);
            let job = self.jobs.get(&key.job).filter(|job| !job.deleted);
            let Some(job) = job.filter(|job| !records.jobs.contains_key(&job.no)) else {
                continue;
            };
            if is_of_schedule && run.state == RunState::Skipped {
                self.is_skipped_by_its_rule(job, run, records);
            } else if is_of_schedule
                && !self.runs.contains_key(key)
                && run.state != RunState::Missed
                && !run.catches_up
                && !job.settings.claimed
            {
                self.begins_by_its_rule(job, run, records);
            }
        }
    }

    /// A reason of a rule is given by jobs of that rule, and where there is another run.
    fn is_skipped_by_its_rule(&self, job: &JobImage, run: &RunImage, records: &JobRecords) {
        use Overlap::{CancelRunning, KeepNewest, QueueAll, QueueOne, Skip};
        let overlap = job.settings.overlap;
        let is_rule = match run.reason {
            Some(RunReason::StillRunning) => overlap == Skip,
            Some(RunReason::QueueFull) => matches!(overlap, QueueOne | QueueAll),
            Some(RunReason::Replaced) => matches!(overlap, KeepNewest | CancelRunning),
            _ => return,
        };
        assert!(
            is_rule,
            "{:?}: {overlap:?} does not say so: {run:?}",
            run.key
        );
        let is_other = |other: &&RunImage| {
            other.key.job == job.no && other.key != run.key && !is_made_up(other)
        };
        let is_replaced = run.reason == Some(RunReason::Replaced);
        // It was offered when it took the place of this one, until that was over within the batch.
        let was_offered = |other: &RunImage| {
            let then = run.ended_at.filter(|_| is_replaced && job.settings.claimed);
            let open = other.closes.map(|closes| other.key.due..closes);
            let was_open = then
                .zip(open)
                .is_some_and(|(then, open)| open.contains(&then));
            was_open && other.reason != Some(RunReason::WindowClosed) && other.ended_at > then
        };
        let had_run = |other: &&RunImage| {
            !matches!(other.state, RunState::Skipped | RunState::Missed)
                || other.reason == Some(RunReason::Replaced)
                || was_offered(other)
        };
        let mut written = records.runs.values().filter(is_other).filter(had_run);
        assert!(
            !(is_replaced && is_caught_up(run)),
            "{:?} is caught up, and gives way to a later due time",
            run.key
        );
        let has_other = match is_replaced {
            // By one that is written with it, and is newer.
            true => written.any(|other| other.key.due > run.key.due),
            false => self.open(job.no).any(|other| is_other(&other)) || written.next().is_some(),
        };
        assert!(
            has_other,
            "{:?} gives way to no other run: {run:?}",
            run.key
        );
    }

    /// A due time has a run, now or later: what went on before and goes on behind it may.
    fn begins_by_its_rule(&self, job: &JobImage, run: &RunImage, records: &JobRecords) {
        let goes_on = |before: &&RunImage| {
            let after = records.runs.get(&before.key).unwrap_or(before);
            !is_made_up(before) && !is_caught_up(before) && !after.state.is_over()
        };
        for before in self.open(job.no).filter(goes_on) {
            let after = records.runs.get(&before.key).unwrap_or(before);
            let may = match job.settings.overlap {
                Overlap::Skip => false,
                Overlap::CancelRunning => {
                    after.reason.is_some() && after.state == RunState::Running
                }
                Overlap::KeepNewest => {
                    after.state != RunState::Waiting || after.cause == RunCause::Asked
                }
                Overlap::QueueOne | Overlap::QueueAll | Overlap::Allow => true,
            };
            let overlap = job.settings.overlap;
            assert!(
                may,
                "{:?} has a run beside {after:?}, by {overlap:?}",
                run.key
            );
        }
    }

    /// After the batch: where one may wait at most, no other one of the schedule does.
    pub(super) fn one_waits_at_most(&self, no: JobNo) {
        let job = &self.jobs[&no];
        let waits = |run: &&RunImage| {
            let is_of_rule = !run.catches_up && !is_made_up(run) && self.follows_present(run);
            run.state == RunState::Waiting && is_of_rule
        };
        let may_many = matches!(job.settings.overlap, Overlap::QueueAll | Overlap::Allow);
        let count = self.open(no).filter(waits).count();
        assert!(
            may_many || job.settings.claimed || count <= 1,
            "job {}: {count} runs wait, by {:?}",
            no.0,
            job.settings.overlap
        );
    }
}

/// Its due time had passed before it was served: it has its turn, whatever comes later.
fn is_caught_up(run: &RunImage) -> bool {
    run.catches_up && matches!(run.cause, RunCause::Scheduled | RunCause::Followed)
}
