//! Questions that change nothing durable: opening a stream, and where tasks stand.

use super::{Attempt, DoneNo, Handle, Order, Output, Phase, Reject, Reply, Scheduler, Seq, Shard, Span, Standing, Time, Until};
use std::collections::BinaryHeap;

impl Shard {
    /// Fixes the goal of a stream at its opening.
    pub(super) fn watch(
        &mut self,
        handle: Handle,
        after: DoneNo,
        until: Until,
        last_seq: Option<Seq>,
        out: &mut Output,
    ) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        if after > scheduler.done_no {
            return Reply::Rejected(Reject::CursorAhead { last: scheduler.done_no });
        }
        let namespace = scheduler.share.namespace;
        if let Err(over) = self.quotas.may_watch(namespace, &self.limits) {
            return Shard::over(&self.scheduler_mut(handle).image.namespace, over);
        }
        self.quotas.watched(namespace);
        let scheduler = self.scheduler_mut(handle);
        scheduler.streams += 1;
        out.touched.insert(handle);
        let last_seq = last_seq.unwrap_or(scheduler.highest_seq).min(scheduler.highest_seq);
        let order = if let Until::Order(order) = until { Some(order) } else { None };
        let outstanding = scheduler.outstanding(last_seq, order);
        Reply::Watching { handle, last_seq, outstanding, done_no: scheduler.done_no }
    }

    pub(super) fn stream_closed(&mut self, now: Time, handle: Handle) {
        if let Some(scheduler) = self.schedulers.get_mut(&handle) {
            // One that was opened under another owner is not counted.
            if scheduler.streams > 0 {
                scheduler.streams -= 1;
                self.quotas.unwatched(scheduler.share.namespace);
            }
            scheduler.last_activity = now;
            self.refresh(handle);
        }
    }

    /// Counts streams of an earlier core. Of schedulers that are over and forgotten they end by themselves.
    pub(super) fn streams_open(&mut self, open: &[(Handle, u32)]) {
        for (handle, count) in open {
            if let Some(scheduler) = self.schedulers.get_mut(handle) {
                scheduler.streams += count;
                (0..*count).for_each(|_| self.quotas.watched(scheduler.share.namespace));
                self.refresh(*handle);
            }
        }
    }

    /// Where tasks stand; `None` for those that have ended or never were.
    pub(super) fn locate(&mut self, handle: Handle, seqs: &[Seq]) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        let mut found = vec![None; seqs.len()];
        let mut wanted: Vec<(Seq, usize)> = seqs.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
        wanted.sort_unstable();
        scheduler.each_standing(|span, standing| {
            let from = wanted.partition_point(|(seq, _)| *seq < span.first);
            for (seq, at) in wanted[from..].iter().take_while(|(seq, _)| *seq <= span.last()) {
                found[*at] = Some((standing, scheduler.attempts_begun(*seq)));
            }
        });
        Reply::Located(found)
    }

    /// The newest tasks before `before` that are of a phase.
    pub(super) fn select(&mut self, handle: Handle, before: Seq, phase: Phase, order: Option<Order>, limit: usize) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        let newest = Seq(before.0.min(scheduler.highest_seq.0 + 1) - 1);
        // A heap gives the newest few of very many spans without sorting them all.
        let mut spans: Vec<(Seq, Seq)> = Vec::new();
        scheduler.each_standing(|span, standing| {
            let wanted = phase == Phase::Done || standing.phase() == phase && (order.is_none() || span.order == order);
            if wanted && span.first <= newest {
                spans.push((span.last().min(newest), span.first));
            }
        });
        let newest_first = std::iter::from_fn({
            let mut heap = BinaryHeap::from(spans);
            move || heap.pop()
        });
        let found = match phase {
            Phase::Done => between(newest_first, newest, limit),
            _ => newest_first.flat_map(|(last, first)| descending(first, last)).take(limit).collect(),
        };
        Reply::Selected(found)
    }
}

/// The newest numbers up to `newest` that lie in none of `spans`, which come newest first.
fn between(spans: impl Iterator<Item = (Seq, Seq)>, newest: Seq, limit: usize) -> Vec<Seq> {
    let mut found = Vec::new();
    let mut upper = newest;
    for (last, first) in spans.chain([(Seq(0), Seq(0))]) {
        found.extend(descending(Seq(last.0 + 1), upper).take(limit - found.len()));
        if found.len() == limit {
            break;
        }
        upper = Seq(first.0 - 1);
    }
    found
}

fn descending(first: Seq, last: Seq) -> impl Iterator<Item = Seq> {
    (first.0..=last.0).rev().map(Seq)
}

impl Scheduler {
    /// Tells where every unfinished task stands, span by span.
    fn each_standing(&self, mut tell: impl FnMut(&Span, Standing)) {
        for (span, open) in self.queue.waiting(self.gate()) {
            tell(span, if open { Standing::Queued } else { Standing::Blocked { next_at: None } });
        }
        for (at, delayed) in self.queue.delayed() {
            let standing =
                if delayed.retry { Standing::Retrying { next_at: at } } else { Standing::Blocked { next_at: Some(at) } };
            tell(&delayed.span, standing);
        }
        for flight in self.in_flight.values() {
            tell(&flight.span, Standing::Running { since: flight.since });
        }
    }

    fn attempts_begun(&self, seq: Seq) -> Attempt {
        let running = self.in_flight_of(seq).map(|(_, flight)| flight.attempt);
        running.or_else(|| self.histories.get(&seq).map(|history| history.attempt)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_lies_between_what_is_not() {
        let done = |spans: &[(i64, i64)], newest, limit| -> Vec<i64> {
            let spans = spans.iter().map(|(last, first)| (Seq(*last), Seq(*first)));
            between(spans, Seq(newest), limit).iter().map(|seq| seq.0).collect()
        };
        assert_eq!(done(&[], 3, 10), [3, 2, 1]);
        assert_eq!(done(&[(9, 8), (4, 4)], 9, 4), [7, 6, 5, 3]);
        assert!(done(&[(9, 1)], 9, 4).is_empty());
        assert_eq!(done(&[(8, 8)], 9, 2), [9, 7]);
    }
}
