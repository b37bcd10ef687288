//! What becomes of due times that meet earlier runs of their job, by its rule of overlap.
//!
//! Rows do not say when a due time had its fate. But due times have it in turn: when a later one is
//! known to have had it, this one had, too. A run that began after that has waited.

use super::{Jobs, time_goes_on};
use crate::{
    check::{Facts, Verdict},
    jobs::JobRun,
};
use rallypoint_client::api::Overlap;

const PROMISE: &str = "due times meet runs by their rule";

/// The runs of one job, by due time.
struct Line<'a> {
    job: &'a str,
    overlap: Overlap,
    all: Vec<&'a JobRun>,
    /// Those of before a clock may have gone back, with the time by which each surely had its fate,
    /// by the rows behind it.
    runs: Vec<(&'a JobRun, i64)>,
}

pub(in crate::check) fn due_times_meet_runs_by_their_rule(facts: &Facts, verdict: &mut Verdict) {
    let until = time_goes_on(facts);
    for (job, defined) in &facts.jobs.defined {
        let overlap = defined.overlap.and_then(|one| Overlap::try_from(one).ok());
        let Some(overlap) = overlap.filter(|_| !defined.claimed) else {
            continue;
        };
        let line = Line::of(&facts.jobs, job, overlap, until);
        line.reasons_are_those_of_the_rule(verdict);
        line.whoever_is_skipped_met_another_one(verdict);
        line.whoever_waits_may(verdict);
        line.runs_begin_in_turn(verdict);
        line.what_is_replaced_is_older(verdict);
        line.what_ran_is_cancelled(verdict);
    }
}

impl<'a> Line<'a> {
    fn of(jobs: &'a Jobs, job: &'a str, overlap: Overlap, until: i64) -> Self {
        let all: Vec<&JobRun> = jobs.runs_of(job).collect();
        let in_time = |run: &&&JobRun| run.ended.is_some_and(|ended| ended < until);
        let runs = all.iter().filter(in_time);
        let mut runs: Vec<_> = runs.map(|run| (*run, i64::MAX)).collect();
        let mut decided = i64::MAX;
        for (run, by) in runs.iter_mut().rev() {
            *by = decided;
            // What has begun or ended has had its fate.
            decided = decided.min(first_start(run).or(run.ended).unwrap_or(i64::MAX));
        }
        Line {
            job,
            overlap,
            all,
            runs,
        }
    }

    fn expect(&self, verdict: &mut Verdict, holds: bool, run: &JobRun, what: &str) {
        verdict.expect(PROMISE, holds, || {
            let (job, overlap) = (self.job, self.overlap.as_str_name());
            format!("{job}, {overlap}: {what}: {run:?}")
        });
    }

    /// Those of due times before this one that had a run.
    fn before(&self, run: &JobRun) -> impl Iterator<Item = &JobRun> {
        let due = run.due;
        let all = self.all.iter().copied();
        all.filter(move |one| one.due < due && one.has_run())
    }

    fn reasons_are_those_of_the_rule(&self, verdict: &mut Verdict) {
        for (run, _) in &self.runs {
            let is_one = match run.reason {
                Some(JobRun::STILL_RUNNING) => self.overlap == Overlap::Skip,
                Some(JobRun::QUEUE_FULL) => self.overlap == Overlap::QueueOne,
                Some(JobRun::REPLACED) => self.replaces(),
                _ => true,
            };
            self.expect(verdict, is_one, run, "the rule gives no such reason");
        }
    }

    fn replaces(&self) -> bool {
        matches!(self.overlap, Overlap::KeepNewest | Overlap::CancelRunning)
    }

    /// Another one went on, or waited, as this one was skipped.
    fn whoever_is_skipped_met_another_one(&self, verdict: &mut Verdict) {
        for (run, _) in &self.runs {
            let at = run.ended.unwrap_or(0);
            let is_open = |one: &JobRun| one.ended.is_none_or(|ended| ended >= at);
            let waits = |one: &JobRun| is_open(one) && one.started.is_none_or(|then| then >= at);
            let (met, what) = match run.reason {
                Some(JobRun::STILL_RUNNING) => (
                    self.before(run).any(is_open),
                    "it is skipped, and none went on",
                ),
                Some(JobRun::QUEUE_FULL) => (
                    self.before(run).any(waits),
                    "it is skipped, and none waited",
                ),
                _ => continue,
            };
            self.expect(verdict, met, run, what);
        }
    }

    /// Nobody waits where due times are skipped, and one at most where one may: but for those that
    /// catch up.
    fn whoever_waits_may(&self, verdict: &mut Verdict) {
        if matches!(self.overlap, Overlap::QueueAll | Overlap::Allow) {
            return;
        }
        let waited = |(run, decided): &(&'a JobRun, i64)| {
            let until = match run.attempt {
                0 => run.ended?,
                _ => first_start(run)?,
            };
            let may = run.catches_up || !run.has_run() && run.reason != Some(JobRun::REPLACED);
            (*decided < until && !may).then_some((*run, *decided, until))
        };
        let mut last: Option<i64> = None;
        for (run, from, until) in self.runs.iter().filter_map(waited) {
            let may = match self.overlap {
                Overlap::Skip => false,
                _ => last.is_none_or(|last| last <= from),
            };
            self.expect(verdict, may, run, "it waits, and may not");
            last = last.max(Some(until));
        }
    }

    fn runs_begin_in_turn(&self, verdict: &mut Verdict) {
        if self.overlap == Overlap::Allow {
            return;
        }
        let begun = self
            .runs
            .iter()
            .filter_map(|(run, _)| Some((*run, first_start(run)?)));
        let begun: Vec<_> = begun.collect();
        for pair in begun.windows(2) {
            let [(_, before), (run, at)] = [pair[0], pair[1]];
            self.expect(verdict, before <= at, run, "an earlier one begins after it");
        }
    }

    /// By one that is newer, and no older one stays: but for those that catch up.
    fn what_is_replaced_is_older(&self, verdict: &mut Verdict) {
        let is_replaced = |run: &JobRun| run.reason == Some(JobRun::REPLACED);
        for (run, _) in self.runs.iter().filter(|(run, _)| is_replaced(run)) {
            let is_newer = |one: &&JobRun| one.due > run.due && (one.has_run() || is_replaced(one));
            let by_newer = self.all.iter().any(is_newer);
            self.expect(
                verdict,
                by_newer,
                run,
                "it is replaced by none that is newer",
            );
            let at = run.ended.unwrap_or(0);
            let is_left = |(one, _): &(&JobRun, i64)| {
                let began_later = first_start(one).is_some_and(|then| then > at);
                one.due < run.due && !one.catches_up && began_later
            };
            let older = run.attempt == 0 && self.runs.iter().any(is_left);
            self.expect(
                verdict,
                !older,
                run,
                "it is replaced, and an older one is kept",
            );
        }
    }

    /// Whoever ran when a later due time had its fate was cancelled, or ended otherwise: but for
    /// those that catch up.
    fn what_ran_is_cancelled(&self, verdict: &mut Verdict) {
        if self.overlap != Overlap::CancelRunning {
            return;
        }
        for (run, _) in self.runs.iter().filter(|(run, _)| !run.catches_up) {
            let Some((from, until)) = first_start(run).zip(run.ended) else {
                continue;
            };
            let met = |(later, decided): &(&JobRun, i64)| {
                later.due > from && *decided < until && later.has_run() && !later.catches_up
            };
            let has_met = self.runs.iter().any(met);
            let is_cancelled = run.reason.is_some();
            self.expect(
                verdict,
                !has_met || is_cancelled,
                run,
                "it went on to its end",
            );
        }
    }
}

/// When it began, if that is known: the rows say it of the last attempt.
fn first_start(run: &JobRun) -> Option<i64> {
    run.started.filter(|_| run.attempt == 1)
}
