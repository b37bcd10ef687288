//! What of a shard must survive a crash: equal in the live shard as of the last durable batch and
//! in the one that `Shard::restore` builds from the journal. The simulator compares the two at
//! every crash of a lone owner that has no batch in flight.
//!
//! Tell both digests the same time, not before the time of the restore: what is due by then counts
//! as waiting for its turn in both.
//!
//! In, for each scheduler that is not over: its row (settings, state, release mode, pause, halt,
//! cancellation under way), highest task and event numbers, whether it is quiesced; its unfinished
//! tasks with order, spec, state and attempts, of which others they are copies, and the total
//! deadlines noted for them; the number of unfinished tasks by order and the oldest day of
//! submission. In, for the shard: quotas by namespace, sums over all schedulers, names of open
//! schedulers, pauses of targets, resources and claims (`core/resources/digest.rs`), jobs, and the
//! requests that are still remembered (the newest ones, as many as the limit says: one more may be
//! remembered until the next call).
//!
//! Out, because a recovery may change it: schedulers that are over (the journal answers for them)
//! and checkpoints; slots, virtual times and fair shares; timers, pauses between slices and what
//! waits for a slice; the latest retries (the journal knows all of them); streams, idle clocks and
//! the used part of a submit rate; how much finished work a recovery would read; submission times
//! within a day, which spans do not keep; attempts that run without a row in the journal, whose
//! tasks count as waiting; whether an attempt is in doubt; deadlines that have passed, whose tasks
//! are about to end; and `cancel_rest` of a scheduler released with CANCEL, which a recovery
//! intends anew.

use crate::core::{
    Attempt, DoneNo, Handle, JobsDigest, Namespace, Order, ReleaseMode, Request, ResourcesDigest,
    RetryOf, SchedulerImage, SchedulerState, Seq, Shard, Spec, TargetPause, Time,
    model::time::Day,
    scheduler::{Scheduler, queue::span::Span},
    shard::idempotency::Minute,
};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// Everything that a crash must not change. See the module for what is in it.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// Schedulers that are not over.
    pub schedulers: BTreeMap<Handle, SchedulerDigest>,
    /// Open schedulers, unfinished tasks and their bytes by namespace; none that holds nothing.
    pub quotas: BTreeMap<Namespace, (usize, i64, i64)>,
    /// Schedulers that are not over, and unfinished tasks, by the sums over all of them.
    pub totals: (i64, i64),
    /// GetScheduler calls that may be repeated, of schedulers that are not over.
    pub opened: BTreeMap<(Namespace, Uuid), Handle>,
    /// Open schedulers by name.
    pub names: BTreeMap<(Namespace, Arc<str>), Handle>,
    /// How many there are of those that are over, by the minute since 1970 they were opened in.
    pub opened_and_over: BTreeMap<i64, usize>,
    /// ExecAsync calls that may be repeated, by handle, first task and time.
    pub accepted: Vec<AcceptedDigest>,
    /// Pauses of targets.
    pub pauses: Vec<TargetPause>,
    /// Resources and claims.
    pub resources: ResourcesDigest,
    /// Jobs and their runs.
    pub jobs: JobsDigest,
}

/// A scheduler.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerDigest {
    /// Its row, without a checkpoint.
    pub image: SchedulerImage,
    /// Highest task number given.
    pub highest_seq: Seq,
    /// Highest event number given.
    pub done_no: DoneNo,
    /// It has no unfinished tasks and its last checkpoint says so.
    pub quiesced: bool,
    /// Its unfinished tasks as ranges.
    pub unfinished: Vec<(Seq, Seq)>,
    /// Day on which the oldest of them was submitted.
    pub first_day: Option<Day>,
    /// Those that are copies of others.
    pub copies: BTreeMap<Seq, RetryOf>,
    /// How many there are of each order.
    pub by_order: BTreeMap<Option<Order>, i64>,
    /// The same tasks as queue and running assignments know them, joined where they are alike.
    pub tasks: Vec<TaskDigest>,
    /// Total deadlines to come: first and last task, and the time.
    pub deadlines: Vec<(Seq, Seq, Time)>,
}

/// Consecutive unfinished tasks that are alike.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDigest {
    /// The first.
    pub first: Seq,
    /// The last.
    pub last: Seq,
    /// Their order.
    pub order: Option<Order>,
    /// Their work and options.
    pub spec: Arc<Spec>,
    /// What they wait for or do.
    pub state: StateDigest,
    /// The last attempt that the journal knows of.
    pub attempt: Attempt,
    /// Attempts that failed.
    pub failures: u32,
    /// Attempts that were lost.
    pub losses: u32,
}

/// What an unfinished task waits for or does, as far as the journal knows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateDigest {
    /// For its turn, or it runs without a row in the journal.
    Waiting,
    /// For its `not_before`.
    NotBefore(Time),
    /// For its next attempt.
    Retrying(Time),
    /// An attempt with a row in the journal has begun and not ended.
    Running {
        /// It was asked to stop.
        cancel: bool,
    },
}

/// An ExecAsync call that may be repeated.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedDigest {
    /// Its scheduler.
    pub handle: Handle,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its id and the hash of its payload.
    pub request: Request,
    /// The first task.
    pub first_seq: Seq,
    /// How many.
    pub count: u32,
    /// The last event before them.
    pub done_no: DoneNo,
    /// When it was accepted.
    pub at: Time,
}

impl Shard {
    /// What a crash must not change, as of `now`.
    #[doc(hidden)]
    pub fn digest(&self, now: Time) -> Digest {
        let since = self.memory.since(now);
        let names = self.fair.names();
        let name = |id| names[&id].clone();
        let quotas = names
            .iter()
            .map(|(id, name)| (name.clone(), self.quotas.digest(*id)))
            .filter(|(_, held)| *held != (0, 0, 0));
        let accepted = self
            .accepted
            .since(since, self.limits.requests)
            .map(|call| AcceptedDigest {
                handle: call.handle,
                namespace: name(call.namespace),
                request: call.request,
                first_seq: call.first_seq,
                count: call.count,
                done_no: call.done_no,
                at: call.at,
            });
        let mut accepted: Vec<_> = accepted.collect();
        accepted.sort_unstable_by_key(|call| (call.handle, call.first_seq, call.at));
        let (over, schedulers): (Vec<_>, Vec<_>) = self
            .schedulers
            .iter()
            .partition(|scheduler| scheduler.image.state == SchedulerState::Released);
        let opened = schedulers
            .iter()
            .filter(|scheduler| scheduler.image.opened_at >= since)
            .filter_map(|scheduler| {
                let request = scheduler.image.request?;
                let namespace = scheduler.share.namespace;
                let handle = self.opened.in_memory(namespace, request.id)?;
                Some(((name(namespace), request.id), handle))
            });
        let by_name = self.names.all();
        let by_name = by_name.map(|(of, held, handle)| ((name(of), held.clone()), handle));
        Digest {
            opened: opened.collect(),
            names: by_name.collect(),
            opened_and_over: self.opened_and_over(&over, since),
            schedulers: schedulers
                .iter()
                .map(|scheduler| (scheduler.handle(), scheduler.digest(now)))
                .collect(),
            quotas: quotas.collect(),
            totals: self.totals.digest(),
            accepted,
            pauses: self.pauses.all().cloned().collect(),
            resources: self.resources.digest(now),
            jobs: self.jobs.digest(),
        }
    }

    /// Of the minutes that lie after `since` as a whole.
    fn opened_and_over(&self, over: &[&Scheduler], since: Time) -> BTreeMap<i64, usize> {
        let in_memory = over
            .iter()
            .filter(|scheduler| scheduler.image.request.is_some())
            .map(|scheduler| (Minute::of(scheduler.image.opened_at), 1));
        let mut calls = BTreeMap::new();
        for (minute, count) in self.opened.left_by_minute().chain(in_memory) {
            if minute > Minute::of(since) {
                *calls.entry(minute.0).or_default() += count;
            }
        }
        calls
    }
}

impl Scheduler {
    fn digest(&self, now: Time) -> SchedulerDigest {
        let mut image = self.image.clone();
        if image.release_mode == Some(ReleaseMode::Cancel) {
            image.cancel_rest = None;
        }
        SchedulerDigest {
            image,
            highest_seq: self.highest_seq,
            done_no: self.done_no,
            quiesced: self.quiesced,
            unfinished: self.ledger.ranges.ranges(),
            first_day: self.ledger.ranges.first_day(),
            copies: self.copies.clone(),
            by_order: self.queue.unfinished_by_order(),
            tasks: self.task_digests(now),
            deadlines: self.deadline_digests(now),
        }
    }

    fn task_digests(&self, now: Time) -> Vec<TaskDigest> {
        let waiting = self
            .queue
            .spans()
            .map(|span| (span, StateDigest::Waiting, Attempt(0)));
        let delayed = self.queue.delayed().map(|(at, delayed)| {
            let state = match delayed.retry {
                _ if at <= now => StateDigest::Waiting,
                true => StateDigest::Retrying(at),
                false => StateDigest::NotBefore(at),
            };
            (&delayed.span, state, Attempt(0))
        });
        let running = self.running.by_first.values().map(|flight| {
            let cancel = flight.cancel.is_some();
            if flight.recorded || cancel {
                (
                    &flight.span,
                    StateDigest::Running { cancel },
                    flight.attempt,
                )
            } else {
                (&flight.span, StateDigest::Waiting, Attempt(0))
            }
        });
        let mut tasks: Vec<TaskDigest> = Vec::new();
        for (span, state, attempt) in waiting.chain(delayed).chain(running) {
            self.digest_span(span, state, attempt, &mut tasks);
        }
        tasks.sort_unstable_by_key(|task| task.first);
        tasks.dedup_by(|next, task| {
            let joins = task.last.plus(1) == next.first
                && TaskDigest {
                    first: task.first,
                    last: task.last,
                    ..next.clone()
                } == *task;
            if joins {
                task.last = next.last;
            }
            joins
        });
        tasks
    }

    /// Tasks that have a history one by one, the others together.
    fn digest_span(
        &self,
        span: &Span,
        state: StateDigest,
        attempt: Attempt,
        out: &mut Vec<TaskDigest>,
    ) {
        let whole = TaskDigest {
            first: span.first,
            last: span.last(),
            order: span.order,
            spec: span.spec.clone(),
            state,
            attempt,
            failures: 0,
            losses: 0,
        };
        if self.histories.is_empty() {
            return out.push(whole);
        }
        for seq in (span.first.0..=span.last().0).map(Seq) {
            let history = self.histories.get(&seq).copied().unwrap_or_default();
            out.push(TaskDigest {
                first: seq,
                last: seq,
                attempt: attempt.max(history.attempt),
                failures: history.failures,
                losses: history.losses,
                ..whole.clone()
            });
        }
    }

    /// The deadlines noted, joined where they are equal.
    fn deadline_digests(&self, now: Time) -> Vec<(Seq, Seq, Time)> {
        let mut deadlines: Vec<_> = self.ledger.deadlines.after(now).collect();
        deadlines.sort_unstable();
        deadlines.dedup_by(|next, one| {
            let joins = one.1.plus(1) == next.0 && one.2 == next.2;
            if joins {
                one.1 = next.1;
            }
            joins
        });
        deadlines
    }
}
