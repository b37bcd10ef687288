//! The records of one durable batch, taken one by one by what explains them. What nobody explains
//! breaks a promise.

use rallypoint::core::{
    AttemptEvent, AttemptRecord, Done, DoneNo, Handle, Outcome, PauseChange, PauseRecord, Records,
    Seq, Settings, SubmissionRecord, Submit, TaskError,
};
use std::sync::Arc;

fn brings(row: &Submit, submit: &Submit) -> bool {
    row.bodies == submit.bodies && row.runs == submit.runs
}

#[derive(Default)]
pub(super) struct Rows<'a> {
    done: Vec<(Handle, &'a Done)>,
    attempts: Vec<&'a AttemptRecord>,
    submissions: Vec<&'a SubmissionRecord>,
    /// Schedulers whose row is written, with their settings.
    schedulers: Vec<(Handle, Arc<Settings>)>,
    pauses: &'a [PauseRecord],
}

impl<'a> Rows<'a> {
    pub(crate) fn new(records: &'a Records) -> Self {
        let of_row = |row: &'a std::sync::Arc<rallypoint::core::CompletionRecord>| {
            row.done.iter().map(move |done| (row.handle, done))
        };
        let schedulers = records.schedulers.iter();
        let schedulers = schedulers.map(|(handle, image)| (*handle, image.settings.clone()));
        Rows {
            done: records.completions.iter().flat_map(of_row).collect(),
            attempts: records.attempts.iter().collect(),
            submissions: records.submissions.iter().collect(),
            schedulers: schedulers.collect(),
            pauses: &records.pauses,
        }
    }

    /// Whether the end of this very task is among them, of an attempt that was reported.
    pub(crate) fn ends(&self, handle: Handle, first: Seq, attempt: i32) -> bool {
        self.done.iter().any(|(of, done)| {
            let reported = (done.backend_pid != 0).then_some(done.attempt.0);
            *of == handle && done.first == first && reported == Some(attempt)
        })
    }

    /// Whether a task that has not begun ends as cancelled by a call that names it, perhaps with
    /// those behind it. One in doubt whose attempt is asked to stop may end so, too, when its host
    /// is found to be lost: nobody cancelled that while it waited.
    pub(crate) fn cancels(&self, handle: Handle, first: Seq) -> bool {
        let is_stopped = self.attempts.iter().any(|row| {
            row.handle == handle
                && row.seq == first
                && matches!(row.what, AttemptEvent::CancelRequested { .. })
        });
        !is_stopped
            && self.done.iter().any(|(of, done)| {
                let is_cancelled = done.outcome == Outcome::Cancelled && done.started.is_none();
                let by_release =
                    |error: &Arc<TaskError>| error.message.starts_with("cancelled with the rest");
                let by_call = !done.error.as_ref().is_some_and(by_release);
                *of == handle && done.first == first && is_cancelled && by_call
            })
    }

    pub(crate) fn writes(&self, handle: Handle) -> bool {
        self.schedulers.iter().any(|(of, _)| *of == handle)
    }

    /// Schedulers with a label whose row is written.
    pub(crate) fn labelled(&self, label: &str) -> Vec<(Handle, Arc<Settings>)> {
        let all = self.schedulers.iter();
        let labelled = all.filter(|(_, settings)| settings.labels.contains_key(label));
        labelled.cloned().collect()
    }

    /// Outcomes of a scheduler that come before that of a task.
    pub(crate) fn before(&self, handle: Handle, seq: Seq) -> impl Iterator<Item = &Done> {
        let of = self.done.iter().filter(move |(of, _)| *of == handle);
        let of = of.map(|(_, done)| *done);
        of.take_while(move |done| done.first != seq)
    }

    /// The next outcome of a scheduler.
    pub(crate) fn next_done(&mut self, handle: Handle) -> Option<&'a Done> {
        let at = self.done.iter().position(|(of, _)| *of == handle)?;
        Some(self.done.remove(at).1)
    }

    /// The next outcome of a scheduler, if that is of a copy which ran as one with this one.
    pub(crate) fn next_copy(&mut self, handle: Handle, of: &Done) -> Option<&'a Done> {
        let ran = |done: &Done| (done.attempt, done.started, done.ended, done.slot);
        let (_, next) = self.done.iter().find(|(of, _)| *of == handle)?;
        let is_it = next.first == of.first.plus(of.count)
            && next.retry_of.is_some()
            && ran(next) == ran(of);
        is_it.then(|| self.next_done(handle)).flatten()
    }

    /// Outcomes of a scheduler that are still to be explained.
    pub(crate) fn left(&self, handle: Handle) -> i64 {
        let of = self.done.iter().filter(|(of, _)| *of == handle);
        of.map(|(_, done)| i64::from(done.count)).sum()
    }

    /// Outcomes of all schedulers that are still to be explained.
    pub(crate) fn all_left(&self) -> i64 {
        self.done
            .iter()
            .map(|(_, done)| i64::from(done.count))
            .sum()
    }

    pub(crate) fn any_done(&mut self) -> Option<(Handle, &'a Done)> {
        (!self.done.is_empty()).then(|| self.done.remove(0))
    }

    pub(crate) fn accepts(&self, handle: Handle, submit: &Submit) -> bool {
        let mut all = self.submissions.iter();
        all.any(|row| row.handle == handle && brings(&row.submit, submit))
    }

    /// The record of an accepted call, whose first task is this one; no two calls bring the same
    /// tasks, but one that is repeated when its request is forgotten.
    pub(crate) fn submission(
        &mut self,
        (handle, first): (Handle, Seq),
        submit: &Submit,
    ) -> Option<&'a SubmissionRecord> {
        let is_of_call = |row: &&SubmissionRecord| {
            (row.handle, row.first_seq) == (handle, first) && brings(&row.submit, submit)
        };
        let at = self.submissions.iter().position(is_of_call)?;
        Some(self.submissions.remove(at))
    }

    /// Whether the next change of a pause on record is this one.
    pub(crate) fn next_pause(&mut self, change: &PauseChange) -> bool {
        match self.pauses.split_first() {
            Some((record, later)) if record.change == *change => {
                self.pauses = later;
                true
            }
            _ => false,
        }
    }

    /// Whether an attempt that ends without an outcome is still to be explained.
    pub(crate) fn ends_attempt_of(&self, handle: Handle, seq: Seq) -> bool {
        let mut of_task = self
            .attempts
            .iter()
            .filter(|row| row.handle == handle && row.seq == seq);
        of_task.any(|row| {
            matches!(
                row.what,
                AttemptEvent::Failed { .. } | AttemptEvent::Lost { .. } | AttemptEvent::HandedBack
            )
        })
    }

    /// What became of an attempt that ended without an outcome.
    pub(crate) fn ended_attempt(
        &mut self,
        handle: Handle,
        seq: Seq,
        attempt: i32,
    ) -> Option<&'a AttemptRecord> {
        let is_of_attempt = |row: &&AttemptRecord| {
            let goes_on = matches!(
                row.what,
                AttemptEvent::Start | AttemptEvent::CancelRequested { .. }
            );
            row.handle == handle && row.seq == seq && row.attempt.0 == attempt && !goes_on
        };
        let at = self.attempts.iter().position(is_of_attempt)?;
        Some(self.attempts.remove(at))
    }

    /// The retry that is noted at a task.
    pub(crate) fn retried(&mut self, handle: Handle, seq: Seq) -> Option<Seq> {
        let retry = |row: &&AttemptRecord| match row.what {
            AttemptEvent::Retried { retry } if row.handle == handle && row.seq == seq => {
                Some(retry)
            }
            _ => None,
        };
        let at = self.attempts.iter().position(|row| retry(row).is_some())?;
        retry(&self.attempts.remove(at))
    }

    /// The tasks of a scheduler whose attempts are to be stopped, `None`: all of them.
    pub(crate) fn stopped(&mut self, handle: Handle, seq: Option<Seq>) -> Vec<Seq> {
        let asks_to_stop = |row: &&AttemptRecord| {
            row.handle == handle
                && seq.is_none_or(|seq| row.seq == seq)
                && matches!(row.what, AttemptEvent::CancelRequested { .. })
        };
        let stopped = self.attempts.iter().copied().filter(asks_to_stop);
        let stopped: Vec<Seq> = stopped.map(|row| row.seq).collect();
        self.attempts.retain(|row| !asks_to_stop(row));
        stopped
    }

    pub(crate) fn take_attempts(&mut self) -> Vec<&'a AttemptRecord> {
        std::mem::take(&mut self.attempts)
    }

    /// No call is accepted that nobody made.
    pub(crate) fn nothing_is_left(&self) {
        let pause = self.pauses.first();
        assert_eq!(pause, None, "nobody asked for a pause that is on record");
        if let Some(row) = self.submissions.first() {
            let DoneNo(done_no) = row.done_no;
            panic!(
                "{}/{} is accepted, after event {done_no}, and nobody submitted it",
                row.handle, row.first_seq.0
            );
        }
    }
}

#[test]
fn who_is_stopped_in_doubt_and_lost_was_not_cancelled_while_it_waited() {
    use rallypoint::core::{Attempt, CompletionRecord, ShardId, Time};
    let handle = Handle::new(ShardId(0), 1, [1; 10]);
    let done = Done {
        first: Seq(1),
        count: 1,
        order: None,
        retry_of: None,
        outcome: Outcome::Cancelled,
        attempt: Attempt(1),
        started: None,
        ended: Time(2),
        slot: 0,
        backend_pid: 0,
        diagnostics: Default::default(),
        error: None,
        result: None,
    };
    let mut records = Records::default();
    records
        .completions
        .push(std::sync::Arc::new(CompletionRecord {
            handle,
            first_done_no: DoneNo(1),
            done: vec![done],
        }));
    assert!(Rows::new(&records).cancels(handle, Seq(1)));
    records.attempts.push(AttemptRecord {
        handle,
        seq: Seq(1),
        attempt: Attempt(1),
        what: AttemptEvent::CancelRequested { why: None },
        at: Time(1),
        ran: None,
    });
    assert!(!Rows::new(&records).cancels(handle, Seq(1)));
}
