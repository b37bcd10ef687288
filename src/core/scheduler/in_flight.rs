//! The running assignments of a scheduler, and the attempts its tasks have had.
//!
//! Assignments come and go through `Scheduler::begin` and `Scheduler::leave` alone. One in doubt
//! counts as running but holds no slot: nobody knows its host.

use super::queue::span::Span;
use crate::core::{Attempt, Seq, TaskError, Time, Unreported, fairness::fair_share::Hold};
use std::{collections::BTreeMap, sync::Arc};

/// An assignment that runs.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub span: Span,
    pub attempt: Attempt,
    pub since: Time,
    /// Slot time charged so far, microseconds per task.
    pub charged: i64,
    /// The part of it that an earlier core charged.
    pub charged_earlier: i64,
    /// It has a slot of the reserve, which it got while others were next.
    pub ahead_of_turn: bool,
    /// It was handed out while no slot was free, and stands in line for one, or stood.
    pub in_line: bool,
    /// It is being stopped: what its end says of who has cancelled it.
    pub cancel: Option<Arc<TaskError>>,
    /// It has a row in the journal.
    pub recorded: bool,
    /// An earlier owner may have handed it out, and no executor has reported it yet.
    pub in_doubt: bool,
    /// It runs nowhere any more, and its target is asked whether it has committed; what it counts
    /// as if it has not. It is in doubt until then.
    pub resolving: Option<Unreported>,
}

/// All running assignments of a scheduler, by their first task.
#[derive(Debug, Default)]
pub(crate) struct Assignments {
    pub by_first: BTreeMap<Seq, InFlight>,
    /// Tasks.
    pub tasks: u32,
    /// Tasks in doubt among them.
    pub in_doubt: u32,
}

/// The attempts of one task so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    pub attempt: Attempt,
    pub failures: u32,
    pub losses: u32,
}

impl InFlight {
    /// Whether it can be stopped, and is not being stopped already. Work without a session ends at
    /// once by itself.
    pub(crate) fn is_stoppable(&self) -> bool {
        self.cancel.is_none() && self.span.count == 1
    }

    /// The slots it holds, unless it is in doubt.
    pub(crate) fn hold(&self) -> Hold {
        Hold {
            kind: self.span.kind,
            count: self.span.count,
            charged: self.charged,
            earlier: self.charged_earlier,
            ahead_of_turn: self.ahead_of_turn,
            in_line: self.in_line,
        }
    }
}

impl Assignments {
    /// The assignment that holds `seq`.
    pub(crate) fn holding(&self, seq: Seq) -> Option<&InFlight> {
        let (_, flight) = self.by_first.range(..=seq).next_back()?;
        (seq <= flight.span.last()).then_some(flight)
    }

    /// The assignments that hold a task among `first..=last`, newest first.
    pub(crate) fn among(&self, first: Seq, last: Seq) -> impl Iterator<Item = &InFlight> {
        let all = self.by_first.range(..=last).rev().map(|(_, flight)| flight);
        all.take_while(move |flight| flight.span.last() >= first)
    }
}
