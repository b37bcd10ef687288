//! Jobs: each due time has one fate once it has passed, and at most one run; nothing runs against
//! the rules of its job or while the agent is stopped; and what a run does to schedulers is what
//! callers would have to ask for.

mod calendar;
mod claims;
mod effects;
mod followers;
mod following;
mod overlaps;
mod room;

use super::{Oracle, rows::Rows};
use calendar::{after, after_change, closes, first_day, has_windows, have_same_periods};
use rallypoint::core::{
    Backfill, Handle, JobImage, JobNo, JobRecords, JobState, Overlap, RunCause, RunClaim, RunImage,
    RunKey, RunReason, RunState, RunToken, Time,
    schedule::{RuleText, ScheduleText},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const SECOND: i64 = 1_000_000;
/// Due times of runs that are asked for at one moment are no further apart.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What the journal holds of jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: BTreeMap<JobNo, JobImage>,
    states: BTreeMap<JobNo, JobState>,
    /// The first due time of each job that has no fate.
    next: BTreeMap<JobNo, Time>,
    /// The last due time of each job that has had its fate.
    last: BTreeMap<JobNo, Time>,
    /// The first day of the last period of each job that has had its due time, by the windows that
    /// it has had since it had a rule of another kind.
    had: BTreeMap<JobNo, i64>,
    /// Since when each job has had a rule of this kind, if that is not as old as the job.
    same_since: BTreeMap<JobNo, Time>,
    runs: BTreeMap<RunKey, RunImage>,
    claims: BTreeMap<(RunKey, RunToken), RunClaim>,
    /// Runs that were asked for before their job changed, perhaps, though they are due behind that.
    asked_before: BTreeSet<RunKey>,
    /// Schedulers of runs, and of what follows failures.
    opened: BTreeSet<Handle>,
    /// Since when there is room for the run of a job that waits for it.
    room_since: BTreeMap<JobNo, Time>,
    /// Until when tasks that have passed the submit rate use it up.
    passed_until: Time,
    is_stopped: bool,
}

impl Jobs {
    /// A batch is written. Returns the attempts that it begins, with the job by which they run.
    fn durable(&mut self, records: &JobRecords) -> Vec<(RunImage, JobImage)> {
        let was_stopped = self.is_stopped;
        if let Some(agent) = &records.agent {
            self.is_stopped = agent.is_stopped;
        }
        let changes = records.agent.is_some();
        self.followers_fire(records);
        self.due_times_meet(records);
        let mut begun = Vec::new();
        let unclear = self.unclear(records);
        for (key, run) in &records.runs {
            let is_due = run.cause == RunCause::Scheduled && !self.runs.contains_key(key);
            if let Some(job) = records.jobs.get(&key.job).filter(|_| is_due) {
                self.follow(job, key.due, unclear.contains(&key.job));
            }
            if is_due && !unclear.contains(&key.job) {
                self.has_its_period(*key, run);
            }
            self.judge(*key, run);
            self.keeps_its_window(run, records);
            let starts = run.handle.filter(|handle| self.opened.insert(*handle));
            if starts.is_some() {
                // It is opened when every command of the batch is decided.
                let job = records.jobs.get(&key.job);
                let job = job.or_else(|| self.jobs.get(&key.job));
                let job = job.expect("it is defined").clone();
                // What asks a target about a claim goes on.
                let fires = !job.settings.claimed;
                let stopped = was_stopped && self.is_stopped && !changes;
                assert!(
                    !(stopped && fires),
                    "{key:?} starts while the agent is stopped"
                );
                begun.push((run.clone(), job));
            }
            self.runs.insert(*key, run.clone());
        }
        self.claims_durable(records);
        for job in records.jobs.values() {
            self.asked_before(job);
            self.define(job);
        }
        for (no, state) in &records.states {
            self.states.insert(*no, state.clone());
            if unclear.contains(no) {
                self.next.insert(*no, state.next_due.unwrap_or(Time::NEVER));
                self.same_since.remove(no);
                let since = state.periods_since;
                self.same_since.extend(since.map(|since| (*no, since)));
            }
            let next = Some(self.next[no]).filter(|next| *next != Time::NEVER);
            assert_eq!(state.next_due, next, "job {}: its next due time", no.0);
            let last = self.last.get(no).copied();
            assert_eq!(state.last_due, last, "job {}: its last due time", no.0);
        }
        self.had.retain(|no, _| !unclear.contains(no));
        self.one_at_a_time(records);
        begun
    }

    /// A job changes. Each run that is asked for has a due time of its own: one behind the other at
    /// one moment.
    fn asked_before(&mut self, job: &JobImage) {
        let soon = job.changed_at..job.changed_at + AT_ONCE;
        let runs = self.runs.values().filter(|run| run.key.job == job.no);
        let asked =
            runs.filter(|run| run.cause != RunCause::Scheduled && soon.contains(&run.key.due));
        self.asked_before.extend(asked.map(|run| run.key));
    }

    /// Whether a run follows the present definition of its job.
    fn follows_present(&self, run: &RunImage) -> bool {
        run.key.due > self.jobs[&run.key.job].changed_at && !self.asked_before.contains(&run.key)
    }

    /// From now on a job is due by this definition, unless it was before.
    fn define(&mut self, job: &JobImage) {
        let known = self.jobs.insert(job.no, job.clone());
        // By the jitter the start of a due time may be still to come, which a change leaves as it
        // is unless the job is due at other times.
        let same = |known: &JobImage| {
            let jitter = job.settings.schedule.jitter;
            let known = &known.settings.schedule;
            ScheduleText {
                jitter,
                ..known.clone()
            } == job.settings.schedule
        };
        let next = match known {
            Some(known) if known.version == job.version || same(&known) => return,
            Some(known) => {
                if !have_same_periods(&known, job) {
                    self.had.remove(&job.no);
                    self.same_since.insert(job.no, job.changed_at);
                }
                let last = self.last.get(&job.no).copied();
                let since = self.same_since.get(&job.no);
                let since = since.copied().unwrap_or(job.created_at);
                after_change(&known, job, since, (last, self.next[&job.no]))
            }
            None => after(job, job.changed_at),
        };
        self.next.insert(job.no, next);
    }

    /// Jobs with windows that have changed more than once with a batch: whether a period has had
    /// its due time, definitions may say of which there are no rows.
    fn unclear(&self, records: &JobRecords) -> BTreeSet<JobNo> {
        let is_one = |job: &&JobImage| {
            let known = self.jobs.get(&job.no).map_or(0, |known| known.version);
            has_windows(job) && known + 1 < job.version
        };
        let all = records.jobs.values().filter(is_one);
        all.map(|job| job.no).collect()
    }

    /// A batch defines a job, and has a due time of it: by this definition, or by one before.
    fn follow(&mut self, job: &JobImage, due: Time, is_unclear: bool) {
        let known = self.jobs.get(&job.no).map_or(0, |known| known.version);
        let is_past = due <= job.changed_at;
        if is_unclear || is_past && known + 1 < job.version {
            // A definition between them, of which there is no row.
            self.jobs.entry(job.no).or_insert_with(|| job.clone());
            self.next.insert(job.no, due);
        } else if !is_past || self.next.get(&job.no) != Some(&due) {
            self.define(job);
        }
    }

    /// A period has one due time at most, whatever windows it was given meanwhile.
    fn has_its_period(&mut self, key: RunKey, run: &RunImage) {
        let job = &self.jobs[&key.job];
        let Some(period) = first_day(job, key.due) else {
            return;
        };
        let last = first_day(job, run.last.unwrap_or(key.due)).unwrap_or(period);
        let had = self.had.insert(key.job, last);
        assert!(Some(period) > had, "{key:?} is the second of its period");
    }

    /// A due time has one fate, which is final once it is one; and none is left out.
    fn judge(&mut self, key: RunKey, run: &RunImage) {
        if let Some(before) = self.runs.get(&key) {
            let had_none = matches!(before.state, RunState::Skipped | RunState::Missed);
            let is_made_up = had_none && before.attempt == 0 && run.cause == RunCause::Backfilled;
            assert!(
                is_made_up || !before.state.is_over(),
                "{key:?} ends twice: {before:?}, {run:?}"
            );
            let (from, to) = (before.attempt, run.attempt);
            assert!((from..=from + 1).contains(&to), "{key:?}: attempt {to}");
            return;
        }
        if run.cause != RunCause::Scheduled {
            assert!(
                key.due.0 % SECOND != 0,
                "{key:?} takes the due time of a schedule"
            );
            return;
        }
        let job = &self.jobs[&key.job];
        let is_early = run.started_at.is_some_and(|at| at < key.due);
        assert!(!is_early, "{key:?} starts before it is due");
        let next = self.next.get_mut(&key.job).expect("it is defined");
        assert_eq!(key.due, *next, "job {}: a due time is left out", key.job.0);
        let last = run.last.unwrap_or(key.due);
        *next = after(job, last);
        self.last.insert(key.job, last);
    }

    /// No attempt of a due time that has a window begins when that has closed.
    fn keeps_its_window(&self, run: &RunImage, records: &JobRecords) {
        let key = run.key;
        let known = self.jobs.get(&key.job);
        let is_whole = run.last.is_none() && !records.jobs.contains_key(&key.job);
        let Some(job) = known.filter(|job| is_whole && key.due > job.changed_at) else {
            return;
        };
        if run.cause != RunCause::Scheduled {
            return;
        }
        let window = closes(job, key.due);
        if window.is_some() || !job.settings.claimed {
            assert_eq!(run.closes, window, "{key:?}: its window");
        }
        let rerun = job.settings.rerun;
        let may_be_late = run.attempt > 1 && rerun.is_some_and(|rerun| !rerun.within_window);
        let is_late = run
            .started_at
            .zip(window)
            .is_some_and(|(at, end)| at >= end);
        assert!(
            may_be_late || !is_late,
            "{key:?} begins behind its window: {run:?}"
        );
    }

    /// Unless the job allows it, one run goes on at a time.
    fn one_at_a_time(&self, records: &JobRecords) {
        let touched: BTreeSet<JobNo> = records.runs.keys().map(|key| key.job).collect();
        for no in touched {
            self.one_waits_at_most(no);
            let overlap = self.jobs[&no].settings.overlap;
            let begun: Vec<&RunImage> = self.open(no).filter(|run| goes_on(run)).collect();
            // Those of an earlier definition may have run side by side.
            let changed_at = self.jobs[&no].changed_at;
            let is_fresh = |run: &&&RunImage| self.follows_present(run) && !is_made_up(run);
            let fresh = begun.iter().filter(is_fresh).count();
            assert!(
                overlap == Overlap::Allow || fresh <= 1,
                "job {}: runs go on side by side",
                no.0
            );
            let made_up = begun.iter().filter(|run| is_made_up(run));
            assert!(made_up.count() <= 1, "job {}: two of a backfill", no.0);
            let beside = |run: &&&RunImage| {
                let since = run.started_at.is_some_and(|at| at > changed_at);
                run.state == RunState::Running && since
            };
            let made_up = begun.iter().filter(beside).any(|run| is_made_up(run));
            let other = begun.iter().filter(beside).any(|run| !is_made_up(run));
            assert!(
                overlap == Overlap::Allow || !(made_up && other),
                "job {}: a backfill beside another run",
                no.0
            );
        }
    }

    fn open(&self, no: JobNo) -> impl Iterator<Item = &RunImage> {
        let runs = self.runs.values().filter(move |run| run.key.job == no);
        runs.filter(|run| !run.state.is_over())
    }

    /// Everything due has happened.
    pub(crate) fn settled(&self, now: Time) {
        for (no, next) in &self.next {
            let is_paused = self.states[no].paused.is_some();
            if self.is_stopped || is_paused || self.jobs[no].deleted {
                continue;
            }
            let jitter = self.jobs[no].settings.schedule.jitter;
            assert!(
                *next > now - jitter,
                "job {}: {next:?} has passed, and nothing became of it",
                no.0
            );
            if self.jobs[no].settings.claimed {
                self.offers_end(*no, now);
                continue;
            }
            let waits = self.open(*no).any(|run| run.state == RunState::Waiting);
            // For room among the tasks of its namespace: those behind it wait, too.
            let mut open = self.open(*no);
            let is_put_off = open.any(|run| run.detail.starts_with("the limit"));
            let goes_on = self.open(*no).any(goes_on);
            assert!(
                goes_on || is_put_off || !waits,
                "job {}: a run waits for nobody",
                no.0
            );
        }
    }

    /// The agent is stopped, and every scheduler has ended.
    pub(crate) fn nothing_runs(&self) {
        let mut runs = self.runs.values();
        let left = runs.find(|run| run.state == RunState::Running && !self.asks_target(run));
        assert_eq!(left, None, "a run has no end");
    }

    /// The agent is stopped, and no run goes on.
    pub(crate) fn is_over(&self) -> bool {
        let mut runs = self.runs.values();
        let goes_on = |run: &RunImage| run.state == RunState::Running && !self.asks_target(run);
        self.is_stopped && !runs.any(goes_on)
    }

    /// Its target is asked what became of a claim: as long as it takes, whoever cancels the run.
    fn asks_target(&self, run: &RunImage) -> bool {
        self.jobs[&run.key.job].settings.claimed && run.handle.is_some()
    }
}

/// It is of a backfill.
fn is_made_up(run: &RunImage) -> bool {
    run.cause == RunCause::Backfilled
}

fn goes_on(run: &RunImage) -> bool {
    matches!(run.state, RunState::Running | RunState::Retrying)
}
