//! Jobs that run after others: whenever a run of theirs has succeeded.

use super::{Failure, Jobs, overlap::Firing};
use crate::core::{
    JobImage, JobKey, JobNo, JobReject, Reject, RunCause, RunImage, RunKey, RunReason, RunState,
    Turn, fairness::allowance::Allowance, model::limits::Limits, schedule::ScheduleText,
};
use std::sync::Arc;

impl Jobs {
    /// The jobs that follow this one.
    pub(super) fn followers(&self, no: JobNo) -> impl Iterator<Item = JobNo> + use<'_> {
        let key = self.jobs.get(&no).map(|job| &job.image.key);
        let those = key.and_then(|key| self.followers.get(key));
        those.into_iter().flatten().copied()
    }

    /// A definition says which job it follows.
    pub(super) fn note_follower(&mut self, image: &JobImage) {
        if let Some(key) = followed(image) {
            self.followers.entry(key).or_default().insert(image.no);
        }
    }

    /// A definition is in force no more.
    pub(super) fn forget_follower(&mut self, image: &JobImage) {
        let Some(key) = followed(image) else {
            return;
        };
        if let Some(those) = self.followers.get_mut(&key) {
            those.remove(&image.no);
            if those.is_empty() {
                self.followers.remove(&key);
            }
        }
    }

    /// A job follows one that exists, that not too many others follow, and not itself over others.
    pub(super) fn check_follows(
        &self,
        limits: &Limits,
        key: &JobKey,
        schedule: &ScheduleText,
    ) -> Result<(), Reject> {
        let own = self.by_name.get(key);
        let followed = schedule.follows().map(|name| JobKey {
            namespace: key.namespace.clone(),
            name: name.into(),
        });
        if let Some(followed) = followed
            && let Some(those) = self.followers.get(&followed)
            && those.len() >= limits.followers
            && own.is_none_or(|own| !those.contains(own))
        {
            let (name, most) = (followed.name, limits.followers);
            return Err(Reject::Job(JobReject::ManyFollow(name, most)));
        }
        let mut way: Vec<Arc<str>> = vec![key.name.clone()];
        let mut before: Option<Arc<str>> = schedule.follows().map(Into::into);
        while let Some(name) = before {
            // No circle but one over this job: the others were checked before.
            let is_circle = name == key.name;
            way.push(name.clone());
            if is_circle {
                return Err(Reject::Job(JobReject::FollowsItself(way)));
            }
            let of = JobKey {
                namespace: key.namespace.clone(),
                name: name.clone(),
            };
            if self.unreadable.contains(&of) {
                return Err(Reject::Job(JobReject::Unreadable));
            }
            let Some(no) = self.by_name.get(&of) else {
                return Err(Reject::Job(JobReject::FollowsNone(name)));
            };
            let settings = &self.jobs[no].image.settings;
            before = settings.schedule.follows().map(Into::into);
        }
        Ok(())
    }

    /// A run of a job has succeeded, and nothing is undecided of those that follow it.
    pub(super) fn fire_followers(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
    ) {
        let followers: Vec<JobNo> = self.followers(no).collect();
        for follower in followers {
            let due = self.unscheduled(turn, follower);
            let firing = Firing::new(due, RunCause::Followed);
            match self.held_because(follower) {
                None => self.begin(turn, allowance, follower, firing),
                Some((RunState::Missed, _)) => {
                    self.wait_for_agent(turn, allowance, follower, firing)
                }
                Some((state, reason)) => self.note(turn, follower, firing, state, reason),
            }
        }
    }

    /// The agent is stopped: as many runs as the rule for that says wait for its start, the newest
    /// ones, and the others are missed.
    fn wait_for_agent(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        no: JobNo,
        mut firing: Firing,
    ) {
        let (due, cause) = (firing.due, firing.cause);
        let most = self.jobs[&no].image.settings.misfire.runs();
        let stopped = (RunState::Missed, RunReason::AgentStopped);
        if most == 0 {
            self.note(turn, no, firing, stopped.0, stopped.1);
            let key = RunKey { job: no, due };
            return self.follow_failure(key, Failure::Ended(stopped.0));
        }
        firing.catches_up = true;
        firing.closes = self.offered_until(turn.now, allowance.limits, no, (due, cause));
        self.wait(turn, allowance, firing.image(no));
        self.miss_what_waits(turn, no, cause, most);
    }

    /// No more than so many runs of a job that have come due under a stopped agent wait for its
    /// start, the newest ones. Those that a due time of the stop pushes out as the agent starts are
    /// missed, too.
    pub(super) fn miss_what_waits(
        &mut self,
        turn: &mut Turn,
        no: JobNo,
        cause: RunCause,
        most: usize,
    ) {
        let is_one = |run: &&RunImage| {
            let waits = (run.state, run.cause) == (RunState::Waiting, cause);
            waits && run.attempt == 0 && self.is_of_the_stop(run.key.due)
        };
        let waiting: Vec<RunKey> = self.open_runs(no).filter(is_one).map(|r| r.key).collect();
        for key in &waiting[..waiting.len().saturating_sub(most)] {
            self.give_up(turn, *key, RunState::Missed, RunReason::AgentStopped);
        }
    }
}

/// The job that this one follows.
fn followed(image: &JobImage) -> Option<JobKey> {
    Some(JobKey {
        namespace: image.key.namespace.clone(),
        name: image.settings.schedule.follows()?.into(),
    })
}
