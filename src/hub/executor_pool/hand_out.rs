//! Who is given an assignment.

use super::{ExecutorPool, assignments::Given, member::Member};
use crate::{
    core::{Assignment, Report, Running, Work},
    executor_protocol::{Body, Dispatch, ExecutorId, Instruction, Token},
};
use std::mem;

impl ExecutorPool {
    /// Hands out what waits, as far as somebody can take it now.
    pub(super) fn hand_out_waiting(&mut self) {
        for (assignment, body) in mem::take(&mut self.waiting) {
            self.hand_out(assignment, body);
        }
    }

    /// Gives an assignment to the executor with most free slots, or else places in line; of equals,
    /// to the one that keeps the reserve, or the one of this process. Keeps it until one has room.
    /// Where nobody has slots any more, as of a target that is away, it has not begun: it is the
    /// core's again, whose pauses and deadlines hold for it.
    pub(super) fn hand_out(&mut self, assignment: Assignment, body: Body) {
        let work = &assignment.spec.work;
        let best = self.best(&assignment);
        let has_slots = |member: &Member| member.total(work) > 0;
        if best.is_none() && !self.members.values().any(has_slots) {
            return self.end_unstarted(&assignment, Report::NotStarted);
        }
        let member = best.and_then(|(id, _)| self.members.get_mut(&id));
        let Some((member, (_, kept))) = member.zip(best) else {
            return self.waiting.push_back((assignment, body));
        };
        member.hold(work, true);
        let leaves_free = assignment.leaves_free.map(|_| kept);
        let host = member.host;
        self.serial += 1;
        let token = Token {
            epoch: self.epoch,
            serial: self.serial,
        };
        let Assignment {
            handle,
            first,
            count,
            attempt,
            ..
        } = assignment;
        let running = Running {
            handle,
            first,
            count,
            attempt,
            since: self.now,
        };
        // Another attempt of it may still be noted: one that was over long ago, reported again by
        // an executor that does not know so.
        self.give(Given {
            host,
            token,
            running,
            work: work.clone(),
            lined_up: leaves_free.is_some(),
            over: false,
        });
        let dispatch = Dispatch {
            token,
            assignment,
            leaves_free,
            body,
        };
        self.send(host, Instruction::Run(Box::new(dispatch)));
    }

    /// Who is given an assignment, and how many slots are to stay free there if it stands in line.
    fn best(&self, assignment: &Assignment) -> Option<(ExecutorId, u32)> {
        let work = &assignment.spec.work;
        let keeper = self.keeper(work);
        // Of the reserve a line leaves free what its keeper has.
        let kept = |id: ExecutorId, member: &Member| {
            let reserved = assignment.leaves_free.filter(|_| keeper == Some(id));
            reserved.map_or(0, |slots| slots.min(member.total(work).saturating_sub(1)))
        };
        let room = |(id, member): (&ExecutorId, &Member)| {
            let (free, places) = member.room(work)?;
            let kept = kept(*id, member);
            let places = places.saturating_sub(kept);
            let for_reserve = keeper == Some(*id) && assignment.leaves_free.is_none();
            let room = (
                free.saturating_sub(kept),
                for_reserve,
                places,
                member.local,
                *id,
            );
            (places > 0).then_some(room)
        };
        let (.., id) = self.members.iter().filter_map(room).max()?;
        Some((id, kept(id, self.members.get(&id)?)))
    }

    /// Who keeps the free slots of the reserve: the executor with most slots.
    fn keeper(&self, work: &Work) -> Option<ExecutorId> {
        let total = |(id, member): (&ExecutorId, &Member)| (member.total(work), *id);
        let reachable = self.members.iter().filter(|(_, member)| member.reachable);
        let most = reachable.map(total).max();
        most.map(|(_, id)| id)
    }
}
