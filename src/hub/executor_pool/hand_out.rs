//! Who is given an assignment.

use super::{ExecutorPool, assignments::Given, member::Member};
use crate::{
    core::{Assignment, Running, Work},
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
    pub(super) fn hand_out(&mut self, assignment: Assignment, body: Body) {
        let work = &assignment.spec.work;
        let keeper = self.keeper(work);
        let room = |(id, member): (&ExecutorId, &Member)| {
            let (free, places) = member.room(work)?;
            let keeps = keeper == Some(*id) && assignment.in_line.is_none();
            Some((free, keeps, places, member.local, *id))
        };
        let best = self.members.iter().filter_map(room).max();
        let best = best.map(|(.., id)| id);
        let Some((id, member)) = best.and_then(|id| Some((id, self.members.get_mut(&id)?))) else {
            return self.waiting.push_back((assignment, body));
        };
        member.hold(work, true);
        let reserved = |reserved: u32| match keeper == Some(id) {
            true => reserved.min(member.total(work).saturating_sub(1)),
            false => 0,
        };
        let leaves_free = assignment.in_line.map(reserved);
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

    /// Who keeps the free slots of the reserve: the executor with most slots.
    fn keeper(&self, work: &Work) -> Option<ExecutorId> {
        let total = |(id, member): (&ExecutorId, &Member)| (member.total(work), *id);
        let most = self.members.iter().map(total).max();
        most.map(|(_, id)| id)
    }
}
