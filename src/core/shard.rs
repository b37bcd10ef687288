//! The state of one shard and its only interface: a command and the time in, records and actions
//! out.
//!
//! `apply` decides one command. `settle` does what waits for no command: due timers, one slice of
//! each incremental effect, and handing out free slots; the loop calls it before it seals a batch.

pub(crate) mod cancel_tasks;
pub(crate) mod checkpoints;
pub(crate) mod complete;
pub(crate) mod digest;
pub(crate) mod dispatch;
pub(crate) mod early;
pub(crate) mod explain;
pub(crate) mod finish;
pub(crate) mod idempotency;
pub(crate) mod in_doubt;
pub(crate) mod incremental;
pub(crate) mod interning;
pub(crate) mod job_runs;
pub(crate) mod lifecycle;
pub(crate) mod listing;
pub(crate) mod lookahead;
pub(crate) mod open_scheduler;
pub(crate) mod recovered;
pub(crate) mod report_verdict;
pub(crate) mod restore;
pub(crate) mod retry_task;
pub(crate) mod scheduler_names;
pub(crate) mod schedulers;
pub(crate) mod snapshot;
pub(crate) mod streams;
pub(crate) mod submit;
pub(crate) mod target_pauses;
pub(crate) mod task_resources;
pub(crate) mod timers;
pub(crate) mod totals;
pub(crate) mod traces;

use super::{
    Action, Caller, Command, Handle, Namespace, Output, Progress, Reject, Reply, RequestMemory,
    SchedulerState, Seq, Ticket, Time, Turn, Verb,
    fairness::{
        fair_share::Fair,
        quota::{Over, Quotas},
    },
    jobs::Jobs,
    model::limits::Limits,
    resources::Resources,
};
use checkpoints::Checkpoints;
use idempotency::{AcceptedCalls, Opened};
use in_doubt::InDoubt;
use incremental::Incremental;
use interning::Interner;
use lifecycle::Releaser;
use retry_task::LatestRetries;
use scheduler_names::SchedulerNames;
use schedulers::Schedulers;
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, VecDeque},
};
use target_pauses::TargetPauses;
use timers::Due;
use totals::Totals;

/// The state of one shard.
#[derive(Debug, Default)]
pub struct Shard {
    pub(crate) limits: Limits,
    pub(crate) schedulers: Schedulers,
    pub(crate) fair: Fair,
    pub(crate) quotas: Quotas,
    pub(crate) opened: Opened,
    pub(crate) names: SchedulerNames,
    /// For how long calls may be repeated.
    pub(crate) memory: RequestMemory,
    /// Calls that may be repeated.
    pub(crate) accepted: AcceptedCalls,
    pub(crate) retried: LatestRetries,
    /// What schedulers have in common.
    pub(crate) interner: Interner,
    /// Sums over all schedulers.
    pub(crate) totals: Totals,
    /// When to look at a scheduler.
    pub(crate) timers: BTreeSet<(Time, Due)>,
    /// Attempts just begun: those that still run after `Limits::long_attempt` get a row.
    pub(crate) young: VecDeque<(Time, Handle, Seq)>,
    /// Attempts that run for long: when to charge them again.
    pub(crate) charges: BinaryHeap<Reverse<(Time, Handle, Seq)>>,
    /// Schedulers with an incremental effect under way.
    pub(crate) incremental: Incremental,
    /// What may run and nobody has reported yet.
    pub(crate) in_doubt: InDoubt,
    /// Schedulers that are over and nobody watches, oldest first.
    pub(crate) ended: VecDeque<Handle>,
    /// Finished work that a recovery would read again.
    pub(crate) checkpoints: Checkpoints,
    /// Where nothing new starts.
    pub(crate) pauses: TargetPauses,
    /// Who holds what beside slots, and who waits for it.
    pub(crate) resources: Resources,
    /// What is due when.
    pub(crate) jobs: Jobs,
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
        let turn = &mut Turn::new(now, out);
        let reply = self.decide(turn, ticket, command);
        self.refresh();
        if let (Some(ticket), Some(reply)) = (ticket, reply) {
            turn.out.actions.push(Action::Reply(ticket, reply));
        }
    }

    fn decide(
        &mut self,
        turn: &mut Turn,
        ticket: Option<Ticket>,
        command: &Command,
    ) -> Option<Reply> {
        match command {
            Command::Call {
                caller,
                handle,
                verb,
            } => return Some(self.call(turn, caller, *handle, verb)),
            Command::Completed(completions) => {
                for completion in completions {
                    self.complete(turn, completion);
                }
            }
            Command::Slots { work, slots } => {
                let kind = self.fair.kind(work);
                self.fair.slots.announce(kind, *slots);
            }
            Command::Reported(running) => self.adopt(turn, running),
            // Answered when everything is judged.
            Command::Cleared {
                work, unreported, ..
            } => self.clear(work.as_ref(), *unreported, ticket),
            Command::StreamClosed(handle) => self.stream_closed(turn.now, *handle),
            Command::StreamsOpen(open) => self.streams_open(turn, open),
            Command::Status => return Some(Reply::Status(Box::new(self.status(turn.now)))),
            Command::Resource { caller, verb } => {
                let limits = self.limits;
                return self.resources.decide(turn, &limits, ticket, caller, verb);
            }
            Command::Job { caller, verb } => {
                let since = self.memory.since(turn.now);
                let (jobs, mut allowance) = self.jobs();
                return Some(jobs.decide(turn, &mut allowance, since, caller, verb));
            }
            Command::ChangePause(change) => return Some(self.change_pause(turn, change)),
            Command::Checkpoint(handles) => {
                for handle in handles {
                    self.checkpoint(turn, *handle);
                }
                return Some(Reply::Checkpointed);
            }
        }
        None
    }

    /// Does what waits for no command: due timers, a slice of each incremental effect, free slots
    /// for those whose turn it is, and checkpoints that bound a recovery.
    pub fn settle(&mut self, now: Time, out: &mut Output) {
        let turn = &mut Turn::new(now, out);
        self.forget_ended(turn);
        let remembered_since = self.memory.since(now);
        self.end_orphans(turn);
        self.resources.settle(turn, &self.limits, remembered_since);
        self.run_timers(turn);
        self.run_jobs(turn);
        self.refresh();
        self.run_slices(turn);
        self.refresh();
        self.dispatch(turn);
        while self.resources.wake_more() {
            self.refresh();
            self.dispatch(turn);
        }
        self.keep_for_passed();
        self.resources.tell_followers(turn, &self.limits);
        // A run that has ended may let the next one begin, which must be opened with this batch.
        self.carry_out(turn);
        self.jobs.end_batch();
        self.write_checkpoints(turn);
        self.refresh();
    }

    /// In place of `settle`, for a batch of one command alone: what that has decided of runs of
    /// jobs becomes durable with the batch.
    pub fn carry_out_jobs(&mut self, now: Time, out: &mut Output) {
        self.carry_out(&mut Turn::new(now, out));
        self.jobs.end_batch();
        self.refresh();
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
            .min(self.next_slice())
            .min(self.checkpoints.next_quiesce(&self.limits))
            .min(self.resources.next_due())
            .min(self.jobs.next_due())
    }

    /// When `settle` may next start or end something without a command. Slot time that is charged
    /// to what runs is left out: it is charged with the next change just as well.
    pub fn next_change(&self) -> Time {
        let timer = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
        timer.min(self.next_slice()).min(self.resources.next_due())
    }

    /// Until when `settle` may wait without keeping a task or a run from its time. What else it
    /// does may come a little later: rows of attempts that have lasted, slot time to be charged,
    /// and checkpoints.
    pub fn next_settling(&self) -> Time {
        self.next_change().min(self.jobs.next_due())
    }

    /// Whether callers cannot reach the service: while they cannot, no claim ends for want of a
    /// renewal.
    pub fn set_outage(&mut self, now: Time, in_outage: bool) {
        self.resources.set_outage(now, in_outage);
        self.jobs.set_outage(now, in_outage);
    }

    /// By how many microseconds the time of the service leads that which has passed since any
    /// moment. Leases of claims count by the latter.
    pub fn set_lead(&mut self, lead: i64) {
        self.resources.set_lead(lead);
        self.jobs.set_lead(lead);
    }

    /// Callers could not reach the service for a while: every open claim has a whole lease.
    pub fn renew_claims(&mut self, now: Time) {
        self.resources.renew_all(now);
        self.jobs.renew_claims(now);
    }

    /// What streams need to know of a scheduler; `None`: it is not in memory (ended long ago).
    pub fn progress(&self, handle: Handle) -> Option<Progress> {
        self.schedulers
            .get(handle)
            .map(|scheduler| scheduler.progress())
    }

    fn call(&mut self, turn: &mut Turn, caller: &Caller, handle: Handle, verb: &Verb) -> Reply {
        if let Verb::Open(open) = verb {
            let limits = self.limits;
            return self.open(turn, &limits, caller, handle, open);
        }
        if !self.owns(&caller.namespace, handle) {
            return self
                .answered_before(turn.now, caller, handle, verb)
                .unwrap_or(Reply::Rejected(Reject::UnknownHandle));
        }
        self.note_call();
        if !verb.is_read() {
            self.schedulers.expect_mut(handle).last_activity = turn.now;
        }
        let state = self.schedulers.expect(handle).image.state;
        if state == SchedulerState::Released && verb.changes_settings() {
            // As the journal answers when it has left memory.
            return Reply::Rejected(Reject::Released);
        }
        match verb {
            Verb::Open(_) => unreachable!("handled above"),
            Verb::Submit(submit) => {
                let limits = self.limits;
                self.submit(turn, &limits, caller, handle, submit)
            }
            Verb::Submitted(request) => self.submitted(turn.now, handle, *request),
            Verb::Watch {
                after,
                until,
                last_seq,
            } => self.watch(turn, handle, *after, *until, *last_seq),
            Verb::Release(mode) => self.release(turn, handle, *mode, Releaser::Caller),
            Verb::Update(update) => self.update(turn, handle, update),
            Verb::Pause => self.set_paused(turn, handle, true, false),
            Verb::Resume { ignore_failures } => {
                self.set_paused(turn, handle, false, *ignore_failures)
            }
            Verb::Cancel(cancel) => self.cancel(turn, caller, handle, cancel),
            Verb::Describe => Reply::Scheduler(Box::new(self.schedulers.expect_mut(handle).view())),
            Verb::Locate(places) => self.locate(handle, places),
            Verb::Explain(task) => self.explain(turn.now, handle, *task),
            Verb::Snapshot(tasks) => self.snapshot(turn.now, handle, tasks),
            Verb::Select {
                before,
                phases,
                order,
                limit,
            } => self.select(handle, *before, phases, *order, *limit),
        }
    }

    /// The answer to a call that a limit of its namespace forbids.
    pub(crate) fn limit_reached(namespace: &Namespace, over: Over) -> Reply {
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
            .get(handle)
            .is_some_and(|scheduler| scheduler.image.namespace == *namespace)
    }

    /// Brings what is derived from the touched schedulers up to date: fair share, totals and
    /// timers.
    pub(crate) fn refresh(&mut self) {
        self.note_woken_lines();
        while let Some(scheduler) = self.schedulers.pop_touched() {
            self.incremental
                .follow_lanes(scheduler, &mut self.resources, self.limits.slice);
            let halt = scheduler.image.halt.as_ref().map(|halt| halt.order);
            scheduler.queue.track_above(halt);
            self.totals.update(scheduler);
            let wanted = scheduler.wanted();
            self.fair.list(&mut scheduler.share, &wanted);
            if scheduler.is_over() && !std::mem::replace(&mut scheduler.leaving, true) {
                self.ended.push_back(scheduler.handle());
            }
            let due = scheduler.next_due();
            // A later time than that of its timer is found out when that goes off; one that has
            // ended has nothing to find out.
            let ended = scheduler.image.state == SchedulerState::Released;
            if due < scheduler.wake || (ended && scheduler.wake != Time::NEVER) {
                let timer = Due::Scheduler(scheduler.handle());
                self.timers.remove(&(scheduler.wake, timer));
                scheduler.wake = due;
                if due != Time::NEVER {
                    self.timers.insert((due, timer));
                }
            }
        }
        self.fair.slots.free_unused();
    }

    /// Writes the scheduler's row with this batch.
    pub(crate) fn record(&mut self, turn: &mut Turn, handle: Handle) {
        let scheduler = self.schedulers.expect_mut(handle);
        let image = &scheduler.image;
        let mut image = turn
            .out
            .records
            .schedulers
            .get(&handle)
            .map_or_else(|| image.clone(), |older| image.after(older));
        let halt = image.halt.as_mut();
        if let Some(failures) = halt.and_then(|halt| halt.failures.as_mut()) {
            failures.until = scheduler.done_no;
        }
        turn.out.records.schedulers.insert(handle, image);
        turn.out.touched.insert(handle);
        turn.out.unwritten.hold(handle);
    }
}
