//! Reads the model journal as the real one is read: checkpoints and what came later
//! (`src/journal/read/recovery.rs`).

use crate::{
    journal::Journal,
    tables::{Call, Tables},
};
use rallypoint::core::{
    DoneNo, RecoveredOutcome, RecoveredRequest, RecoveredRun, RecoveredScheduler, RetryOf, Seq,
    Time,
};

pub(crate) fn recover(journal: &Journal, since: Time) -> Vec<RecoveredScheduler> {
    // Those that have ended come back as long as their calls may be repeated.
    let kept = |tables: &&Tables| !tables.ended() || tables.repeatable(since);
    let mut schedulers: Vec<&Tables> = journal.schedulers.iter().filter(kept).collect();
    schedulers.sort_unstable_by_key(|tables| tables.handle());
    schedulers
        .into_iter()
        .map(|tables| tables.recovered(since))
        .collect()
}

impl Tables {
    fn repeatable(&self, since: Time) -> bool {
        self.image.opened_at >= since || self.calls_since(since).next().is_some()
    }

    fn recovered(&self, since: Time) -> RecoveredScheduler {
        let requests = self.calls_since(since).filter_map(request);
        let attempts = self
            .attempts
            .iter()
            .filter(|record| self.is_open(record.seq))
            .rev();
        RecoveredScheduler {
            image: self.image.clone(),
            was_set_aside: false,
            runs: self.runs(),
            outcomes: self.outcomes(),
            copies: self.copies(),
            // They may come in any sequence.
            attempts: attempts.cloned().collect(),
            requests: requests.collect(),
        }
    }

    /// Later than the checkpoint, or unfinished in it.
    fn is_open(&self, seq: Seq) -> bool {
        let checkpoint = &self.image.checkpoint;
        if checkpoint.quiesced {
            return false;
        }
        seq > checkpoint.highest_seq
            || checkpoint
                .unfinished
                .iter()
                .any(|(first, last)| *first <= seq && seq <= *last)
    }

    /// Whole rows that hold a task that is open by the checkpoint.
    fn runs(&self) -> Vec<RecoveredRun> {
        let mut runs = Vec::new();
        for row in self.calls.chunk_by(|one, next| one.row == next.row) {
            let first = row[0].record.first_seq;
            let last = row[row.len() - 1]
                .record
                .first_seq
                .plus(row[row.len() - 1].count);
            if (first.0..last.0).any(|seq| self.is_open(Seq(seq))) {
                row.iter().for_each(|call| add_runs(call, &mut runs));
            }
        }
        runs
    }

    /// Those that are open by the checkpoint, and their neighbours.
    fn copies(&self) -> Vec<(Seq, RetryOf)> {
        let seqs = (1..).map(Seq);
        let tasks = seqs.zip(&self.tasks);
        let copies = tasks.filter_map(|(seq, task)| Some((seq, task.retry_of?)));
        copies.collect()
    }

    fn outcomes(&self) -> Vec<RecoveredOutcome> {
        let after = self.image.checkpoint.done_no;
        let mut outcomes = Vec::new();
        if self.image.checkpoint.quiesced {
            return outcomes;
        }
        let from = self
            .completions
            .partition_point(|record| record.last_done_no() <= after);
        for record in &self.completions[from..] {
            let mut done_no = record.first_done_no.0;
            for done in &record.done {
                let skipped = (after.0 + 1 - done_no).clamp(0, i64::from(done.count)) as u32;
                if skipped < done.count {
                    outcomes.push(RecoveredOutcome {
                        done_no: DoneNo(done_no + i64::from(skipped)),
                        first: done.first.plus(skipped),
                        count: done.count - skipped,
                        outcome: done.outcome,
                    });
                }
                done_no += i64::from(done.count);
            }
        }
        outcomes
    }
}

fn add_runs(call: &Call, runs: &mut Vec<RecoveredRun>) {
    let mut first = call.record.first_seq;
    for (run, (order, spec)) in call.record.submit.runs.iter().zip(&call.record.resolved) {
        let (count, submitted_at) = (run.count, call.record.submitted_at);
        runs.push(RecoveredRun {
            first,
            count,
            order: *order,
            spec: spec.clone(),
            submitted_at,
            blocks: call.record.submit.blocks(),
        });
        first = first.plus(count);
    }
}

fn request(call: &Call) -> Option<RecoveredRequest> {
    Some(RecoveredRequest {
        request: call.record.submit.request?,
        first_seq: call.record.first_seq,
        count: call.count,
        done_no: call.record.done_no,
        at: call.record.submitted_at,
    })
}
