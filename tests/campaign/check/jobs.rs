//! Promises about recurring jobs and their runs.

mod overlaps;

pub(super) use overlaps::due_times_meet_runs_by_their_rule;

use super::{Facts, Verdict, facts::Fault};
use crate::{
    history::Entry,
    jobs::{JobEntry, JobRun},
};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    defined: BTreeMap<String, Defined>,
    /// By job and due time.
    runs: BTreeMap<(String, i64), JobRun>,
    opened: BTreeMap<(String, i64), BTreeSet<String>>,
    /// Claims that ended by success, by run.
    succeeded: BTreeMap<(String, i64), i64>,
    /// How often the work of a run was done.
    settled: BTreeMap<(String, i64), i64>,
    finished: BTreeSet<(String, i64)>,
    stopped: Vec<(i64, i64)>,
    stopped_for_good: Option<i64>,
    /// What still ran when the agent had been stopped for long enough.
    drained: Vec<i64>,
}

struct Defined {
    every: i64,
    side_by_side: bool,
    claimed: bool,
    repeats: Option<i32>,
    overlap: Option<i32>,
}

/// What is due so shortly before the agent is stopped for good may have no row: the owner may be
/// busy, or the stop be decided before.
const AT_THE_STOP_US: i64 = 5_000_000;

/// How a claim ended that was finished in time, as the journal numbers it.
const CLAIM_SUCCEEDED: i32 = 1;

impl Jobs {
    pub(super) fn take(&mut self, entry: &Entry) {
        let Entry::Job(entry) = entry else {
            return;
        };
        match entry.clone() {
            JobEntry::Defined {
                job,
                every,
                side_by_side,
                claimed,
                repeats,
                overlap,
            } => {
                let defined = Defined {
                    every,
                    side_by_side,
                    claimed,
                    repeats,
                    overlap,
                };
                self.defined.insert(job, defined);
            }
            JobEntry::Run(run) => _ = self.runs.insert((run.job.clone(), run.due), run),
            JobEntry::Opened { job, due, handle } => {
                self.opened.entry((job, due)).or_default().insert(handle);
            }
            JobEntry::Claim {
                job, due, outcome, ..
            } => {
                let succeeded = i64::from(outcome == Some(CLAIM_SUCCEEDED));
                *self.succeeded.entry((job, due)).or_default() += succeeded;
            }
            JobEntry::Settled { job, due, .. } => {
                *self.settled.entry((job, due)).or_default() += 1;
            }
            JobEntry::Finished { job, due, .. } => _ = self.finished.insert((job, due)),
            JobEntry::Stopped { before, after } => self.stopped.push((before, after)),
            JobEntry::StoppedForGood { at } => self.stopped_for_good = Some(at),
            JobEntry::Drained { left } => self.drained.push(left),
        }
    }

    fn runs_of(&self, job: &str) -> impl Iterator<Item = &JobRun> {
        self.runs.values().filter(move |run| run.job == job)
    }
}

/// However often the shard changed its owner, nothing was opened twice for an attempt, and there
/// are no more attempts than the job allows.
pub(super) fn a_due_time_has_one_run(facts: &Facts, verdict: &mut Verdict) {
    let promise = "a due time has one run";
    let Jobs { runs, opened, .. } = &facts.jobs;
    let (none, all) = (BTreeSet::new(), runs.keys().chain(opened.keys()));
    for id in all.collect::<BTreeSet<_>>() {
        let defined = facts.jobs.defined.get(&id.0);
        let Some(defined) = defined.filter(|defined| !defined.claimed) else {
            continue;
        };
        let attempts = runs.get(id).map_or(0, |run| run.attempt);
        let handles = opened.get(id).unwrap_or(&none);
        verdict.expect(promise, handles.len() as i32 == attempts, || {
            format!("{id:?}: {attempts} attempts, and schedulers {handles:?}")
        });
        let is_allowed = defined.repeats.is_none_or(|most| attempts <= 1 + most);
        verdict.expect(promise, is_allowed, || {
            format!("{id:?}: {attempts} attempts, and schedulers {handles:?}")
        });
    }
}

/// Nothing that was due is passed over in silence, or counted twice.
pub(super) fn every_due_time_has_a_row(facts: &Facts, verdict: &mut Verdict) {
    for (job, defined) in &facts.jobs.defined {
        let mut next = None;
        for run in facts.jobs.runs_of(job) {
            let is_next = next.is_none_or(|next| next == run.due);
            verdict.expect("every due time has a row", is_next, || {
                format!("{job}: {} follows, and not {next:?}", run.due)
            });
            next = Some(run.last.unwrap_or(run.due) + defined.every);
        }
        let Some(stopped) = facts.jobs.stopped_for_good else {
            continue;
        };
        let goes_on = next.is_some_and(|next| next > stopped - AT_THE_STOP_US);
        verdict.expect("every due time has a row", goes_on, || {
            format!("{job}: {next:?} has none, and the agent was stopped at {stopped}")
        });
    }
}

/// Up to here the time of the service goes on, though its clock may be set: only a server that
/// starts by a clock that was set may be an owner by whose time it is earlier than before.
fn time_goes_on(facts: &Facts) -> i64 {
    let set = facts.clock_set();
    let restarts = |fault: &&Fault| !fault.hurt.is_empty() && fault.ended >= set;
    let faults = facts.faults.values().flatten();
    let restarted = faults.filter(restarts).map(|fault| fault.begun);
    // The time of the service is half as fast as that of this machine, or faster.
    match restarted.min() {
        Some(at) => set + (at - set).max(0) / 2,
        None => i64::MAX,
    }
}

pub(super) fn runs_go_on_as_their_job_allows(facts: &Facts, verdict: &mut Verdict) {
    let until = time_goes_on(facts);
    for (job, defined) in &facts.jobs.defined {
        if defined.side_by_side {
            continue;
        }
        let runs = facts.jobs.runs_of(job);
        let spans = runs.filter_map(|run| Some((run.started?, run.ended?)));
        let mut spans: Vec<(i64, i64)> = spans.filter(|(_, ended)| *ended < until).collect();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let [(_, ended), (started, _)] = [pair[0], pair[1]];
            let follows = ended <= started;
            verdict.expect("runs go on as their job allows", follows, || {
                format!("{job}: one ended at {ended}, another began at {started}")
            });
        }
    }
}

/// Whoever had a claim, and whatever became of it, the work of a run was done once; and a run has
/// succeeded when it was, unless nobody could ask the target.
pub(super) fn a_claimed_run_is_finished_once(facts: &Facts, verdict: &mut Verdict) {
    let promise = "a claimed run is finished once";
    for (id, run) in &facts.jobs.runs {
        let defined = facts.jobs.defined.get(&id.0);
        if defined.is_none_or(|defined| !defined.claimed) || !run.is_over() {
            continue;
        }
        let settled = facts.jobs.settled.get(id).copied().unwrap_or(0);
        let has_succeeded = run.state == JobRun::SUCCEEDED;
        verdict.expect(promise, settled <= 1, || format!("{id:?}: {settled} times"));
        verdict.expect(promise, !has_succeeded || settled == 1, || {
            format!("{id:?} has succeeded, and nobody has done the work")
        });
        verdict.expect(
            promise,
            settled == 0 || has_succeeded || run.unasked,
            || format!("{id:?}: the work is done, and it is {}", run.state),
        );
        let is_acknowledged = facts.jobs.finished.contains(id);
        verdict.expect(promise, has_succeeded || !is_acknowledged, || {
            format!(
                "{id:?}: its claimant was told that it is done, and it is {}",
                run.state
            )
        });
        let claims = facts.jobs.succeeded.get(id).copied().unwrap_or(0);
        verdict.expect(promise, claims <= 1, || {
            format!("{id:?}: {claims} claims have succeeded")
        });
    }
}

pub(super) fn a_stopped_agent_fires_nothing(facts: &Facts, verdict: &mut Verdict) {
    for (before, after) in &facts.jobs.stopped {
        verdict.expect("a stopped agent fires nothing", before == after, || {
            format!("{before} schedulers of runs, and then {after}")
        });
    }
}

/// By itself, and not only because the agent was stopped and everything cancelled.
pub(super) fn every_run_ends(facts: &Facts, verdict: &mut Verdict) {
    for left in &facts.jobs.drained {
        verdict.expect("every run ends", *left == 0, || {
            format!("{left} runs go on under an agent that was stopped long ago")
        });
    }
    for (id, run) in &facts.jobs.runs {
        verdict.expect("every run ends", run.is_over(), || {
            format!("{id:?} is in state {}", run.state)
        });
    }
}
