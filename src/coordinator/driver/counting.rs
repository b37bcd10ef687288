//! Counts what the loop releases. Once a batch or an assignment, by counters that are kept: nothing
//! is locked or allocated for a task.

use crate::{
    coordinator::machine::Release,
    core::{Action, AttemptEvent, ClaimEnd, ClaimEvent, Outcome, Records, RunState, Tally, Work},
    journal::Commit,
    metrics::{Metrics, of_work},
};
use prometheus_client::metrics::counter::Counter;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// The counters of the loop.
pub(super) struct Counting {
    metrics: Metrics,
    by_work: FxHashMap<Work, OfWork>,
    /// When the batch in flight was sent.
    sent: Instant,
}

/// The counters of one kind of work.
struct OfWork {
    starts: Counter,
    /// By outcome.
    ended: [Counter; OUTCOMES.len()],
}

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Succeeded, "succeeded"),
    (Outcome::Failed, "failed"),
    (Outcome::Cancelled, "cancelled"),
    (Outcome::TimedOut, "timed_out"),
    (Outcome::Exhausted, "exhausted"),
];

impl Counting {
    pub(super) fn new(metrics: Metrics) -> Self {
        Counting {
            metrics,
            by_work: FxHashMap::default(),
            sent: Instant::now(),
        }
    }

    /// A batch is sent after a pause.
    pub(super) fn sent(&mut self, pause: Duration) {
        self.sent = Instant::now() + pause;
    }

    /// The batch in flight has this outcome.
    pub(super) fn answered(&self, commit: &Commit) {
        let journal = &self.metrics.journal;
        let outcome = match commit {
            Commit::Durable => "durable",
            Commit::Fenced => "fenced",
            Commit::Rejected { .. } => "rejected",
            Commit::RolledBack { .. } => "rolled_back",
            Commit::Unknown { .. } => "unknown",
        };
        journal.batches.of([outcome]).inc();
        let took = self.sent.elapsed().as_secs_f64();
        journal.append_seconds.observe(took);
    }

    /// The state was built from the journal.
    pub(super) fn recovered(&self) {
        self.metrics.replica.recoveries.inc();
    }

    /// So many batches are missing in the journal.
    pub(super) fn lost(&self, lost: i64) {
        self.metrics.journal.lost_batches.inc_by(lost.max(0) as u64);
    }

    /// Something is released.
    pub(super) fn released(&mut self, release: &Release) {
        for action in &release.actions {
            if let Action::Dispatch(assignment) = action {
                let of = self.of(&assignment.spec.work);
                of.starts.inc_by(assignment.count.into());
            }
        }
        self.ended(&release.tally);
        if let Some(batch) = &release.batch {
            self.durable(&batch.records);
        }
    }

    fn ended(&mut self, tally: &Tally) {
        for (work, outcome, count) in &tally.ended {
            let at = OUTCOMES.iter().position(|(known, _)| known == outcome);
            if let Some(at) = at {
                self.of(work).ended[at].inc_by(*count);
            }
        }
        for delay in &tally.start_delays {
            self.metrics.jobs.start_delay.observe(delay.as_secs_f64());
        }
    }

    fn durable(&self, records: &Records) {
        let tasks = &self.metrics.tasks;
        let runs = records
            .submissions
            .iter()
            .flat_map(|call| &call.submit.runs);
        let submitted: u64 = runs.map(|run| u64::from(run.count)).sum();
        let ended = records.completions.iter().map(|row| u64::from(row.count()));
        tasks.submitted.inc_by(submitted);
        let changed = (submitted + ended.sum::<u64>()) as f64;
        self.metrics.journal.batch_tasks.observe(changed);
        for record in &records.attempts {
            let end = match record.what {
                AttemptEvent::Failed { .. } => "failed",
                AttemptEvent::Lost { .. } => "lost",
                AttemptEvent::HandedBack => "handed_back",
                _ => continue,
            };
            tasks.attempts.of([end]).inc();
        }
        let resources = &self.metrics.resources;
        for record in &records.resources.claims {
            match &record.what {
                ClaimEvent::Requested(_) => {}
                ClaimEvent::Granted { spec, .. } => {
                    let after = ["waiting", "at_once"][usize::from(spec.is_some())];
                    resources.granted.of([after]).inc();
                }
                ClaimEvent::Ended(ending) => {
                    resources.ended.of([claim_end(ending.how)]).inc();
                }
            }
        }
        let runs = records.jobs.runs.values();
        for run in runs.filter(|run| !records.jobs.cut.contains(&run.key)) {
            if let Some(became) = run_end(run.state) {
                let count = run.count.max(1) as u64;
                self.metrics.jobs.ended.of([became]).inc_by(count);
            }
        }
    }

    fn of(&mut self, work: &Work) -> &OfWork {
        if !self.by_work.contains_key(work) {
            let tasks = &self.metrics.tasks;
            let [kind, target] = of_work(work);
            let ended = OUTCOMES.map(|(_, name)| tasks.outcomes.of([kind, target, name]));
            let starts = tasks.starts.of([kind, target]);
            self.by_work.insert(work.clone(), OfWork { starts, ended });
        }
        &self.by_work[work]
    }
}

fn claim_end(how: ClaimEnd) -> &'static str {
    match how {
        ClaimEnd::Released => "released",
        ClaimEnd::Withdrawn => "withdrawn",
        ClaimEnd::TimedOut => "timed_out",
        ClaimEnd::Abandoned => "abandoned",
        ClaimEnd::Expired => "expired",
        ClaimEnd::HeldTooLong => "held_too_long",
        ClaimEnd::Forced => "forced",
    }
}

/// `None`: it is not over.
fn run_end(state: RunState) -> Option<&'static str> {
    Some(match state {
        RunState::Waiting | RunState::Running | RunState::Retrying => return None,
        RunState::Succeeded => "succeeded",
        RunState::Failed => "failed",
        RunState::Cancelled => "cancelled",
        RunState::TimedOut => "timed_out",
        RunState::Skipped => "skipped",
        RunState::Missed => "missed",
        RunState::Lost => "lost",
    })
}
