//! The model journal: the numbers of the real one, in memory.
//!
//! A batch is written as a whole or not at all, only behind its predecessor of the same epoch, only
//! once.

use crate::{fixtures::POISON, oracle::Oracle, register::Register, tables::Tables};
use rallypoint::{
    core::{
        AttemptEvent, Epoch, Handle, PauseRecord, Records, RecoveredJobs, RecoveredResources,
        RequestMemory, SchedulerState, TargetPause, Time,
        model::limits::{Limits, REQUEST_MEMORY},
    },
    journal::{Batch, Commit},
};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Journal {
    pub epoch: Epoch,
    /// Epoch of each batch; the place is its number.
    batches: Vec<Epoch>,
    pub schedulers: Vec<Tables>,
    pauses: Vec<PauseRecord>,
    /// What a recovery reads of resources.
    pub resources: RecoveredResources,
    /// What a recovery reads of jobs.
    pub jobs: RecoveredJobs,
    /// Calls accepted since then may be repeated, as of the last owner's last heartbeat.
    pub requests_since: Option<Time>,
    /// When the last owner began, and since when it remembered calls then.
    pub remembered: (Time, Time),
    /// Executors and their sessions.
    pub register: Register,
    rows: i64,
    /// Judges what is written, if it is told of everything.
    pub oracle: Oracle,
    judges: bool,
}

impl Journal {
    /// What is written is judged only by itself.
    pub(crate) fn new() -> Self {
        Journal {
            judges: false,
            ..Journal::judged(Limits::DEFAULT)
        }
    }

    /// What is written is judged by the oracle.
    pub(crate) fn judged(limits: Limits) -> Self {
        Journal {
            judges: true,
            epoch: Epoch(0),
            batches: vec![Epoch(0)],
            schedulers: Vec::new(),
            pauses: Vec::new(),
            resources: RecoveredResources::default(),
            jobs: RecoveredJobs::default(),
            requests_since: None,
            remembered: (Time(0), Time(0)),
            register: Register::default(),
            rows: 0,
            oracle: Oracle::new(limits),
        }
    }

    /// The oracle, if it is told of everything.
    pub(crate) fn judge(&self) -> Option<&Oracle> {
        self.judges.then_some(&self.oracle)
    }

    pub(crate) fn last_batch(&self) -> i64 {
        self.batches.len() as i64 - 1
    }

    /// Whether this very batch is durable.
    pub(crate) fn holds(&self, batch: &Batch) -> bool {
        self.batches.get(batch.no.0 as usize) == Some(&batch.epoch)
    }

    pub(crate) fn tables(&self, handle: Handle) -> Option<&Tables> {
        self.schedulers
            .iter()
            .find(|tables| tables.handle() == handle)
    }

    pub(crate) fn tables_mut(&mut self, handle: Handle) -> Option<&mut Tables> {
        self.schedulers
            .iter_mut()
            .find(|tables| tables.handle() == handle)
    }

    /// What an owner that begins at `now` remembers of calls.
    pub(crate) fn memory(&mut self, now: Time) -> RequestMemory {
        let usual = now - REQUEST_MEMORY;
        let since = self.requests_since.unwrap_or(usual);
        self.remembered = (now, since.min(usual));
        RequestMemory::inherited(now, since)
    }

    /// A new owner, which begins with a batch of its own.
    pub(crate) fn take_over(&mut self) -> Epoch {
        self.epoch.0 += 1;
        self.batches.push(self.epoch);
        self.epoch
    }

    /// Another owner takes the shard and writes something of its own.
    pub(crate) fn foreign_batch(&mut self) {
        let epoch = self.take_over();
        self.batches.push(epoch);
    }

    pub(crate) fn append(&mut self, batch: &Batch) -> Commit {
        let no = batch.no.0 as usize;
        let before = no
            .checked_sub(1)
            .and_then(|before| self.batches.get(before));
        if before != Some(&batch.epoch) {
            return Commit::Fenced;
        }
        if no < self.batches.len() {
            // It was sent before, unless somebody else has written since.
            return if self.batches.last() == Some(&batch.epoch) {
                Commit::Durable
            } else {
                Commit::Fenced
            };
        }
        if poisoned(&batch.records) {
            let (sqlstate, message) = ("22000".to_owned(), "poison".to_owned());
            return if no.is_multiple_of(2) {
                Commit::Rejected { sqlstate, message }
            } else {
                Commit::RolledBack {
                    sqlstate,
                    message,
                    blames: true,
                }
            };
        }
        self.batches.push(batch.epoch);
        self.write(&batch.records);
        self.names_are_unique();
        if self.judges {
            self.oracle.durable(batch);
            for tables in &self.schedulers {
                self.oracle.same_image(&tables.image);
            }
        }
        Commit::Durable
    }

    /// The last change of each target, if that is a pause.
    pub(crate) fn pauses_in_force(&self) -> Vec<TargetPause> {
        let pause = |PauseRecord { change, at }: &PauseRecord| {
            let pause = TargetPause {
                target: change.target.clone(),
                mode: change.mode?,
                since: *at,
                by: change.by.clone(),
                reason: change.reason.clone(),
            };
            Some(pause)
        };
        let last = self.pauses.iter();
        let last: BTreeMap<_, _> = last.map(|one| (&one.change.target, one)).collect();
        last.into_values().filter_map(pause).collect()
    }

    fn write(&mut self, records: &Records) {
        self.rows += 1;
        self.pauses.extend_from_slice(&records.pauses);
        self.resources.remember(&records.resources);
        self.jobs.remember(&records.jobs);
        // New schedulers first: the rows below are theirs. Their images come last, as those of the
        // whole batch.
        for (handle, image) in &records.schedulers {
            if self.tables(*handle).is_none() {
                let opened = rallypoint::core::SchedulerImage {
                    state: Default::default(),
                    ..image.clone()
                };
                self.schedulers.push(Tables::new(opened));
            }
        }
        let row = self.rows;
        for submission in &records.submissions {
            self.known(submission.handle)
                .submit(submission.clone(), row);
        }
        for completion in &records.completions {
            self.known(completion.handle).complete(completion.clone());
        }
        for attempt in &records.attempts {
            self.known(attempt.handle).attempt(attempt.clone());
        }
        for (handle, image) in &records.schedulers {
            let tables = self.known(*handle);
            tables.image = image.after(&tables.image);
        }
    }

    /// Whoever wrote them.
    fn names_are_unique(&self) {
        let images = self.schedulers.iter().map(|tables| &tables.image);
        let open = images.filter(|image| image.state == SchedulerState::Open);
        let mut named = BTreeSet::new();
        for image in open.filter(|image| image.name.is_some()) {
            assert!(
                named.insert((&image.namespace.0, &image.name)),
                "{} and another one are open under one name",
                image.handle
            );
        }
    }

    fn known(&mut self, handle: Handle) -> &mut Tables {
        self.tables_mut(handle)
            .unwrap_or_else(|| panic!("a row of scheduler {handle}, which has none"))
    }
}

/// Holds something Postgres would refuse.
fn poisoned(records: &Records) -> bool {
    let bad = |text: &str| text.starts_with(POISON);
    let body = |bytes: &[u8]| bytes.first() == Some(&POISON.as_bytes()[0]);
    records
        .submissions
        .iter()
        .any(|record| body(&record.submit.bodies.bytes))
        || records
            .schedulers
            .values()
            .any(|image| bad(&image.settings.display_name))
        || records
            .completions
            .iter()
            .flat_map(|record| &record.done)
            .any(|done| {
                done.error.as_ref().is_some_and(|error| bad(&error.message))
                    || done
                        .result
                        .as_ref()
                        .is_some_and(|result| body(&result.rows_json))
            })
        || records.attempts.iter().any(|record| match &record.what {
            AttemptEvent::Failed { error, .. } => bad(&error.message),
            AttemptEvent::Lost { error, .. } | AttemptEvent::CancelRequested { why: error } => {
                error.as_ref().is_some_and(|error| bad(&error.message))
            }
            AttemptEvent::Start | AttemptEvent::HandedBack | AttemptEvent::Retried { .. } => false,
        })
}
