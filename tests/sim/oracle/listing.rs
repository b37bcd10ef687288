//! Where tasks stand, why they do not run, and the lists of a phase.

use super::{Oracle, calls::order_of, expected::Expected, model::Scheduler};
use rallypoint::core::{Phase, Reject, Seq, Time, Verb};

impl Oracle {
    pub(super) fn select(&self, at: usize, verb: &Verb, between: (Time, Time)) -> Expected {
        let Verb::Select {
            before,
            phases,
            order,
            limit,
        } = verb
        else {
            return Expected::Unjudged;
        };
        let scheduler = &self.schedulers[at];
        let asked_for = |seq: &i64| {
            let of = order_of(scheduler.tasks[*seq as usize - 1].order);
            phases.contains(&Phase::Done) || order.is_none() || of == *order
        };
        let tasks = (1..=scheduler.highest()).rev().filter(asked_for);
        let tasks = tasks.map(|seq| (Seq(seq), self.phases(scheduler, Seq(seq), between)));
        Expected::Selected {
            before: *before,
            phases: phases.clone(),
            limit: *limit,
            tasks: tasks.collect(),
        }
    }

    pub(super) fn explain(&self, at: usize, seq: Seq, between: (Time, Time)) -> Expected {
        let scheduler = &self.schedulers[at];
        match scheduler.task(seq) {
            Some(_) => Expected::Explained(self.phases(scheduler, seq, between)),
            None => Expected::Rejected(Reject::UnknownTask),
        }
    }

    /// The phases in which a task may be: one, unless that depends on something nobody has told.
    pub(super) fn phases(
        &self,
        scheduler: &Scheduler,
        seq: Seq,
        (asked, decided): (Time, Time),
    ) -> Vec<Phase> {
        let Some(task) = scheduler.task(seq) else {
            return vec![Phase::Done];
        };
        if task.ended.is_some() {
            return vec![Phase::Done];
        }
        if task.surely_runs(self.core) {
            return vec![Phase::Running];
        }
        let mut phases = Vec::new();
        if self.may_run(task) {
            phases.push(Phase::Running);
        }
        // When a time has come is noted when the shard is settled next.
        let settled = self.settled_at.min(asked);
        let not_before = task.spec.options.not_before.unwrap_or_default();
        let (retries, delayed) = (task.next_at > settled, not_before > settled);
        if retries {
            phases.push(Phase::Retrying);
        }
        if delayed {
            phases.push(Phase::Blocked);
        }
        if task.ready_at() <= decided {
            let turn = task.order.is_none() || task.order == scheduler.current_order();
            let held_back = self.is_held_back(scheduler, task.order);
            match held_back {
                Some(true) => phases.push(Phase::Blocked),
                Some(false) if turn => phases.push(Phase::Queued),
                Some(false) => phases.push(Phase::Blocked),
                None => phases.extend([Phase::Blocked, Phase::Queued]),
            }
        }
        phases.dedup();
        phases
    }

    /// Whether a pause, a halt or an incremental cancellation keeps tasks of an order from
    /// starting; `None`: that depends on how far the cancellation has come.
    fn is_held_back(&self, scheduler: &Scheduler, order: Option<i64>) -> Option<bool> {
        if scheduler.paused || scheduler.is_halted(order) {
            return Some(true);
        }
        match scheduler.cancelling {
            Some((above, _)) if above.is_none_or(|above| order.is_some_and(|o| o > above)) => None,
            _ => Some(false),
        }
    }
}
