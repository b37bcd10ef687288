//! Questions that change nothing durable: opening a stream, and where tasks stand.

use super::{Attempt, DoneNo, Handle, Output, Reject, Reply, Scheduler, Seq, Shard, Span, Standing, Time, Until};

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
        Reply::Watching { last_seq, outstanding, done_no: scheduler.done_no }
    }

    pub(super) fn stream_closed(&mut self, now: Time, handle: Handle) {
        if let Some(scheduler) = self.schedulers.get_mut(&handle) {
            // One that was open before the core was rebuilt is not counted.
            if scheduler.streams > 0 {
                scheduler.streams -= 1;
                self.quotas.unwatched(scheduler.share.namespace);
            }
            scheduler.last_activity = now;
            self.refresh(handle);
        }
    }

    /// Where tasks stand; `None` for those that have ended or never were.
    pub(super) fn locate(&mut self, handle: Handle, seqs: &[Seq]) -> Reply {
        let scheduler = self.scheduler_mut(handle);
        let mut found = vec![None; seqs.len()];
        let mut wanted: Vec<(Seq, usize)> = seqs.iter().enumerate().map(|(at, seq)| (*seq, at)).collect();
        wanted.sort_unstable();
        let mut mark = |span: &Span, standing: Standing| {
            let from = wanted.partition_point(|(seq, _)| *seq < span.first);
            for (seq, at) in wanted[from..].iter().take_while(|(seq, _)| *seq <= span.last()) {
                found[*at] = Some((standing, scheduler.attempts_begun(*seq)));
            }
        };
        for (span, open) in scheduler.queue.waiting(scheduler.gate()) {
            mark(span, if open { Standing::Queued } else { Standing::Blocked { next_at: None } });
        }
        for (at, delayed) in scheduler.queue.delayed() {
            let standing =
                if delayed.retry { Standing::Retrying { next_at: at } } else { Standing::Blocked { next_at: Some(at) } };
            mark(&delayed.span, standing);
        }
        for flight in scheduler.in_flight.values() {
            mark(&flight.span, Standing::Running { since: flight.since });
        }
        Reply::Located(found)
    }
}

impl Scheduler {
    fn attempts_begun(&self, seq: Seq) -> Attempt {
        let running = self.in_flight_of(seq).map(|(_, flight)| flight.attempt);
        running.or_else(|| self.histories.get(&seq).map(|history| history.attempt)).unwrap_or_default()
    }
}
