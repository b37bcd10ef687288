//! Streams of events: how one begins and ends for the core, which sets its goal.

use crate::core::{DoneNo, Handle, Reject, Reply, Seq, Shard, Time, Turn, Until};

impl Shard {
    /// Fixes the goal of a stream at its opening.
    pub(crate) fn watch(
        &mut self,
        turn: &mut Turn,
        handle: Handle,
        after: DoneNo,
        until: Until,
        last_seq: Option<Seq>,
    ) -> Reply {
        let scheduler = self.schedulers.expect_mut(handle);
        if after > scheduler.done_no {
            return Reply::Rejected(Reject::CursorAhead {
                last: scheduler.done_no,
            });
        }
        let namespace = scheduler.share.namespace;
        if let Err(over) = self.quotas.may_watch(namespace, &self.limits) {
            return Shard::limit_reached(&self.schedulers.expect_mut(handle).image.namespace, over);
        }
        self.quotas.watched(namespace);
        let scheduler = self.schedulers.expect_mut(handle);
        scheduler.streams += 1;
        turn.progressed(handle);
        let last_seq = last_seq
            .unwrap_or(scheduler.highest_seq)
            .min(scheduler.highest_seq);
        let order = if let Until::Order(order) = until {
            Some(order)
        } else {
            None
        };
        let outstanding = scheduler.outstanding(last_seq, order);
        Reply::Watching {
            handle,
            last_seq,
            outstanding,
            done_no: scheduler.done_no,
        }
    }

    pub(crate) fn stream_closed(&mut self, now: Time, handle: Handle) {
        if let Some(scheduler) = self.schedulers.get_mut(handle) {
            // One that was opened under another owner is not counted.
            if scheduler.streams > 0 {
                scheduler.streams -= 1;
                self.quotas.unwatched(scheduler.share.namespace);
            }
            scheduler.last_activity = now;
        }
    }

    /// Counts streams of an earlier core, and shows them how far their schedulers are: a batch of
    /// that core may have become durable after all. Those of schedulers that are not known any more
    /// are not counted.
    pub(crate) fn streams_open(&mut self, turn: &mut Turn, open: &[(Handle, u32)]) {
        for (handle, count) in open {
            turn.progressed(*handle);
            if let Some(scheduler) = self.schedulers.get_mut(*handle) {
                scheduler.streams += count;
                (0..*count).for_each(|_| self.quotas.watched(scheduler.share.namespace));
            }
        }
    }
}
