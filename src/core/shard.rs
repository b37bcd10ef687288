//! The state of one shard and its one door: a command and the time in, records and actions out.
//!
//! `apply` decides one command. `settle` does what waits for no command: due timers, one slice of each bulk effect, and
//! handing out free slots; the loop calls it before it seals a batch.

pub(crate) mod checkpoints;
pub(crate) mod complete;
pub(crate) mod digest;
pub(crate) mod dispatch;
pub(crate) mod finish;
pub(crate) mod idempotency;
pub(crate) mod in_doubt;
pub(crate) mod incremental;
pub(crate) mod interning;
pub(crate) mod lifecycle;
pub(crate) mod listing;
pub(crate) mod lookahead;
pub(crate) mod recovered;
pub(crate) mod restore;
pub(crate) mod submit;
pub(crate) mod timers;
pub(crate) mod totals;
pub(crate) mod watch;

use super::{
    Action, Caller, Command, Handle, Namespace, Output, Progress, Reject, Reply, Seq, Ticket, Time,
    Verb,
    fairness::{
        fair_share::Fair,
        quota::{Over, Quotas},
    },
    model::limits::Limits,
    scheduler::Scheduler,
};
use checkpoints::Checkpoints;
use idempotency::{AcceptedCalls, Opened};
use incremental::Incremental;
use interning::Interner;
use rustc_hash::FxHashMap;
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, VecDeque},
};
use totals::Totals;

/// The state of one shard.
#[derive(Debug, Default)]
pub struct Shard {
    pub(crate) limits: Limits,
    /// Boxed: a table of large values doubles at a high price.
    pub(crate) schedulers: FxHashMap<Handle, Box<Scheduler>>,
    pub(crate) fair: Fair,
    pub(crate) quotas: Quotas,
    pub(crate) opened: Opened,
    /// Calls that may be repeated.
    pub(crate) accepted: AcceptedCalls,
    /// What schedulers have in common.
    pub(crate) interner: Interner,
    /// Sums over all schedulers.
    pub(crate) totals: Totals,
    /// When to look at a scheduler.
    pub(crate) timers: BTreeSet<(Time, Handle)>,
    /// Attempts just begun: those that still run after `Limits::long_attempt` get a row.
    pub(crate) young: VecDeque<(Time, Handle, Seq)>,
    /// Attempts that run for long: when to charge them again.
    pub(crate) charges: BinaryHeap<Reverse<(Time, Handle, Seq)>>,
    /// Schedulers with a bulk effect under way.
    pub(crate) incremental: Incremental,
    /// Schedulers that are over and nobody watches, oldest first.
    pub(crate) ended: VecDeque<Handle>,
    /// Finished work that a recovery would read again.
    pub(crate) checkpoints: Checkpoints,
}

impl Shard {
    /// An empty shard.
    pub fn new(limits: Limits) -> Self {
        Shard {
            limits,
            ..Shard::default()
        }
    }

    /// Decides one command.
    pub fn apply(
        &mut self,
        now: Time,
        ticket: Option<Ticket>,
        command: &Command,
        out: &mut Output,
    ) {
        let reply = match command {
            Command::Call {
                caller,
                handle,
                verb,
            } => Some(self.call(now, caller, *handle, verb, out)),
            Command::Completed(completions) => {
                for completion in completions {
                    self.complete(now, completion, out);
                }
                None
            }
            Command::Slots { work, total } => {
                let kind = self.fair.kind(work);
                self.fair.set_total(kind, *total);
                None
            }
            Command::Reported(running) => {
                self.adopt(now, running, out);
                None
            }
            Command::Cleared { work, lost, .. } => {
                self.clear(now, work.as_ref(), *lost, out);
                Some(Reply::Cleared)
            }
            Command::StreamClosed(handle) => {
                self.stream_closed(now, *handle);
                None
            }
            Command::StreamsOpen(open) => {
                self.streams_open(open);
                None
            }
            Command::Status => Some(Reply::Status(Box::new(self.status()))),
            Command::Checkpoint(handles) => {
                handles
                    .iter()
                    .for_each(|handle| self.checkpoint(now, *handle, out));
                Some(Reply::Checkpointed)
            }
        };
        if let (Some(ticket), Some(reply)) = (ticket, reply) {
            out.actions.push(Action::Reply(ticket, reply));
        }
    }

    /// Does what waits for no command: due timers, a slice of each bulk effect, free slots for those whose turn it is, and
    /// checkpoints that bound a recovery.
    pub fn settle(&mut self, now: Time, out: &mut Output) {
        self.forget_ended(out);
        self.run_timers(now, out);
        self.run_slices(now, out);
        self.dispatch(now, out);
        self.keep_up(now, out);
    }

    /// When `settle` has something to do even without a command.
    pub fn next_due(&self) -> Time {
        let timer = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
        let charge = self
            .charges
            .peek()
            .map_or(Time::NEVER, |Reverse((at, ..))| *at);
        let young = self
            .young
            .front()
            .map_or(Time::NEVER, |(since, ..)| *since + self.limits.long_attempt);
        timer
            .min(charge)
            .min(young)
            .min(self.incremental.next_due())
            .min(self.checkpoints.next_rest(&self.limits))
    }

    /// What streams need to know of a scheduler; `None`: it is not in memory (ended long ago).
    pub fn progress(&self, handle: Handle) -> Option<Progress> {
        self.schedulers
            .get(&handle)
            .map(|scheduler| scheduler.progress())
    }

    fn call(
        &mut self,
        now: Time,
        caller: &Caller,
        handle: Handle,
        verb: &Verb,
        out: &mut Output,
    ) -> Reply {
        if let Verb::Open { settings, request } = verb {
            return self.open(now, caller, handle, settings, *request, out);
        }
        if !self.owns(&caller.namespace, handle) {
            return self
                .answered_before(caller, handle, verb)
                .unwrap_or(Reply::Rejected(Reject::UnknownHandle));
        }
        self.incremental.note_call();
        self.scheduler_mut(handle).last_activity = now;
        let reply = match verb {
            Verb::Open { .. } => unreachable!("handled above"),
            Verb::Submit(submit) => self.submit(now, handle, submit, out),
            Verb::Watch {
                after,
                until,
                last_seq,
            } => self.watch(handle, *after, *until, *last_seq, out),
            Verb::Release(mode) => self.release(now, handle, *mode, false, out),
            Verb::Update(update) => self.update(handle, update, out),
            Verb::Pause => self.set_paused(handle, true, false, out),
            Verb::Resume { ignore_failures } => {
                self.set_paused(handle, false, *ignore_failures, out)
            }
            Verb::Cancel(place) => self.cancel(now, handle, *place, out),
            Verb::Describe => Reply::Scheduler(Box::new(self.scheduler_mut(handle).view())),
            Verb::Locate(places) => self.locate(handle, places),
            Verb::Select {
                before,
                phase,
                order,
                limit,
            } => self.select(handle, *before, *phase, *order, *limit),
        };
        self.refresh(handle);
        reply
    }

    /// The answer to a call that a limit of its namespace forbids.
    pub(crate) fn over(namespace: &Namespace, over: Over) -> Reply {
        let Over { limit, value, wait } = over;
        Reply::Rejected(Reject::LimitReached {
            limit,
            namespace: namespace.clone(),
            value,
            wait,
        })
    }

    fn owns(&self, namespace: &Namespace, handle: Handle) -> bool {
        self.schedulers
            .get(&handle)
            .is_some_and(|scheduler| scheduler.image.namespace == *namespace)
    }

    /// The scheduler of `handle`, which the caller has made sure exists.
    pub(crate) fn scheduler_mut(&mut self, handle: Handle) -> &mut Scheduler {
        self.schedulers
            .get_mut(&handle)
            .expect("the scheduler is in memory")
    }

    /// Brings a scheduler's place in the fair share and its timer up to date after any change.
    pub(crate) fn refresh(&mut self, handle: Handle) {
        let Some(scheduler) = self.schedulers.get_mut(&handle) else {
            return;
        };
        scheduler
            .queue
            .keep_above(scheduler.image.halt.as_ref().map(|halt| halt.order));
        self.totals.update(scheduler);
        let wanted = scheduler.wanted();
        self.fair.list(&mut scheduler.share, &wanted);
        if scheduler.is_over() && !std::mem::replace(&mut scheduler.leaving, true) {
            self.ended.push_back(handle);
        }
        let due = scheduler.next_due();
        if due < scheduler.wake {
            self.timers.remove(&(scheduler.wake, handle));
            self.timers.insert((due, handle));
            scheduler.wake = due;
        }
    }

    /// Writes the scheduler's row with this batch.
    pub(crate) fn record(&mut self, handle: Handle, out: &mut Output) {
        let image = &self.scheduler_mut(handle).image;
        let image = out
            .records
            .schedulers
            .get(&handle)
            .map_or_else(|| image.clone(), |older| image.after(older));
        out.records.schedulers.insert(handle, image);
        out.touched.insert(handle);
    }
}
