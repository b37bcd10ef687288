//! Why a task does not run: every rule that decides on starts is asked, and none is repeated here.
//!
//! Invariant: a waiting task has no blocker but those about slots exactly when it would be started
//! given a slot. Nothing here changes anything, and however much waits an answer costs little:
//! counting ends after `Limits::listing_steps` steps.

use crate::core::{
    Ahead, Blocker, CancelRest, Explanation, Handle, Order, Reject, Reply, ResourceBlocker, Seq,
    Shard, TaskRef, TaskState, Time,
    fairness::{fair_share::Fair, slot_kinds::KindId},
    scheduler::{
        Scheduler,
        queue::{StartLimit, span::Span},
    },
    shard::target_pauses::TargetPauses,
};

/// Tasks of a lower order that are named.
const TASKS_NAMED: usize = 10;

impl Shard {
    /// Why a task does not run; nothing when it has ended.
    pub(crate) fn explain(&mut self, now: Time, handle: Handle, task: TaskRef) -> Reply {
        let wanted = self.wanted_by(now, handle, task);
        let scheduler = self.schedulers.expect(handle);
        if task.seq.0 < 1 || task.seq > scheduler.highest_seq {
            return Reply::Rejected(Reject::UnknownTask);
        }
        let explanation = scheduler.state_of(task).and_then(|state| match state {
            TaskState::Running { .. } => scheduler.explain_running(task, state, &self.pauses),
            _ => scheduler.explain_waiting(now, task, state, self, wanted),
        });
        Reply::Explained(explanation.map(Box::new))
    }
}

impl Scheduler {
    fn explain_running(
        &self,
        task: TaskRef,
        state: TaskState,
        pauses: &TargetPauses,
    ) -> Option<Explanation> {
        let flight = self.running.holding(task.seq)?;
        let unknown = match (flight.in_doubt, flight.resolving) {
            (_, Some(_)) => Some(Blocker::Resolving),
            (true, None) => Some(Blocker::InDoubt),
            (false, None) => None,
        };
        Some(Explanation {
            task,
            work: flight.span.spec.work.clone(),
            state,
            attempt: flight.attempt,
            deadline: flight.span.deadline(),
            blockers: unknown.into_iter().collect(),
            ahead: None,
            stopping: pauses.is_to_stop(flight),
        })
    }

    fn explain_waiting(
        &self,
        now: Time,
        task: TaskRef,
        state: TaskState,
        shard: &Shard,
        wanted: Vec<ResourceBlocker>,
    ) -> Option<Explanation> {
        let steps = shard.limits.listing_steps;
        let span = match self.queue.delayed_of(task.seq) {
            Some((_, delayed)) => &delayed.span,
            None => self.queue.waiting_span(task.order, task.seq)?,
        };
        let (tasks, exact) = self
            .queue
            .ahead_of(span, task.seq, self.barrier(), steps / 2);
        let lower = |order: Order| self.queue.unfinished_up_to(Order(order.0 - 1));
        let mut blockers = self.barriers_of(span, task.seq, steps);
        blockers.extend(self.delay_of(now, task.seq));
        blockers.extend(self.deadlines_passed(now, span));
        // What comes before it does so only among those that may start.
        let before = if blockers.is_empty() { tasks } else { 0 };
        blockers.extend(self.limit_reached(before));
        let pauses = shard.pauses.of(&span.spec.work).cloned();
        blockers.extend(pauses.map(Blocker::TargetPaused));
        blockers.extend((!wanted.is_empty()).then_some(Blocker::Resources(wanted)));
        blockers.extend(self.want_of_slots(span.kind, &shard.fair, steps));
        Some(Explanation {
            task,
            work: span.spec.work.clone(),
            state,
            attempt: self.attempts_begun(task.seq),
            deadline: span.deadline(),
            blockers,
            ahead: Some(Ahead {
                tasks,
                exact,
                in_lower_orders: span.order.map_or(0, lower),
            }),
            stopping: false,
        })
    }

    /// What keeps its order from starting tasks.
    fn barriers_of(&self, span: &Span, seq: Seq, steps: usize) -> Vec<Blocker> {
        let shuts = |limit: StartLimit| !limit.lets_start(span.order);
        let mut barriers = Vec::new();
        if shuts(self.cancellation())
            && let Some(CancelRest { above, up_to }) = self.image.cancel_rest
        {
            barriers.push(Blocker::Cancellation {
                covered: seq <= up_to,
                above,
                release: self.image.release_mode,
            });
        }
        if shuts(self.pause()) {
            barriers.push(Blocker::Paused);
        }
        if shuts(self.halt()) {
            barriers.extend(self.image.halt.clone().map(Blocker::Halted));
        }
        let current = self.queue.current_order();
        if let (Some(order), Some(current)) = (span.order, current)
            && current < order
        {
            barriers.push(Blocker::LowerOrder {
                current,
                unfinished: self.queue.unfinished_of(current),
                tasks: self.some_unfinished(current, steps),
            });
        }
        barriers
    }

    /// Some unfinished tasks of an order: what runs, what could, what waits for a time.
    fn some_unfinished(&self, order: Order, steps: usize) -> Vec<Seq> {
        let of_order = |span: &&Span| span.order == Some(order);
        let running = self.running.by_first.values().take(steps);
        let running = running.map(|flight| &flight.span).filter(of_order);
        let delayed = self.queue.delayed().take(steps);
        let delayed = delayed.map(|(_, delayed)| &delayed.span).filter(of_order);
        let waiting = self.queue.first_spans_of(order, TASKS_NAMED);
        let spans = running.chain(waiting).chain(delayed);
        let tasks = spans.flat_map(|span| (0..span.count).map(|at| span.first.plus(at)));
        tasks.take(TASKS_NAMED).collect()
    }

    /// What a task has waited for, as far as it can be said without looking at others.
    pub(crate) fn reason_to_wait(&self, span: &Span, shard: &Shard) -> Option<&'static str> {
        let slots = &shard.fair.slots[span.kind];
        let barriers = self.barriers_of(span, span.first, 0);
        let barrier = barriers.first().and_then(|barrier| match barrier {
            Blocker::Paused => Some("its scheduler is paused"),
            Blocker::Halted(_) => Some("tasks of an order before it have failed"),
            Blocker::LowerOrder { .. } => Some("an order before it is not done"),
            _ => None,
        });
        let pause = shard.pauses.of(&span.spec.work).next();
        barrier.or(pause.map(|_| "its target is paused")).or(
            match (slots.counts.total, slots.announced) {
                (0, false) => Some("no executor has slots of its kind"),
                (0, true) => Some("its target is away"),
                _ => None,
            },
        )
    }

    /// The time that a task waits for.
    fn delay_of(&self, now: Time, seq: Seq) -> Option<Blocker> {
        let (at, delayed) = self.queue.delayed_of(seq).filter(|(at, _)| *at > now)?;
        if !delayed.retry {
            return Some(Blocker::NotBefore { at });
        }
        let history = self.histories.get(&seq).copied().unwrap_or_default();
        Some(Blocker::NextAttempt {
            at,
            failures: history.failures,
            losses: history.losses,
        })
    }

    fn deadlines_passed(&self, now: Time, span: &Span) -> Option<Blocker> {
        let own = span.deadline().is_some_and(|at| at <= now);
        (self.overdue || self.is_overdue(now)).then_some(Blocker::Overdue { own })
    }

    /// Its limit, when so many more tasks reach it.
    fn limit_reached(&self, before: i64) -> Option<Blocker> {
        let max = self.image.settings.max_parallelism?;
        (i64::from(self.room()) <= before).then_some(Blocker::Limit {
            max,
            running: self.running.tasks,
            in_doubt: self.running.in_doubt,
        })
    }

    /// Why there is no slot for it.
    fn want_of_slots(&self, kind: KindId, fair: &Fair, steps: usize) -> Vec<Blocker> {
        let slots = &fair.slots[kind];
        if fair.has_slot_for(&self.share, kind) {
            return Vec::new();
        }
        let missing = match (slots.counts.total, slots.announced) {
            (0, false) => Blocker::NoExecutor,
            (0, true) => Blocker::Away,
            (total, _) => Blocker::Slots {
                total,
                busy: slots.running(),
            },
        };
        let next = fair.place_of(&self.share, kind, steps);
        let others = next.filter(|share| share.namespaces + share.schedulers > 0);
        [missing]
            .into_iter()
            .chain(others.map(Blocker::Share))
            .collect()
    }
}
