//! What the journal would remember, as the tests need it: records in, [`RecoveredScheduler`]s out.

use crate::core::{
    AttemptRecord, DoneNo, Halt, Handle, Outcome, PauseRecord, Records, RecoveredJobs,
    RecoveredOutcome, RecoveredRequest, RecoveredResources, RecoveredRun, RecoveredScheduler,
    RetryOf, RunClaim, RunImage, RunKey, RunToken, SchedulerImage, Seq, TargetPause, TaskRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// All records so far, by scheduler.
#[derive(Default)]
pub(crate) struct Remembered {
    schedulers: BTreeMap<Handle, One>,
    pauses: Vec<PauseRecord>,
    pub resources: RecoveredResources,
    pub jobs: RecoveredJobs,
    /// Every due time of jobs, with what became of it.
    pub job_runs: BTreeMap<RunKey, RunImage>,
    /// Every claim of a run.
    pub job_claims: BTreeMap<(RunKey, RunToken), RunClaim>,
    /// Schedulers that the next owner cannot read.
    pub unreadable: BTreeSet<Handle>,
    /// Whether the last owner could read no scheduler.
    pub set_aside: bool,
    /// Checkpoints written.
    pub checkpoints: usize,
    /// Ranges of unfinished tasks written.
    pub ranges: usize,
}

#[derive(Default)]
struct One {
    image: Option<SchedulerImage>,
    runs: Vec<RecoveredRun>,
    copies: Vec<(Seq, RetryOf)>,
    requests: Vec<RecoveredRequest>,
    outcomes: Vec<RecoveredOutcome>,
    attempts: Vec<AttemptRecord>,
}

impl Remembered {
    /// The values of a label that schedulers have, in the order of their handles.
    pub(crate) fn labels(&self, name: &str) -> Vec<String> {
        let images = self
            .schedulers
            .values()
            .filter_map(|one| one.image.as_ref());
        images
            .filter_map(|image| image.settings.labels.get(name).cloned())
            .collect()
    }

    /// Takes a batch in. Panics when an event number is missing or given twice, or a task ends
    /// twice.
    pub(crate) fn add(&mut self, records: Records) {
        for (handle, image) in records.schedulers {
            let one = self.schedulers.entry(handle).or_default();
            self.checkpoints += usize::from(image.checkpoint.highest_seq > Seq(0));
            self.ranges += image.checkpoint.unfinished.len();
            one.image = Some(
                one.image
                    .as_ref()
                    .map_or_else(|| image.clone(), |older| image.after(older)),
            );
        }
        self.pauses.extend(records.pauses);
        self.resources.remember(&records.resources);
        self.jobs.remember(&records.jobs);
        self.job_runs.extend(records.jobs.runs);
        self.job_claims.extend(records.jobs.claims);
        for submission in records.submissions {
            let one = self.schedulers.entry(submission.handle).or_default();
            let mut first = submission.first_seq;
            for (run, (order, spec)) in submission.submit.runs.iter().zip(&submission.resolved) {
                let (order, spec, submitted_at) = (*order, spec.clone(), submission.submitted_at);
                one.runs.push(RecoveredRun {
                    first,
                    count: run.count,
                    order,
                    spec,
                    submitted_at,
                    blocks: submission.submit.blocks(),
                });
                first = first.plus(run.count);
            }
            let retries = submission.submit.retries.iter();
            let of = retries.flat_map(|retries| &retries.of);
            let seqs = (submission.first_seq.0..).map(Seq);
            one.copies.extend(seqs.zip(of.copied()));
            one.requests
                .extend(submission.submit.request.map(|request| RecoveredRequest {
                    request,
                    first_seq: submission.first_seq,
                    count: (first.0 - submission.first_seq.0) as u32,
                    done_no: submission.done_no,
                    at: submission.submitted_at,
                }));
        }
        for record in &records.completions {
            let mut next = record.first_done_no;
            let one = self.schedulers.entry(record.handle).or_default();
            for done in &record.done {
                one.end(next, done.first, done.count, done.outcome);
                next.0 += i64::from(done.count);
            }
        }
        for attempt in records.attempts {
            self.schedulers
                .entry(attempt.handle)
                .or_default()
                .attempts
                .push(attempt);
        }
    }

    /// How the tasks of a scheduler ended, in the order of their events.
    pub(crate) fn outcomes(&self, handle: Handle) -> Vec<(i64, Outcome)> {
        let spread = |o: &RecoveredOutcome| {
            let outcome = o.outcome;
            (o.first.0..o.first.0 + i64::from(o.count))
                .map(move |seq| (seq, outcome))
                .collect::<Vec<_>>()
        };
        self.schedulers.get(&handle).map_or(Vec::new(), |one| {
            one.outcomes.iter().flat_map(spread).collect()
        })
    }

    /// Records of attempts of a task.
    pub(crate) fn attempts(&self, handle: Handle, seq: i64) -> Vec<AttemptRecord> {
        let all = self
            .schedulers
            .get(&handle)
            .map_or(&[][..], |one| &one.attempts);
        all.iter()
            .filter(|record| record.seq == Seq(seq))
            .cloned()
            .collect()
    }

    /// Where to look for a task.
    pub(crate) fn place(&self, handle: Handle, seq: i64) -> TaskRef {
        let runs = self
            .schedulers
            .get(&handle)
            .map_or(&[][..], |one| &one.runs);
        let run = runs
            .iter()
            .find(|run| (run.first.0..run.first.0 + i64::from(run.count)).contains(&seq));
        TaskRef {
            seq: Seq(seq),
            order: run.and_then(|run| run.order),
        }
    }

    /// The row of a scheduler.
    pub(crate) fn image(&self, handle: Handle) -> &SchedulerImage {
        self.schedulers[&handle]
            .image
            .as_ref()
            .expect("it was opened")
    }

    /// An older version writes the row of a scheduler: it leaves alone what a halt counts.
    pub(crate) fn with_halt(&mut self, handle: Handle, halt: Option<Halt>) {
        let one = self.schedulers.get_mut(&handle);
        let image = one.and_then(|one| one.image.as_mut());
        image.expect("it was opened").halt = halt;
    }

    /// The rows of a scheduler are lost.
    pub(crate) fn forget(&mut self, handle: Handle) {
        self.schedulers.remove(&handle);
    }

    /// The pauses in force that recovery would read.
    pub(crate) fn pauses(&self) -> Vec<TargetPause> {
        let last: BTreeMap<_, _> = (self.pauses.iter())
            .map(|record| (record.change.target.clone(), record))
            .collect();
        let pauses = last.into_values();
        pauses.filter_map(|one| one.change.begun(one.at)).collect()
    }

    /// What recovery would read.
    pub(crate) fn recovered(&self) -> Vec<RecoveredScheduler> {
        let recovered = |one: &One| {
            let image = one.image.clone()?;
            let after = image.checkpoint.done_no;
            if image.checkpoint.quiesced {
                let (runs, outcomes, copies, attempts) = Default::default();
                return Some(RecoveredScheduler {
                    image,
                    was_set_aside: self.set_aside,
                    runs,
                    outcomes,
                    copies,
                    attempts,
                    requests: one.requests.clone(),
                });
            }
            let outcomes = one
                .outcomes
                .iter()
                .filter(|outcome| outcome.done_no > after)
                .cloned()
                .collect();
            let (runs, mut attempts, requests) =
                (one.runs.clone(), one.attempts.clone(), one.requests.clone());
            // No sequence is promised; this one is wrong when a clock was behind.
            attempts.sort_by_key(|record| record.at);
            Some(RecoveredScheduler {
                image,
                was_set_aside: self.set_aside,
                runs,
                outcomes,
                copies: one.copies.clone(),
                attempts,
                requests,
            })
        };
        let readable = (self.schedulers.iter())
            .filter(|(handle, _)| !self.unreadable.contains(handle))
            .map(|(_, one)| one);
        readable.filter_map(recovered).collect()
    }
}

impl One {
    fn end(&mut self, done_no: DoneNo, first: Seq, count: u32, outcome: Outcome) {
        let last = self
            .outcomes
            .last()
            .map_or(0, |last| last.done_no.0 + i64::from(last.count) - 1);
        assert_eq!(done_no.0, last + 1, "events are numbered without a gap");
        let overlap = |other: &RecoveredOutcome| {
            other.first.0 < first.0 + i64::from(count)
                && first.0 < other.first.0 + i64::from(other.count)
        };
        assert!(
            !self.outcomes.iter().any(overlap),
            "task {first:?} ended twice"
        );
        self.outcomes.push(RecoveredOutcome {
            done_no,
            first,
            count,
            outcome,
        });
    }
}
