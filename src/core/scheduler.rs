//! One scheduler in memory: its row, its queue, what it runs, and the numbers it gives.

pub(crate) mod body_sizes;
pub(crate) mod queue;
pub(crate) mod unfinished;

use super::{
    Attempt, CancelRest, Checkpoint, Counts, DoneNo, Handle, Order, Progress, ReleaseMode,
    SchedulerImage, SchedulerState, SchedulerView, Seq, Time,
    fairness::fair_share::{FairShare, KindId},
    shard::totals,
};
use body_sizes::Sizes;
use queue::{Queue, Span, StartLimit};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unfinished::Unfinished;

#[derive(Debug)]
pub(crate) struct Scheduler {
    /// Without a checkpoint: that is made when it is written.
    pub image: SchedulerImage,
    pub highest_seq: Seq,
    pub done_no: DoneNo,
    pub unfinished: i64,
    pub queue: Queue,
    /// Bytes of its unfinished tasks.
    pub sizes: Sizes,
    /// What runs, by the assignment's first task.
    pub in_flight: BTreeMap<Seq, InFlight>,
    pub running: u32,
    /// Attempts of tasks that have begun more than their first one.
    pub histories: FxHashMap<Seq, History>,
    /// Total deadlines of tasks that were submitted with one: first task → last task and order.
    pub deadlines: BTreeMap<(Time, Seq), (Seq, Option<Order>)>,
    pub share: FairShare,
    pub streams: u32,
    pub last_activity: Time,
    /// Its unfinished tasks.
    pub open: Unfinished,
    /// Finished work that a recovery would read again, in tasks.
    pub behind: u32,
    /// Its last checkpoint says so.
    pub resting: bool,
    /// It is in the shard's list of those that may come to rest.
    pub dozing: bool,
    /// Of the running ones, those that an earlier owner may have handed out: nobody has reported them yet.
    pub suspects: u32,
    /// When the shard looks at it again; `Time::NEVER`: no timer set.
    pub wake: Time,
    /// It waits for its part of a slice: more is to be done than fits into one batch.
    pub sliced: bool,
    /// It is among the ended ones.
    pub leaving: bool,
    /// Tasks whose deadline has passed are still to be ended: nothing starts before.
    pub overdue: bool,
    /// What of it is in the totals.
    pub in_totals: totals::Contribution,
}

/// An assignment that runs.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub span: Span,
    pub attempt: Attempt,
    pub since: Time,
    /// Slot time charged so far, microseconds per task.
    pub charged: i64,
    pub cancel: bool,
    /// It has a row in the journal.
    pub recorded: bool,
    /// Nobody knows whether it runs: it takes no slot.
    pub suspect: bool,
}

/// The attempts of one task so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    pub attempt: Attempt,
    pub failures: u32,
    pub losses: u32,
}

impl Scheduler {
    pub(crate) fn new(mut image: SchedulerImage, share: FairShare, now: Time) -> Self {
        let checkpoint = std::mem::replace(&mut image.checkpoint, Checkpoint::NONE);
        Scheduler {
            highest_seq: checkpoint.highest_seq,
            done_no: checkpoint.done_no,
            image,
            unfinished: 0,
            queue: Queue::default(),
            sizes: Sizes::default(),
            in_flight: BTreeMap::new(),
            running: 0,
            histories: FxHashMap::default(),
            deadlines: BTreeMap::new(),
            share,
            streams: 0,
            last_activity: now,
            open: Unfinished::default(),
            behind: 0,
            resting: checkpoint.resting,
            dozing: false,
            suspects: 0,
            wake: Time::NEVER,
            sliced: false,
            leaving: false,
            overdue: false,
            in_totals: totals::Contribution::default(),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.image.handle
    }

    /// Which orders may start tasks: none above a halt or a bulk cancellation under way.
    pub(crate) fn start_limit(&self) -> StartLimit {
        let halt = self.image.halt.as_ref().map(|halt| halt.order);
        match (self.image.cancel_rest, halt) {
            (Some(CancelRest { above: None, .. }), _) => StartLimit::Shut,
            (
                Some(CancelRest {
                    above: Some(above), ..
                }),
                halt,
            ) => StartLimit::UpTo(halt.map_or(above, |halt| halt.min(above))),
            (None, Some(halt)) => StartLimit::UpTo(halt),
            (None, None) => StartLimit::Open,
        }
    }

    /// How many more tasks it may start under its own limit.
    pub(crate) fn room(&self) -> u32 {
        if self.image.paused || self.overdue {
            return 0;
        }
        self.image
            .settings
            .max_parallelism
            .map_or(u32::MAX, |max| max.saturating_sub(self.running))
    }

    /// The kinds it could use a slot of.
    pub(crate) fn wanted(&self) -> Vec<KindId> {
        if self.room() == 0 {
            return Vec::new();
        }
        let mut kinds: Vec<KindId> = self.queue.ready_kinds(self.start_limit()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The running assignment that holds `seq`.
    pub(crate) fn in_flight_of(&self, seq: Seq) -> Option<(Seq, &InFlight)> {
        let (first, flight) = self.in_flight.range(..=seq).next_back()?;
        (seq <= flight.span.last()).then_some((*first, flight))
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
            pending: self.unfinished,
            blocked: self.blocked_by_halt(),
            halt: self.image.halt.clone(),
            released: self.image.state != SchedulerState::Open,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (running, queued) = (
            i64::from(self.running),
            self.queue.startable(self.start_limit()),
        );
        let retrying = self.queue.retrying();
        Counts {
            blocked: self.unfinished - running - queued - retrying,
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
                .map_or(0, |max| i64::from(self.running.saturating_sub(max))),
            image,
        }
    }

    /// Unfinished tasks up to `last_seq` that count for a goal: those of `order` or lower, or all.
    pub(crate) fn outstanding(&self, last_seq: Seq, order: Option<Order>) -> i64 {
        if last_seq >= self.highest_seq {
            return order.map_or(self.unfinished, |order| self.queue.unfinished_up_to(order));
        }
        let Some(order) = order else {
            return self
                .open
                .up_to(last_seq)
                .map(|(first, last)| last.0 - first.0 + 1)
                .sum();
        };
        let counts = |span: &Span| (last_seq.0 - span.first.0 + 1).clamp(0, i64::from(span.count));
        let running = self.in_flight.values().map(|flight| &flight.span);
        let running = running.filter(|span| span.order.is_some_and(|of| of <= order));
        self.queue
            .spans_up_to(order)
            .chain(running)
            .map(counts)
            .sum()
    }

    /// The state of now, for recovery to start from.
    pub(crate) fn checkpoint(&self, now: Time) -> Checkpoint {
        Checkpoint {
            highest_seq: self.highest_seq,
            done_no: self.done_no,
            unfinished: self.open.ranges(),
            first_day: self
                .open
                .first_day()
                .map_or(now.day(), |day| day.min(now.day())),
            resting: self.resting,
        }
    }

    /// Intends to cancel the waiting tasks above `above` submitted so far, besides what is already intended.
    pub(crate) fn intend_cancel(&mut self, above: Option<Order>) {
        let above = match self.image.cancel_rest {
            Some(CancelRest {
                above: Some(other), ..
            }) => above.map(|above| above.min(other)),
            Some(CancelRest { above: None, .. }) => None,
            None => above,
        };
        self.image.cancel_rest = Some(CancelRest {
            above,
            up_to: self.highest_seq,
        });
    }

    /// Notes the total deadline of new tasks.
    pub(crate) fn note_deadline(&mut self, span: &Span) {
        if let Some(deadline) = span.spec.options.deadline {
            self.deadlines.insert(
                (span.submitted_at + deadline, span.first),
                (span.last(), span.order),
            );
        }
    }

    /// Forgets the total deadline of tasks that have ended; of a call's tasks those in front.
    pub(crate) fn forget_deadline(&mut self, span: &Span) {
        let Some(deadline) = span.spec.options.deadline else {
            return;
        };
        let key = (span.submitted_at + deadline, span.first);
        if let Some((last, order)) = self.deadlines.remove(&key)
            && last > span.last()
        {
            self.deadlines.insert((key.0, span.end()), (last, order));
        }
    }

    /// Whether the deadline of a task has passed that waits, or did when it was noted.
    pub(crate) fn is_overdue(&self, now: Time) -> bool {
        self.deadlines
            .keys()
            .next()
            .is_some_and(|(at, _)| *at <= now)
    }

    /// When it is idle for too long: no call, no stream, nothing running or retrying (design 4).
    pub(crate) fn idle_at(&self) -> Time {
        let busy = self.streams > 0 || self.running > 0 || self.queue.retrying() > 0;
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
        if self.sliced {
            return delayed;
        }
        let deadline = self
            .deadlines
            .keys()
            .next()
            .map_or(Time::NEVER, |(at, _)| *at);
        delayed.min(deadline).min(self.idle_at())
    }

    /// The way it was released, or would be when abandoned.
    pub(crate) fn abandon_mode(&self) -> ReleaseMode {
        self.image.settings.on_abandon
    }
}
