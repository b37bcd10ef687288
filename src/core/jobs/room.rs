//! Room among the tasks of a namespace: a run that finds none waits for it, and asks again once a
//! second at most.

use super::{Jobs, wake::Wake};
use crate::core::{
    JobNo, RunKey, Time, Turn,
    fairness::{
        allowance::Allowance,
        quota::{Over, Promise},
    },
    model::limits::{LIMIT_WAIT, Limit},
};

/// The limits of a namespace leave no room now.
pub(super) struct NoRoom;

/// What a run that starts gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Promised(Promise),
    /// There never is any, so it is refused.
    Never,
}

impl Jobs {
    /// Room for a run that starts. If there is none, its job tries again soon, and its row says why
    /// it waits.
    pub(super) fn room_for(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) -> Result<Room, NoRoom> {
        if self.no_room_until(key.job) <= turn.now {
            let why = match self.ask_for_room(turn.now, allowance, key) {
                Ok(room) => {
                    self.no_room.remove(&key.job);
                    return Ok(room);
                }
                Err(why) => why,
            };
            let until = turn.now + LIMIT_WAIT;
            self.no_room.insert(key.job, (until, why.into()));
            self.timers.insert((until, Wake::Turn(key.job)));
        }
        if let Some((_, why)) = self.no_room.get(&key.job)
            && let Some(run) = self.runs.get_mut(&key)
            && run.detail != *why
        {
            run.detail = why.clone();
            self.record_run(turn, key);
        }
        Err(NoRoom)
    }

    /// Room for the tasks of a run, or what they have to wait for.
    pub(super) fn ask_for_room(
        &mut self,
        now: Time,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) -> Result<Room, String> {
        let tasks = self.tasks_of(key);
        let (Some(tasks), Some(image)) = (tasks, self.definition(key.job)) else {
            return Ok(Room::Never);
        };
        match allowance.promise(now, &image.key.namespace, tasks.load()) {
            Ok(promise) => Ok(Room::Promised(promise)),
            Err(Over { wait: None, .. }) => Ok(Room::Never),
            Err(Over { limit, value, .. }) => Err(limit_reached(limit, value)),
        }
    }

    /// There may be room by now for the runs of a job.
    pub(super) fn forget_no_room(&mut self, now: Time, no: JobNo) {
        if self.no_room_until(no) <= now {
            self.no_room.remove(&no);
        }
    }

    /// Until when it is known that there is no room for the runs of a job.
    pub(super) fn no_room_until(&self, no: JobNo) -> Time {
        self.no_room.get(&no).map_or(Time(0), |(until, _)| *until)
    }
}

/// Which limit of its namespace keeps a run waiting, or refuses it.
pub(crate) fn limit_reached(limit: Limit, value: i64) -> String {
    format!(
        "the limit {} ({value}) of the namespace is reached",
        limit.name()
    )
}
