//! The goal of a stream: which events count for it, and when it is met.

use crate::core::{Done, DoneNo, Order, Seq, Until};

/// Fixed when the stream opens.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub until: Until,
    /// Tasks up to this number count.
    pub last_seq: Seq,
    /// Tasks that count and had not ended at the event `opened_at`, and not since.
    pub outstanding: i64,
    pub opened_at: DoneNo,
}

impl Goal {
    /// How many of `count` consecutive events the stream still wants.
    pub(crate) fn wanted(&self, count: u32) -> u32 {
        if let Until::Count(left) = self.until {
            left.min(u64::from(count)) as u32
        } else {
            count
        }
    }

    /// Takes given events into account, the first of which is `done_no`.
    pub(crate) fn count(&mut self, done_no: DoneNo, done: &Done) {
        if let Until::Count(left) = &mut self.until {
            *left -= u64::from(done.count);
        }
        let after_opening = (done_no.0 + i64::from(done.count) - 1 - self.opened_at.0)
            .clamp(0, i64::from(done.count));
        let first = done.first.0 + i64::from(done.count) - after_opening;
        let within = (self.last_seq.0 - first + 1).clamp(0, after_opening);
        let matches = |limit: Order| done.order.is_some_and(|order| order <= limit);
        if !matches!(self.until, Until::Order(limit) if !matches(limit)) {
            self.outstanding -= within;
        }
    }

    /// Whether no more events are wanted by a stream at `cursor`.
    pub(crate) fn is_met(&self, cursor: DoneNo) -> bool {
        match self.until {
            Until::All | Until::Order(_) | Until::FirstFailure => {
                self.outstanding <= 0 && cursor >= self.opened_at
            }
            Until::Count(left) => left == 0,
            Until::Forever => false,
        }
    }
}
