//! Room among the tasks of a namespace: a run that finds none waits for it, and is asked about again
//! once a second at most.

use super::{Jobs, wake::Wake};
use crate::core::{
    JobNo, RunKey, Time, Turn,
    fairness::{
        allowance::{Allowance, Promise},
        quota::Over,
    },
    model::limits::Limit,
};
use std::time::Duration;

/// The limits of a namespace leave no room now.
pub(super) struct NoRoom;

impl Jobs {
    /// Room for a run that starts. If there is none, its job tries again when there may be, and its
    /// row says why it waits. `None`: it is to be refused, for there never is.
    pub(super) fn room_for(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) -> Result<Option<Promise>, NoRoom> {
        if self.no_room_until(key.job) <= turn.now {
            let (wait, why) = match self.promise(turn.now, allowance, key) {
                Ok(promise) => {
                    self.no_room.remove(&key.job);
                    return Ok(promise);
                }
                Err(no_room) => no_room,
            };
            let until = turn.now + wait;
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

    /// The same, and how long to wait and for what.
    pub(super) fn promise(
        &mut self,
        now: Time,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) -> Result<Option<Promise>, (Duration, String)> {
        let tasks = self.tasks_of(key);
        let (Some(tasks), Some(image)) = (tasks, self.definition(key.job)) else {
            return Ok(None);
        };
        match allowance.promise(now, &image.key.namespace, tasks.load()) {
            Ok(promise) => Ok(Some(promise)),
            Err(Over { wait: None, .. }) => Ok(None),
            Err(Over {
                limit,
                value,
                wait: Some(wait),
            }) => Err((wait, limit_reached(limit, value))),
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
