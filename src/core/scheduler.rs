//! One scheduler in memory: its row, its queue, what it runs, and the numbers it gives.

pub(crate) mod body_sizes;
pub(crate) mod contribution;
pub(crate) mod deadlines;
pub(crate) mod halting;
pub(crate) mod in_flight;
pub(crate) mod ledger;
pub(crate) mod lines;
pub(crate) mod queue;
pub(crate) mod startable;
pub(crate) mod starts_and_ends;
pub(crate) mod unfinished;
mod waits;

use super::{
    CancelRest, Checkpoint, Counts, DoneNo, Handle, Order, Progress, ReleaseMode, RetryOf,
    SchedulerImage, SchedulerState, SchedulerView, Seq, Time,
    fairness::{fair_share::FairShare, slot_kinds::KindId},
};
use contribution::Contribution;
use in_flight::{Assignments, History};
use ledger::Ledger;
use lines::Lines;
use queue::{Queue, StartLimit, span::Span};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Scheduler {
    /// Without a checkpoint: that is made when it is written.
    pub image: SchedulerImage,
    pub highest_seq: Seq,
    pub done_no: DoneNo,
    /// Its unfinished tasks.
    pub ledger: Ledger,
    pub queue: Queue,
    /// Where its tasks wait for resources.
    pub lines: Lines,
    pub running: Assignments,
    /// Attempts of tasks that have begun more than their first one.
    pub histories: BTreeMap<Seq, History>,
    /// Unfinished tasks that are copies of others.
    pub copies: BTreeMap<Seq, RetryOf>,
    /// There may be retries up to this task that the shard does not remember.
    pub forgotten_retries: Seq,
    pub share: FairShare,
    pub streams: u32,
    pub last_activity: Time,
    /// Finished work since its checkpoint, which a recovery would read again, in tasks.
    pub uncovered: u32,
    /// Its last checkpoint says that nothing is unfinished and nothing came later.
    pub quiesced: bool,
    /// Since when it is in the shard's list of those that may be quiesced.
    pub listed_idle: Option<Time>,
    /// When the shard looks at it again; `Time::NEVER`: no timer set.
    pub wake: Time,
    /// When it did so last. What was due then and is still to be woken waits behind those of others
    /// that are as late.
    pub woken_at: Time,
    /// It is in the shard's set of touched schedulers.
    pub touched: bool,
    /// It waits for its part of a slice: more is to be done than fits into one batch.
    pub sliced: bool,
    /// It is among the ended ones.
    pub leaving: bool,
    /// Tasks whose deadline has passed are still to be ended: nothing starts before.
    pub overdue: bool,
    /// What of it is in the totals.
    pub in_totals: Contribution,
}

impl Scheduler {
    pub(crate) fn new(mut image: SchedulerImage, share: FairShare, now: Time) -> Self {
        let checkpoint = std::mem::replace(&mut image.checkpoint, Checkpoint::NONE);
        let mut queue = Queue::default();
        if let Some(CancelRest { above, up_to }) = image.cancel_rest {
            queue.cancel(above, up_to);
        }
        Scheduler {
            highest_seq: checkpoint.highest_seq,
            done_no: checkpoint.done_no,
            image,
            ledger: Ledger::default(),
            queue,
            lines: Lines::default(),
            running: Assignments::default(),
            histories: BTreeMap::new(),
            copies: BTreeMap::new(),
            forgotten_retries: checkpoint.highest_seq,
            share,
            streams: 0,
            last_activity: now,
            uncovered: 0,
            quiesced: checkpoint.quiesced,
            listed_idle: None,
            wake: Time::NEVER,
            woken_at: Time(0),
            touched: false,
            sliced: false,
            leaving: false,
            overdue: false,
            in_totals: Contribution::default(),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.image.handle
    }

    /// Which orders may start tasks now: as the barriers say, and none while it is paused.
    pub(crate) fn start_limit(&self) -> StartLimit {
        self.pause().min(self.barrier())
    }

    /// Which orders may have started tasks: none above a halt or an incremental cancellation under
    /// way.
    pub(crate) fn barrier(&self) -> StartLimit {
        self.cancellation().min(self.halt())
    }

    /// Which orders a pause lets start tasks.
    pub(crate) fn pause(&self) -> StartLimit {
        match self.image.paused {
            true => StartLimit::Shut,
            false => StartLimit::Open,
        }
    }

    /// Which orders a halt lets start tasks.
    pub(crate) fn halt(&self) -> StartLimit {
        let halt = self.image.halt.as_ref();
        halt.map_or(StartLimit::Open, |halt| StartLimit::UpTo(halt.order))
    }

    /// Which orders an incremental cancellation under way lets start tasks.
    pub(crate) fn cancellation(&self) -> StartLimit {
        match self.image.cancel_rest {
            None => StartLimit::Open,
            Some(rest) => rest.above.map_or(StartLimit::Shut, StartLimit::UpTo),
        }
    }

    /// How many more tasks it may start now.
    pub(crate) fn capacity(&self) -> u32 {
        if self.overdue { 0 } else { self.room() }
    }

    /// How many more tasks may run under its own limit.
    pub(crate) fn room(&self) -> u32 {
        self.image
            .settings
            .max_parallelism
            .map_or(u32::MAX, |max| max.saturating_sub(self.running.tasks))
    }

    /// The kinds it could use a slot of.
    pub(crate) fn wanted(&self) -> Vec<KindId> {
        if self.capacity() == 0 {
            return Vec::new();
        }
        let plain = self.queue.ready_kinds(self.start_limit());
        let mut kinds: Vec<KindId> = plain.chain(self.lines.ready_kinds()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Unfinished tasks that its halt blocks.
    pub(crate) fn blocked_by_halt(&self) -> i64 {
        self.image
            .halt
            .as_ref()
            .map_or(0, |halt| self.queue.unfinished_above(halt.order))
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            done_no: self.done_no,
            pending: self.ledger.count,
            blocked: self.blocked_by_halt(),
            halt: self.image.halt.clone(),
            released: self.image.state != SchedulerState::Open,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (running, queued) = (
            i64::from(self.running.tasks),
            self.queue.startable(self.start_limit()),
        );
        let retrying = self.queue.retrying();
        Counts {
            blocked: self.ledger.count - running - queued - retrying,
            queued,
            running,
            retrying,
        }
    }

    pub(crate) fn view(&self) -> SchedulerView {
        let mut image = self.image.clone();
        image.checkpoint = Checkpoint {
            highest_seq: self.highest_seq,
            done_no: self.done_no,
            ..Checkpoint::NONE
        };
        SchedulerView {
            counts: self.counts(),
            current_order: self.queue.current_order(),
            surplus: image
                .settings
                .max_parallelism
                .map_or(0, |max| i64::from(self.running.tasks.saturating_sub(max))),
            image,
        }
    }

    /// Unfinished tasks up to `last_seq` that count for a goal: those of `order` or lower, or all.
    pub(crate) fn outstanding(&self, last_seq: Seq, order: Option<Order>) -> i64 {
        if last_seq >= self.highest_seq {
            return order.map_or(self.ledger.count, |order| {
                self.queue.unfinished_up_to(order)
            });
        }
        let Some(order) = order else {
            return self.ledger.up_to(last_seq);
        };
        // What came after the call that the goal is from is little, as a rule.
        let newer = |span: &Span| (span.last().0 - last_seq.0).clamp(0, i64::from(span.count));
        let running = self.running.among(last_seq.plus(1), Seq(i64::MAX));
        let running = running.map(|flight| &flight.span);
        let running = running.filter(|span| span.order.is_some_and(|of| of <= order));
        let waiting = self.queue.newer_spans(order, last_seq);
        let newer: i64 = waiting.chain(running).map(newer).sum();
        self.queue.unfinished_up_to(order) - newer
    }

    /// The state of now, for recovery to start from.
    pub(crate) fn checkpoint(&self, now: Time) -> Checkpoint {
        Checkpoint {
            highest_seq: self.highest_seq,
            done_no: self.done_no,
            unfinished: self.ledger.ranges.ranges(),
            first_day: self
                .ledger
                .ranges
                .first_day()
                .map_or(now.day(), |day| day.min(now.day())),
            quiesced: self.quiesced,
        }
    }

    /// Intends to cancel the waiting tasks above `above` submitted so far, besides what is already
    /// intended.
    pub(crate) fn intend_cancel(&mut self, above: Option<Order>) {
        let above = match self.image.cancel_rest {
            Some(CancelRest {
                above: Some(other), ..
            }) => above.map(|above| above.min(other)),
            Some(CancelRest { above: None, .. }) => None,
            None => above,
        };
        let up_to = self.highest_seq;
        self.image.cancel_rest = Some(CancelRest { above, up_to });
        self.queue.cancel(above, up_to);
    }

    /// Whether a deadline of its tasks has passed.
    pub(crate) fn is_overdue(&self, now: Time) -> bool {
        self.ledger.deadlines.next() <= now
    }

    /// When it is idle for too long: no call, no stream, nothing running or retrying.
    pub(crate) fn idle_at(&self) -> Time {
        let busy = self.streams > 0 || self.running.tasks > 0 || self.queue.retrying() > 0;
        if busy || self.image.state != SchedulerState::Open {
            return Time::NEVER;
        }
        self.last_activity + self.image.settings.idle_timeout
    }

    /// It is over, and nobody watches it.
    pub(crate) fn is_over(&self) -> bool {
        self.image.state == SchedulerState::Released && self.streams == 0
    }

    /// When the shard must look at it again.
    pub(crate) fn next_due(&self) -> Time {
        let delayed = self.queue.next_delayed().unwrap_or(Time::NEVER);
        let due = if self.sliced {
            delayed
        } else {
            delayed
                .min(self.ledger.deadlines.next())
                .min(self.idle_at())
        };
        due.max(self.woken_at)
    }

    /// The way it was released, or would be when abandoned.
    pub(crate) fn abandon_mode(&self) -> ReleaseMode {
        self.image.settings.on_abandon
    }
}
