//! What follows failures: one scheduler for each run that came to nothing, one for all due times of
//! a job that are missed together, one for a claim that is completed late; and no other.

use super::{effects::knowing, *};
use rallypoint::core::{Open, ReleaseMode, Settings, Submit, Verb};
use std::time::Duration;

const LABEL: &str = "on_failure";

/// Due times of a job that are missed together are one failure: at the same moment, by its
/// schedule.
/// Each of what it was to run after another job, or could have been claimed before it was missed,
/// is one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    Alone(RunKey),
    Together(JobNo, Option<Time>),
}

/// Only what was offered has a time at which it closes that is not the end of its window.
fn miss(run: &RunImage, job: Option<&JobImage>) -> Miss {
    let is_offered =
        run.closes.is_some() && run.closes != job.and_then(|job| closes(job, run.key.due));
    let is_alone = is_offered || run.reason == Some(RunReason::NotClaimed);
    match is_alone || run.cause != RunCause::Scheduled {
        true => Miss::Alone(run.key),
        false => Miss::Together(run.key.job, run.ended_at),
    }
}

/// What became of runs with a batch for which tasks follow, if their job has any.
#[derive(Default)]
pub(super) struct Failures {
    /// With what the label says, and the claim of those who report late: several may at once.
    ended: BTreeSet<(RunKey, &'static str, Option<RunToken>)>,
    /// Due times that are missed, with the failure that each is part of.
    missed: BTreeMap<RunKey, Miss>,
    /// Definitions of before.
    jobs: BTreeMap<JobNo, JobImage>,
}

impl Jobs {
    /// Before the batch is taken in.
    pub(super) fn failures(&self, records: &JobRecords) -> Failures {
        let mut failures = Failures {
            jobs: self.jobs.clone(),
            ..Failures::default()
        };
        for (key, run) in &records.runs {
            let before = self.runs.get(key).map(|before| before.state);
            if before == Some(run.state) {
                continue;
            }
            let text = match run.state {
                RunState::Failed => "FAILED",
                RunState::TimedOut => "TIMED_OUT",
                RunState::Lost => "LOST",
                RunState::Missed if before.is_none() => {
                    let job = self
                        .jobs
                        .get(&key.job)
                        .or_else(|| records.jobs.get(&key.job));
                    failures.missed.insert(*key, miss(run, job));
                    continue;
                }
                RunState::Missed => "MISSED",
                _ => continue,
            };
            failures.ended.insert((*key, text, None));
        }
        for ((key, token), claim) in &records.claims {
            let before = self.claims.get(&(*key, *token));
            let was_late = before.is_some_and(|before| before.late == claim.late);
            if claim.late.is_some() && !was_late {
                failures.ended.insert((*key, "LATE", Some(*token)));
            }
        }
        failures
    }

    /// The job of this name of which something has happened at this due time: several may have
    /// had the name.
    fn failed(&self, name: &str, due: Time, failures: &Failures) -> JobNo {
        let named = |job: &&JobImage| &*job.key.name == name;
        let mut all = self.jobs.values().filter(named).map(|job| job.no);
        let is_it = |no: &JobNo| {
            let key = RunKey { job: *no, due };
            failures.missed.contains_key(&key) || failures.ended.iter().any(|(of, ..)| *of == key)
        };
        let found = all.clone().find(is_it);
        found.or_else(|| all.next_back()).expect("a job")
    }
}

impl Oracle {
    /// The schedulers that follow the failures of a batch are there, and no others.
    pub(super) fn follow(
        &mut self,
        at: Time,
        records: &JobRecords,
        mut failures: Failures,
        rows: &mut Rows<'_>,
    ) {
        let mut missed = BTreeSet::new();
        for (handle, settings) in rows.labelled(LABEL) {
            if !self.jobs.opened.insert(handle) {
                continue;
            }
            let label = |name: &str| settings.labels[name].clone();
            let due: jiff::Timestamp = label("due").parse().expect("a due time");
            let due = Time(due.as_microsecond());
            let no = self.jobs.failed(&label("job"), due, &failures);
            let key = RunKey { job: no, due };
            let said = label(LABEL);
            let expected = failures
                .ended
                .iter()
                .find(|(of, text, _)| *of == key && *text == said);
            match expected.copied() {
                Some(failure) => _ = failures.ended.remove(&failure),
                None => {
                    let miss = failures.missed.get(&key).filter(|_| said == "MISSED");
                    let miss = miss.unwrap_or_else(|| panic!("{key:?}: {said} did not happen"));
                    assert!(missed.insert(*miss), "{key:?}: MISSED is followed twice");
                }
            }
            let jobs = [failures.jobs.get(&no), self.jobs.jobs.get(&no)];
            let tasks: Vec<Arc<Submit>> = jobs
                .into_iter()
                .flatten()
                .map(|job| knowing(&job.on_failure, due))
                .collect();
            self.follows(at, handle, &settings, &tasks, rows);
        }
        self.all_followed(records, &failures, &missed);
    }

    /// A scheduler with these tasks is opened, by a definition of before or by the present one.
    fn follows(
        &mut self,
        at: Time,
        handle: Handle,
        settings: &Arc<Settings>,
        tasks: &[Arc<Submit>],
        rows: &mut Rows<'_>,
    ) {
        let open = Open {
            settings: settings.clone(),
            ..Open::default()
        };
        // No limit but that of the bytes in memory holds back word of a failure.
        let limits = self.limits;
        (self.limits.open_schedulers, self.limits.queued_tasks) = (usize::MAX, i64::MAX);
        self.limits.submit_rate = None;
        // What has ended in the same batch may have made room; no task here has more bytes.
        let room = rows.all_left() << 10;
        self.limits.queued_bytes = self.limits.queued_bytes.saturating_add(room);
        self.asks(at, handle, &Verb::Open(open), rows);
        let accepted = tasks.iter().find(|tasks| rows.accepts(handle, tasks));
        let mode = match accepted {
            Some(tasks) => {
                let tasks = tasks.clone();
                let rate = limits.submit_rate.map_or(u64::MAX, u64::from);
                let share = Duration::from_micros(tasks.bodies.len() as u64 * 1_000_000 / rate);
                self.jobs.passed_until = self.jobs.passed_until.max(at) + share;
                self.asks(at, handle, &Verb::Submit(tasks), rows);
                ReleaseMode::Finish
            }
            None => ReleaseMode::Cancel,
        };
        self.limits = limits;
        self.asks(at, handle, &Verb::Release(mode), rows);
    }

    /// Nothing that is to be followed is left.
    fn all_followed(&self, records: &JobRecords, failures: &Failures, followed: &BTreeSet<Miss>) {
        // Whether the definition of before or the present one counts is not known here.
        let has_tasks = |no: &JobNo| {
            let all = [failures.jobs.get(no), self.jobs.jobs.get(no)];
            let mut known = all.into_iter().flatten();
            known.all(|job| !job.on_failure.runs.is_empty() && !job.deleted)
        };
        let says_so = |detail: &str| detail.contains("on_failure was refused");
        let is_refused = |key: &RunKey| {
            let run = records.runs.get(key);
            let of_run = |((run, _), _): &(&(RunKey, RunToken), &RunClaim)| run == key;
            let mut late = records.claims.iter().filter(of_run);
            run.is_some_and(|run| says_so(&run.detail))
                || late.any(|(_, claim)| claim.late.as_ref().is_some_and(|l| says_so(&l.detail)))
        };
        for (key, text, _) in &failures.ended {
            let is_none = !has_tasks(&key.job) || is_refused(key);
            assert!(is_none, "{key:?}: {text} is not followed");
        }
        for (key, miss) in &failures.missed {
            let is_none = !has_tasks(&key.job) || followed.contains(miss);
            let mut all = failures.missed.iter().filter(|(_, other)| *other == miss);
            assert!(
                is_none || all.any(|(key, _)| is_refused(key)),
                "{key:?}: MISSED is not followed"
            );
        }
    }
}
