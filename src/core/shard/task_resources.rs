//! Tasks that need resources: which of them start, and for whom resources are kept.
//!
//! A task takes its resources together with a slot, when it is its scheduler's turn. What it holds
//! is on record before it starts, and given back with the record of the end of its attempt.

use crate::core::{
    ClaimNo, Handle, Order, Reject, ResourceBlocker, Seq, Shard, Spec, Submit, TaskId, TaskRef,
    Time, Token, Turn,
    fairness::{fair_share::Grant, slot_kinds::KindId},
    resources::Resources,
    scheduler::{
        Scheduler,
        queue::{resource_lanes::LaneKey, span::Span},
    },
};
use std::sync::Arc;

impl Shard {
    /// Refused when a task wants a resource that does not exist, or more than there is of it. The
    /// copy of a task is not: it waits as its task would, and keeps no other from being retried.
    pub(super) fn check_resources(
        &self,
        handle: Handle,
        submit: &Submit,
        resolved: &[(Option<Order>, Arc<Spec>)],
    ) -> Result<(), Reject> {
        if submit.retries.is_some() {
            return Ok(());
        }
        let namespace = &self.schedulers.expect(handle).image.namespace;
        let mut index = 0;
        for (run, (_, spec)) in submit.runs.iter().zip(resolved) {
            for want in spec.options.resources.iter() {
                let known = self
                    .resources
                    .check_wants(namespace, std::slice::from_ref(want));
                if let Err(Reject::Resource(reject)) = known {
                    return Err(Reject::TaskResource {
                        index,
                        name: want.name.clone(),
                        by_default: run.spec.options.resources.is_empty(),
                        reject,
                    });
                }
            }
            index += run.count as usize;
        }
        Ok(())
    }

    /// The resources that a waiting task cannot have now.
    pub(super) fn wanted_by(
        &mut self,
        now: Time,
        handle: Handle,
        task: TaskRef,
    ) -> Vec<ResourceBlocker> {
        let scheduler = self.schedulers.expect(handle);
        let delayed = scheduler.queue.delayed_of(task.seq);
        let span = match delayed {
            Some((_, delayed)) => Some(&delayed.span),
            None => scheduler.queue.waiting_span(task.order, task.seq),
        };
        let Some(span) = span.filter(|span| span.needs_resources()) else {
            return Vec::new();
        };
        let lane = (span.order, LaneKey::of(span));
        let place = scheduler.lines.of(&lane).filter(|_| delayed.is_none());
        let namespace = scheduler.image.namespace.clone();
        self.resources
            .blockers(now, &namespace, &lane.1.wants, place)
    }

    /// After a recovery: nothing is held for attempts that are over by the journal. What is held
    /// for a scheduler that cannot be read stays so.
    pub(super) fn end_orphans(&mut self, turn: &mut Turn) {
        let runs = |task: TaskId| {
            let scheduler = self.schedulers.get(task.handle);
            scheduler.is_none_or(|known| known.running.by_first.contains_key(&task.seq))
        };
        self.resources.end_orphans(turn, runs);
    }

    /// Schedulers learn which of their lines are ready. One that is still to leave does so at once:
    /// others were not woken in its place.
    pub(super) fn note_woken_lines(&mut self) {
        for (handle, no) in self.resources.take_woken() {
            let scheduler = self.schedulers.get_mut(handle);
            match scheduler.filter(|scheduler| scheduler.lines.lane(no).is_some()) {
                Some(scheduler) => scheduler.lines.set_ready(no, true),
                None => self.resources.leave_line(no),
            }
        }
    }

    /// Keeps what the first line wants of those that were passed too often and would start next,
    /// and no longer for those that could not start, or that have it and wait behind others. After
    /// a dispatch: tasks that come first and are still there wait for slots.
    pub(super) fn keep_for_passed(&mut self) {
        for (handle, lines) in self.resources.take_passed() {
            let mut lines = lines.into_iter();
            let is_next = |no: &ClaimNo| self.could_start(handle, *no) && self.is_next(handle, *no);
            if let Some(no) = lines.find(is_next)
                && let Some(scheduler) = self.schedulers.get_mut(handle)
            {
                scheduler.keep_for_line(&mut self.resources, no);
            }
        }
        for no in self.resources.reserved() {
            let handle = self.resources.line(no).map(|line| line.handle);
            let is_kept = handle.is_some_and(|handle| {
                let has_it = self.resources.is_ready(no);
                self.could_start(handle, no) && (!has_it || self.is_next(handle, no))
            });
            if !is_kept {
                self.resources.unreserve(no);
            }
        }
    }

    /// Whose turn it is in place of a scheduler that has got a slot: of two schedulers that want
    /// the same resource the one that has waited longer for it, or for which it is kept. The
    /// reserve is for who runs nothing.
    pub(super) fn before_rivals(&self, kind: KindId, grant: Grant) -> Grant {
        let Some(no) = self.schedulers.expect(grant.handle).next_line(kind) else {
            return grant;
        };
        if self.fair.slots[kind].unreserved() == 0 {
            return grant;
        }
        let would_start = |(handle, no): &(Handle, ClaimNo)| {
            let next = (self.schedulers.get(*handle)).and_then(|other| other.next_line(kind));
            next == Some(*no) && self.lacks_only_a_slot(*handle, *no)
        };
        let rivals = self.resources.rivals(no).into_iter();
        let others = rivals.filter(|(handle, _)| *handle != grant.handle);
        let startable = others.filter(would_start);
        let first = startable.min_by_key(|(_, no)| self.resources.rank(*no));
        first.map_or(grant, |(handle, _)| Grant { handle, ..grant })
    }

    /// Whether the first task of a line could start some time, with what is there now: its order
    /// is open, its target not paused, nothing that it wants closed, and its scheduler at its limit
    /// for later tasks at most.
    fn could_start(&self, handle: Handle, no: ClaimNo) -> bool {
        let Some((scheduler, line)) = self.schedulers.get(handle).zip(self.resources.line(no))
        else {
            return false;
        };
        self.has_slots(line.kind)
            && scheduler.lines.lane(no).is_some()
            && scheduler.has_room_before(line.front)
            && !self.resources.is_closed_for(line)
    }

    /// Whether no other task of its scheduler starts before the first one of a line.
    fn is_next(&self, handle: Handle, no: ClaimNo) -> bool {
        let known = self.schedulers.get(handle).zip(self.resources.line(no));
        known.is_some_and(|(scheduler, line)| !scheduler.has_before(line.kind, line.front))
    }

    /// Whether the first task of a line would start if it had a slot, and what it wants.
    fn lacks_only_a_slot(&self, handle: Handle, no: ClaimNo) -> bool {
        let Some((scheduler, line)) = self.schedulers.get(handle).zip(self.resources.line(no))
        else {
            return false;
        };
        self.has_slots(line.kind) && scheduler.capacity() > 0
    }

    fn has_slots(&self, kind: KindId) -> bool {
        self.fair.slots[kind].counts.total > 0 && !self.is_paused(kind)
    }
}

impl Scheduler {
    /// Whether one of its tasks comes before this one when there is a slot of a kind.
    fn has_before(&self, kind: KindId, front: Seq) -> bool {
        let plain = self.queue.next(kind, self.start_limit());
        plain.is_some_and(|span| span.first < front) || self.lines.next(kind, Some(front)).is_some()
    }

    /// Whether its limit leaves room for a task, once the tasks that come later have ended.
    fn has_room_before(&self, front: Seq) -> bool {
        let earlier = self.running.by_first.range(..front);
        let earlier = earlier.map(|(_, flight)| flight.span.count);
        let limit = self.image.settings.max_parallelism;
        let has_room = self.room() > 0;
        !self.overdue && (has_room || limit.is_none_or(|most| earlier.sum::<u32>() < most))
    }

    /// The line of its next task of a kind, if that needs resources.
    fn next_line(&self, kind: KindId) -> Option<ClaimNo> {
        let plain = self.queue.next(kind, self.start_limit());
        self.lines.next(kind, plain.map(|span| span.first))
    }

    /// Takes its next task of a kind, of those that need no resources up to `most`. One that needs
    /// some takes them: `None` when they cannot be had any more.
    pub(super) fn take_next(
        &mut self,
        turn: &mut Turn,
        resources: &mut Resources,
        kind: KindId,
        most: u32,
    ) -> Option<(Span, Option<Token>)> {
        let Some(no) = self.next_line(kind) else {
            let span = self.queue.take(kind, self.start_limit(), most)?;
            return Some((span, None));
        };
        let lane = self.lines.lane(no)?.clone();
        let task = TaskId {
            handle: self.handle(),
            seq: self.queue.lane_front(&lane)?.first,
        };
        let granted = resources.grant_task(turn, no, task, &self.image.caller);
        let Some(token) = granted else {
            self.lines.set_ready(no, false);
            return None;
        };
        self.lines.remove(no);
        let span = self.queue.take_claimed(&lane)?;
        Some((span, Some(token)))
    }
}
