//! What the model journal holds of one scheduler: its rows as they were written, and the truth
//! about each task, against which everything that is released is judged.
//!
//! Rows are checked as they are written: numbers without a gap, one outcome per task, no key twice.

use rallypoint::core::{
    AttemptEvent, AttemptRecord, CompletionRecord, Delivery, Handle, Outcome, Request, RetryOf,
    SchedulerImage, SchedulerState, Seq, SubmissionRecord, Time,
};
use std::sync::Arc;

pub(crate) struct Tables {
    pub image: SchedulerImage,
    pub calls: Vec<Call>,
    pub completions: Vec<Arc<CompletionRecord>>,
    pub attempts: Vec<AttemptRecord>,
    /// By number, from 1.
    pub tasks: Vec<Task>,
    pub done_no: i64,
    /// Unfinished tasks by order.
    pub open_orders: Vec<(i64, i64)>,
}

/// An accepted call. Calls of one batch share a row.
pub(crate) struct Call {
    pub record: SubmissionRecord,
    pub count: u32,
    pub row: i64,
}

/// The truth about a task.
pub(crate) struct Task {
    pub order: Option<i64>,
    pub at_most_once: bool,
    pub exactly_once: bool,
    pub ended: Option<(Outcome, i64)>,
    pub retry_of: Option<RetryOf>,
    pub retried: bool,
    /// Highest attempt handed to an executor.
    pub attempt: i32,
    /// That one never began.
    pub never_began: bool,
    /// Attempts that began.
    pub begun: u32,
}

impl Tables {
    pub(crate) fn new(image: SchedulerImage) -> Self {
        let (calls, completions, attempts, tasks, open_orders) = Default::default();
        Tables {
            image,
            calls,
            completions,
            attempts,
            tasks,
            done_no: 0,
            open_orders,
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.image.handle
    }

    pub(crate) fn highest(&self) -> i64 {
        self.tasks.len() as i64
    }

    pub(crate) fn unfinished(&self) -> i64 {
        self.highest() - self.done_no
    }

    pub(crate) fn ended(&self) -> bool {
        self.image.state == SchedulerState::Released
    }

    pub(crate) fn task(&self, seq: Seq) -> &Task {
        let task = (seq.0 - 1)
            .try_into()
            .ok()
            .and_then(|at: usize| self.tasks.get(at));
        task.unwrap_or_else(|| panic!("task {}/{} is not in the journal", self.handle(), seq.0))
    }

    pub(crate) fn task_mut(&mut self, seq: Seq) -> &mut Task {
        let handle = self.handle();
        let task = (seq.0 - 1)
            .try_into()
            .ok()
            .and_then(|at: usize| self.tasks.get_mut(at));
        task.unwrap_or_else(|| panic!("task {handle}/{} is not in the journal", seq.0))
    }

    /// The lowest order with an unfinished task.
    pub(crate) fn current_order(&self) -> Option<i64> {
        self.open_orders.iter().map(|(order, _)| *order).min()
    }

    pub(crate) fn call_of(&self, request: Request) -> Option<&Call> {
        self.calls
            .iter()
            .find(|call| call.record.submit.request.is_some_and(|r| r == request))
    }

    pub(crate) fn submit(&mut self, record: SubmissionRecord, row: i64) {
        assert_eq!(
            record.first_seq.0,
            self.highest() + 1,
            "task numbers have a gap"
        );
        assert_eq!(
            self.image.state,
            SchedulerState::Open,
            "tasks accepted by a released scheduler"
        );
        for (run, (order, spec)) in record.submit.runs.iter().zip(&record.resolved) {
            let order = order.map(|order| order.0);
            // What does nothing may do so twice.
            let at_most_once =
                spec.options.delivery() == Delivery::AtMostOnce && spec.work.has_session();
            let exactly_once =
                spec.options.delivery() == Delivery::ExactlyOnce && spec.work.has_session();
            if let Some(order) = order {
                self.count_order(order, i64::from(run.count));
            }
            for _ in 0..run.count {
                self.tasks.push(Task {
                    order,
                    at_most_once,
                    exactly_once,
                    ended: None,
                    retry_of: None,
                    retried: false,
                    attempt: 0,
                    never_began: false,
                    begun: 0,
                });
            }
        }
        let retries = record.submit.retries.iter();
        let of: Vec<RetryOf> = retries.flat_map(|retries| retries.of.clone()).collect();
        for (seq, of) in (record.first_seq.0..).map(Seq).zip(of) {
            let ended = self.task(of.seq).ended.map(|(outcome, _)| outcome);
            assert!(
                ended.is_some_and(|outcome| outcome != Outcome::Succeeded),
                "{} is retried, and did not end in vain",
                of.seq.0
            );
            self.task_mut(seq).retry_of = Some(of);
        }
        let count = (self.highest() + 1 - record.first_seq.0) as u32;
        self.calls.push(Call { record, count, row });
    }

    pub(crate) fn complete(&mut self, record: Arc<CompletionRecord>) {
        assert_eq!(
            record.first_done_no.0,
            self.done_no + 1,
            "event numbers have a gap or are given twice"
        );
        for done in &record.done {
            for at in 0..done.count {
                self.done_no += 1;
                let (done_no, seq) = (self.done_no, done.first.plus(at));
                let handle = self.handle();
                let task = self.task_mut(seq);
                assert!(
                    task.ended.is_none(),
                    "task {handle}/{} has two outcomes",
                    seq.0
                );
                assert_eq!(
                    task.order,
                    done.order.map(|order| order.0),
                    "an event tells another order"
                );
                assert!(
                    done.outcome != Outcome::Succeeded || task.begun > 0,
                    "a task succeeded that never began"
                );
                assert_eq!(
                    task.retry_of.map(|of| of.seq),
                    done.retry_of,
                    "an event tells of which task its own is a copy"
                );
                task.ended = Some((done.outcome, done_no));
                if let Some(order) = task.order {
                    self.count_order(order, -1);
                }
            }
        }
        self.completions.push(record);
    }

    pub(crate) fn attempt(&mut self, record: AttemptRecord) {
        let same = |other: &AttemptRecord| {
            other.seq == record.seq
                && other.attempt == record.attempt
                && other.what.number() == record.what.number()
        };
        assert!(
            !self.attempts.iter().any(same),
            "the key of an attempt is given twice: {record:?}"
        );
        if let AttemptEvent::Retried { .. } = record.what {
            self.task_mut(record.seq).retried = true;
        }
        self.attempts.push(record);
    }

    /// How many calls with a request were accepted since.
    pub(crate) fn calls_since(&self, since: Time) -> impl Iterator<Item = &Call> {
        let at = self
            .calls
            .partition_point(|call| call.record.submitted_at < since);
        self.calls[at..]
            .iter()
            .filter(|call| call.record.submit.request.is_some())
    }

    fn count_order(&mut self, order: i64, delta: i64) {
        match self.open_orders.iter().position(|(o, _)| *o == order) {
            Some(at) => {
                self.open_orders[at].1 += delta;
                if self.open_orders[at].1 == 0 {
                    self.open_orders.swap_remove(at);
                }
            }
            None => self.open_orders.push((order, delta)),
        }
    }
}
