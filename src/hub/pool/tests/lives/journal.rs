//! The model database: the gate, the rows of one scheduler, and the register of executors and their sessions.

use crate::{
    core::{
        AttemptRecord, CompletionRecord, DoneNo, Epoch, Records, RecoveredOutcome, RecoveredRun,
        RecoveredScheduler, SchedulerImage, Seq, SubmissionRecord, Work,
    },
    hub::pool::Host,
    journal::{Batch, Commit},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use uuid::Uuid;

#[derive(Default)]
pub(crate) struct Journal {
    pub epoch: Epoch,
    /// The run that took the shard last.
    pub owner: Option<Uuid>,
    /// Epoch of each batch; the place is its number, less one.
    batches: Vec<Epoch>,
    image: Option<SchedulerImage>,
    calls: Vec<SubmissionRecord>,
    completions: Vec<Arc<CompletionRecord>>,
    attempts: Vec<AttemptRecord>,
    pub ended: BTreeSet<Seq>,
    pub enrolled: BTreeMap<Uuid, Enrolled>,
    /// By backend.
    pub sessions: BTreeMap<u32, Session>,
    last_pid: u32,
}

/// A run of a replica, as the register knows it.
#[derive(Clone, Copy)]
pub(crate) struct Enrolled {
    pub incarnation: i32,
    pub fenced: i32,
}

#[derive(Clone)]
pub(crate) struct Session {
    pub replica: Uuid,
    pub incarnation: i32,
    pub work: Work,
}

impl Journal {
    pub(crate) fn take_over(&mut self, run: Uuid) -> Epoch {
        self.epoch.0 += 1;
        self.owner = Some(run);
        self.epoch
    }

    pub(crate) fn last_batch(&self) -> i64 {
        self.batches.len() as i64
    }

    pub(crate) fn append(&mut self, batch: &Batch) -> Commit {
        let at = batch.no.0 as usize - 1;
        if batch.epoch != self.epoch || at > self.batches.len() {
            return Commit::Fenced;
        }
        if let Some(epoch) = self.batches.get(at) {
            return if *epoch == batch.epoch {
                Commit::Durable
            } else {
                Commit::Fenced
            };
        }
        self.batches.push(batch.epoch);
        self.write(&batch.records);
        Commit::Durable
    }

    fn write(&mut self, records: &Records) {
        // Recovery reads everything: the first image, of an empty scheduler, goes with that.
        let empty = |image: &SchedulerImage| SchedulerImage {
            checkpoint: Default::default(),
            ..image.clone()
        };
        self.image = self
            .image
            .take()
            .or_else(|| records.schedulers.values().next().map(empty));
        self.calls.extend(records.submissions.iter().cloned());
        for record in &records.completions {
            for done in &record.done {
                for at in 0..done.count {
                    assert!(
                        self.ended.insert(done.first.plus(at)),
                        "task {} has two outcomes",
                        done.first.0
                    );
                }
            }
            self.completions.push(record.clone());
        }
        self.attempts.extend(records.attempts.iter().cloned());
    }

    pub(crate) fn tasks(&self) -> usize {
        self.calls.iter().map(|call| call.submit.bodies.len()).sum()
    }

    pub(crate) fn recover(&self) -> Vec<RecoveredScheduler> {
        let Some(image) = self.image.clone() else {
            return Vec::new();
        };
        let mut runs = Vec::new();
        for call in &self.calls {
            let mut first = call.first_seq;
            for (run, (order, spec)) in call.submit.runs.iter().zip(&call.resolved) {
                let (count, order, spec, submitted_at) =
                    (run.count, *order, spec.clone(), call.submitted_at);
                runs.push(RecoveredRun {
                    first,
                    count,
                    order,
                    spec,
                    submitted_at,
                    blocks: call.submit.blocks(),
                });
                first = first.plus(count);
            }
        }
        let mut outcomes = Vec::new();
        for record in &self.completions {
            let mut done_no = record.first_done_no.0;
            for done in &record.done {
                let (first, count, outcome) = (done.first, done.count, done.outcome);
                outcomes.push(RecoveredOutcome {
                    done_no: DoneNo(done_no),
                    first,
                    count,
                    outcome,
                });
                done_no += i64::from(count);
            }
        }
        let mut attempts = self.attempts.clone();
        attempts
            .sort_by_key(|record| (record.at, record.seq, record.attempt, record.what.number()));
        vec![RecoveredScheduler {
            image,
            runs,
            outcomes,
            attempts,
            requests: Vec::new(),
        }]
    }

    pub(crate) fn enrol(&mut self, run: Uuid) {
        self.enrolled.insert(
            run,
            Enrolled {
                incarnation: 1,
                fenced: 0,
            },
        );
    }

    pub(crate) fn is_fenced(&self, run: Uuid, incarnation: i32) -> bool {
        self.enrolled[&run].fenced >= incarnation
    }

    /// False: the shard has another epoch.
    pub(crate) fn fence(&mut self, host: Host, epoch: Epoch) -> bool {
        let row = self.enrolled.get_mut(&host.replica).expect("enrolled");
        if epoch == self.epoch {
            row.fenced = row.fenced.max(host.incarnation);
        }
        epoch == self.epoch
    }

    pub(crate) fn readmit(&mut self, run: Uuid) -> i32 {
        let row = self.enrolled.get_mut(&run).expect("enrolled");
        row.incarnation = row.incarnation.max(row.fenced) + 1;
        row.incarnation
    }

    /// A session for a slot; `None`: its executor is fenced.
    pub(crate) fn register(&mut self, replica: Uuid, incarnation: i32, work: &Work) -> Option<u32> {
        if self.is_fenced(replica, incarnation) {
            return None;
        }
        self.last_pid += 1;
        self.sessions.insert(
            self.last_pid,
            Session {
                replica,
                incarnation,
                work: work.clone(),
            },
        );
        Some(self.last_pid)
    }

    /// Its executor has no more use for a session; the last one of a kind stays, as a sign that something may have run.
    pub(crate) fn let_go(&mut self, pid: u32) {
        let Some(Session {
            replica,
            incarnation,
            work,
        }) = self.sessions.get(&pid).cloned()
        else {
            return;
        };
        let like = |(other, s): (&u32, &Session)| {
            *other != pid && (s.replica, s.incarnation, &s.work) == (replica, incarnation, &work)
        };
        if self.sessions.iter().any(like) {
            self.sessions.remove(&pid);
        }
    }

    pub(crate) fn of_fenced(&self) -> Vec<(u32, Session)> {
        let fenced =
            |(_, session): &(&u32, &Session)| self.is_fenced(session.replica, session.incarnation);
        self.sessions
            .iter()
            .filter(fenced)
            .map(|(pid, session)| (*pid, session.clone()))
            .collect()
    }
}
