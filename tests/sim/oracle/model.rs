//! What the oracle knows of one scheduler: plain vectors and linear scans, told by the callers'
//! commands, the executors' reports and the time. It never looks at an image that the core has
//! made.

use rallypoint::core::{
    Delivery, Done, DoneNo, Halt, HaltFailures, Handle, Namespace, OnFailure, Order, Outcome,
    ReleaseMode, Request, SchedulerState, Seq, Settings, Spec, Time,
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    pub handle: Handle,
    pub namespace: Namespace,
    pub name: Option<Arc<str>>,
    pub request: Option<Request>,
    pub settings: Settings,
    pub state: SchedulerState,
    pub release_mode: Option<ReleaseMode>,
    pub paused: bool,
    pub halt: Option<Halt>,
    /// Failed tasks that a halt names.
    pub halt_names: usize,
    /// The tasks whose failures the halt waits for, with their orders. Of one that was retried in
    /// vain, its retry.
    pub holding: BTreeMap<i64, i64>,
    /// Tasks up to this one were there when the present core was built.
    pub recovered: i64,
    /// Orders above this one, and tasks up to that one, are being cancelled.
    pub cancelling: Option<(Option<i64>, i64)>,
    /// By number, from 1.
    pub tasks: Vec<Task>,
    pub done_no: i64,
    /// A stream of it was asked for: how many the core counts is not certain any more.
    pub watched: bool,
    /// It was in use at this time at the earliest, and at that time at the latest.
    pub used: (Time, Time),
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub order: Option<i64>,
    pub spec: Arc<Spec>,
    pub submitted_at: Time,
    pub ended: Option<Outcome>,
    /// The task of which it is a copy.
    pub retry_of: Option<i64>,
    /// Its retry.
    pub retried_as: Option<i64>,
    pub failures: u32,
    pub losses: u32,
    /// Attempts up to this one have ended without an outcome.
    pub spent: i32,
    /// Its next attempt starts at this time at the earliest.
    pub next_at: Time,
    /// A caller has asked to stop its attempt.
    pub stopping: bool,
    /// It waited when an incremental cancellation began that covers it: it never starts.
    pub doomed: bool,
    pub running: Option<Running>,
}

/// An attempt that was handed out and not reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Running {
    /// The first task of its assignment.
    pub first: i64,
    pub attempt: i32,
    /// The core that handed it out.
    pub core: u64,
    /// It was handed out before its batch was durable: commands that were decided before that may
    /// become durable later.
    pub early: bool,
}

impl Scheduler {
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.ended.is_none())
    }

    pub(crate) fn task(&self, seq: Seq) -> Option<&Task> {
        self.tasks.get(usize::try_from(seq.0 - 1).ok()?)
    }

    pub(crate) fn task_mut(&mut self, seq: Seq) -> Option<&mut Task> {
        self.tasks.get_mut(usize::try_from(seq.0 - 1).ok()?)
    }

    pub(crate) fn highest(&self) -> i64 {
        self.tasks.len() as i64
    }

    /// The lowest order with unfinished tasks. Tasks that are being cancelled do not count, however
    /// far the cancellation has come; after a release nothing can be submitted, and they do.
    pub(crate) fn current_order(&self) -> Option<i64> {
        let released = self.release_mode == Some(ReleaseMode::Cancel);
        let counts = |task: &&Task| released || !task.doomed;
        let orders = self
            .unfinished()
            .filter(counts)
            .filter_map(|task| task.order);
        orders.min()
    }

    pub(crate) fn is_halted(&self, order: Option<i64>) -> bool {
        matches!((&self.halt, order), (Some(halt), Some(order)) if order > halt.order.0)
    }

    pub(crate) fn unfinished_above(&self, limit: i64) -> i64 {
        let above = |task: &&Task| task.order.is_some_and(|order| order > limit);
        self.unfinished().filter(above).count() as i64
    }

    /// Tasks that have ended alike: their numbers, and what their failure does to the others.
    pub(crate) fn end(&mut self, done: &Done) {
        let order = done.order.map(|order| order.0);
        for at in 0..done.count {
            let seq = done.first.plus(at);
            let name = format_args!("{}/{}", self.handle, seq.0);
            let task = self.tasks.get_mut(seq.0 as usize - 1);
            let task = task.unwrap_or_else(|| panic!("{name} ends and was never submitted"));
            assert!(task.ended.is_none(), "{name} ends twice");
            assert_eq!(task.order, order, "{name} ends in another order");
            let retry_of = done.retry_of.map(|of| of.0);
            assert_eq!(task.retry_of, retry_of, "{name} ends as a copy of another");
            task.ended = Some(done.outcome);
            task.running = None;
        }
        let first_event = DoneNo(self.done_no + 1);
        self.done_no += i64::from(done.count);
        if let Some(order) = order {
            match done.outcome {
                Outcome::Succeeded => self.make_good(done),
                Outcome::Failed | Outcome::TimedOut | Outcome::Exhausted => {
                    self.apply_failure_rule(order, first_event, done);
                }
                Outcome::Cancelled => {
                    for seq in (0..done.count).map(|at| done.first.0 + i64::from(at)) {
                        if let Some(before) = self.held_by(seq) {
                            self.replace(before, seq, order);
                        }
                    }
                }
            }
        }
        self.close_if_ended();
    }

    /// CONTINUE does nothing, HALT blocks the later orders, CANCEL_REST cancels them. After a
    /// release with FINISH what a halt blocks is cancelled.
    fn apply_failure_rule(&mut self, order: i64, event: DoneNo, done: &Done) {
        let seqs = (0..done.count).map(|at| done.first.0 + i64::from(at));
        match self.settings.on_failure {
            OnFailure::Continue | OnFailure::CancelRest => {
                let before: Vec<_> = seqs.map(|seq| (seq, self.held_by(seq))).collect();
                let mut counted = 0;
                for (seq, before) in before {
                    let Some(before) = before else { continue };
                    self.replace(before, seq, order);
                    counted += 1;
                }
                if let Some(halt) = self.halt.as_mut().filter(|_| counted < done.count as usize) {
                    halt.failures = None;
                    self.holding.clear();
                }
                if self.settings.on_failure == OnFailure::CancelRest {
                    self.cancel_above(Some(order));
                }
            }
            OnFailure::Halt => {
                for seq in seqs {
                    self.halted_by(seq, order, event);
                }
                if self.release_mode == Some(ReleaseMode::Finish) {
                    self.cancel_above(Some(order));
                }
            }
        }
    }

    /// A task failed. A retry takes the place of the task it was to make good.
    fn halted_by(&mut self, seq: i64, order: i64, event: DoneNo) {
        let before = self.held_by(seq);
        let names = self.halt_names;
        let halt = self.halt.get_or_insert_with(|| Halt {
            order: Order(order),
            failed: Vec::new(),
            failures: Some(Box::new(HaltFailures {
                since: event,
                ..HaltFailures::default()
            })),
        });
        halt.order.0 = halt.order.0.min(order);
        match before {
            Some(before) => return self.replace(before, seq, order),
            None if halt.failed.len() < names => halt.failed.push(Seq(seq)),
            None => {}
        }
        if halt.failures.is_some() {
            self.holding.insert(seq, order);
        }
        self.count_failures();
    }

    /// A retry failed, or was cancelled: the halt waits for it in the place of an earlier task.
    fn replace(&mut self, before: i64, seq: i64, order: i64) {
        self.holding.remove(&before);
        self.holding.insert(seq, order);
        let named = self.halt.iter_mut().flat_map(|halt| &mut halt.failed);
        let named = named.filter(|named| named.0 == before);
        named.for_each(|named| named.0 = seq);
        self.count_failures();
    }

    /// Retries succeeded: a halt waits no more for what they were to make good, and is lifted by
    /// the last one.
    fn make_good(&mut self, done: &Done) {
        for seq in (0..done.count).map(|at| done.first.0 + i64::from(at)) {
            let Some(before) = self.held_by(seq) else {
                continue;
            };
            self.holding.remove(&before);
            if self.holding.is_empty() {
                self.halt = None;
            } else if let Some(halt) = &mut self.halt {
                halt.failed.retain(|named| named.0 != before);
            }
            self.count_failures();
        }
    }

    fn count_failures(&mut self) {
        let Some(halt) = &mut self.halt else { return };
        let Some(failures) = &mut halt.failures else {
            return;
        };
        failures.by_order.clear();
        for order in self.holding.values() {
            *failures.by_order.entry(Order(*order)).or_default() += 1;
        }
        if let Some(lowest) = self.holding.values().min() {
            halt.order.0 = *lowest;
        }
    }

    /// The task for which the halt waits and which this one is to make good: the one it repeats, or
    /// what a cancelled retry before it repeated.
    fn held_by(&self, seq: i64) -> Option<i64> {
        let mut of = self.tasks[seq as usize - 1].retry_of?;
        loop {
            if self.holding.contains_key(&of) {
                return Some(of);
            }
            let task = &self.tasks[of as usize - 1];
            let in_vain = task.ended == Some(Outcome::Cancelled) || task.order.is_none();
            of = task.retry_of.filter(|_| in_vain)?;
        }
    }

    pub(crate) fn lift_halt(&mut self) {
        self.halt = None;
        self.holding.clear();
    }

    /// Everything submitted so far above this order (`None`: everything) is to be cancelled. A
    /// cancellation that is under way is widened.
    pub(crate) fn cancel_above(&mut self, above: Option<i64>) {
        let is_above = |order: Option<i64>, above: Option<i64>| {
            above.is_none_or(|above| order.is_some_and(|order| order > above))
        };
        for task in self.tasks.iter_mut().filter(|task| task.ended.is_none()) {
            task.doomed |= task.running.is_none() && is_above(task.order, above);
        }
        let above = match self.cancelling {
            Some((Some(other), _)) => above.map(|above| above.min(other)),
            Some((None, _)) => None,
            None => above,
        };
        self.cancelling = Some((above, self.highest()));
    }

    /// Whether an incremental cancellation may end this task.
    pub(crate) fn may_be_cancelled(&self, seq: Seq) -> bool {
        let Some(task) = self.task(seq) else {
            return false;
        };
        let covered = self.cancelling.is_some_and(|(above, up_to)| {
            let above = above.is_none_or(|above| task.order.is_some_and(|order| order > above));
            seq.0 <= up_to && above
        });
        task.doomed || covered
    }

    pub(crate) fn close_if_ended(&mut self) {
        if self.state == SchedulerState::Releasing && self.unfinished().next().is_none() {
            self.state = SchedulerState::Released;
        }
    }
}

impl Task {
    pub(crate) fn new(order: Option<i64>, spec: &Arc<Spec>, submitted_at: Time) -> Self {
        Task {
            order,
            spec: spec.clone(),
            submitted_at,
            ended: None,
            retry_of: None,
            retried_as: None,
            failures: 0,
            losses: 0,
            spent: 0,
            next_at: Time(0),
            stopping: false,
            doomed: false,
            running: None,
        }
    }

    pub(crate) fn at_most_once(&self) -> bool {
        self.spec.options.delivery == Some(Delivery::AtMostOnce)
    }

    pub(crate) fn deadline(&self) -> Time {
        let deadline = self.spec.options.deadline;
        deadline.map_or(Time::NEVER, |deadline| self.submitted_at + deadline)
    }

    /// It starts at this time at the earliest.
    pub(crate) fn ready_at(&self) -> Time {
        let not_before = self.spec.options.not_before.unwrap_or_default();
        self.next_at.max(not_before)
    }

    /// Whether `core` has handed it out and not heard of its end, whatever is decided.
    pub(crate) fn surely_runs(&self, core: u64) -> bool {
        self.was_given_by(core) && self.running.is_some_and(|running| !running.early)
    }

    /// Whether `core` has handed it out and not heard of its end.
    pub(crate) fn was_given_by(&self, core: u64) -> bool {
        self.running.is_some_and(|running| running.core == core)
    }
}
