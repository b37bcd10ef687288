//! The rules of orders, failure and release, the slow and obvious way.

use crate::core::{LateOrder, OnFailure, Outcome, ReleaseMode};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    Running { cancel: bool },
    Ended(Outcome),
}

#[derive(Clone)]
pub(super) struct Task {
    pub(super) order: Option<i64>,
    pub(super) state: State,
}

/// The rules, the slow way.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) on_failure: OnFailure,
    pub(super) late: LateOrder,
    pub(super) tasks: Vec<Task>,
    pub(super) limit: Option<u32>,
    pub(super) slots: u32,
    pub(super) paused: bool,
    pub(super) halt: Option<i64>,
    pub(super) released: Option<ReleaseMode>,
    pub(super) ended: i64,
}

impl Model {
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Task> {
        self.tasks
            .iter()
            .filter(|task| !matches!(task.state, State::Ended(_)))
    }

    pub(super) fn current(&self) -> Option<i64> {
        self.unfinished().filter_map(|task| task.order).min()
    }

    pub(super) fn running(&self) -> Vec<i64> {
        let running = |(at, task): (usize, &Task)| {
            matches!(task.state, State::Running { .. }).then_some(at as i64 + 1)
        };
        self.tasks.iter().enumerate().filter_map(running).collect()
    }

    /// Starts whatever may start, lowest numbers first.
    pub(super) fn start(&mut self) {
        let reserve = if self.slots < 4 {
            0
        } else {
            (self.slots / 10).max(1)
        };
        loop {
            let running = self.running().len() as u32;
            // The reserve is for schedulers that run nothing.
            let slots = if running == 0 {
                self.slots
            } else {
                self.slots - reserve
            };
            if self.paused || running >= slots.min(self.limit.unwrap_or(u32::MAX)) {
                return;
            }
            let current = self.current();
            let may = |task: &Task| {
                let turn = task.order.is_none() || task.order == current;
                let halted =
                    matches!((task.order, self.halt), (Some(order), Some(halt)) if order > halt);
                task.state == State::Waiting && turn && !halted
            };
            let Some(at) = self.tasks.iter().position(may) else {
                return;
            };
            self.tasks[at].state = State::Running { cancel: false };
        }
    }

    pub(super) fn end(&mut self, at: usize, outcome: Outcome) {
        self.tasks[at].state = State::Ended(outcome);
        self.ended += 1;
        let (true, Some(order)) = (outcome.is_failure(), self.tasks[at].order) else {
            return;
        };
        match self.on_failure {
            OnFailure::Continue => {}
            OnFailure::CancelRest => self.cancel_above(order),
            OnFailure::Halt => {
                self.halt = Some(self.halt.map_or(order, |halt| halt.min(order)));
                if self.released.is_some() {
                    self.cancel_above(order);
                }
            }
        }
    }

    pub(super) fn cancel_above(&mut self, above: i64) {
        for at in 0..self.tasks.len() {
            if self.tasks[at].state == State::Waiting
                && self.tasks[at].order.is_some_and(|order| order > above)
            {
                self.end(at, Outcome::Cancelled);
            }
        }
    }

    pub(super) fn submit(&mut self, orders: &[Option<i64>]) -> Result<i64, ()> {
        let (current, first) = (self.current(), self.tasks.len() as i64 + 1);
        let below = |order: i64| current.is_some_and(|current| order < current);
        let late = |order: &Option<i64>| order.is_some_and(below);
        if self.released.is_some() || (self.late == LateOrder::Reject && orders.iter().any(late)) {
            return Err(());
        }
        for order in orders {
            let order = if late(order) { current } else { *order };
            self.tasks.push(Task {
                order,
                state: State::Waiting,
            });
        }
        Ok(first)
    }

    pub(super) fn release(&mut self, mode: ReleaseMode) {
        if self.released.is_some()
            && (mode == ReleaseMode::Finish || self.released == Some(ReleaseMode::Cancel))
        {
            self.paused = false;
            return;
        }
        self.released = Some(mode);
        self.paused = false;
        if mode == ReleaseMode::Finish {
            if let Some(halt) = self.halt {
                self.cancel_above(halt);
            }
            return;
        }
        for at in 0..self.tasks.len() {
            match self.tasks[at].state {
                State::Waiting => self.end(at, Outcome::Cancelled),
                State::Running { .. } => self.tasks[at].state = State::Running { cancel: true },
                State::Ended(_) => {}
            }
        }
    }
}
