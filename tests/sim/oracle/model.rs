//! What the oracle knows of one scheduler: plain vectors and linear scans, told by the callers'
//! commands, the executors' reports and the time. It never looks at an image that the core has
//! made.

use rallypoint::core::{
    Delivery, Done, Halt, Handle, Namespace, OnFailure, Outcome, ReleaseMode, Request,
    SchedulerState, Seq, Settings, Spec, Time,
};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    pub handle: Handle,
    pub namespace: Namespace,
    pub request: Option<Request>,
    pub settings: Settings,
    pub state: SchedulerState,
    pub release_mode: Option<ReleaseMode>,
    pub paused: bool,
    pub halt: Option<Halt>,
    /// Failed tasks that a halt names.
    pub halt_names: usize,
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
            task.ended = Some(done.outcome);
            task.running = None;
        }
        self.done_no += i64::from(done.count);
        let failed = [Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted];
        if let (true, Some(order)) = (failed.contains(&done.outcome), order) {
            self.apply_failure_rule(order, done);
        }
        self.close_if_ended();
    }

    /// CONTINUE does nothing, HALT blocks the later orders, CANCEL_REST cancels them. After a
    /// release with FINISH what a halt blocks is cancelled.
    fn apply_failure_rule(&mut self, order: i64, done: &Done) {
        match self.settings.on_failure {
            OnFailure::Continue => {}
            OnFailure::CancelRest => self.cancel_above(Some(order)),
            OnFailure::Halt => {
                let halt = self.halt.get_or_insert_with(|| Halt {
                    order: rallypoint::core::Order(order),
                    failed: Vec::new(),
                });
                halt.order.0 = halt.order.0.min(order);
                for at in 0..done.count {
                    if halt.failed.len() < self.halt_names {
                        halt.failed.push(done.first.plus(at));
                    }
                }
                if self.release_mode == Some(ReleaseMode::Finish) {
                    self.cancel_above(Some(order));
                }
            }
        }
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
