//! Jobs that run after others: whenever a run of theirs has succeeded.

use super::{Jobs, overlap::Firing};
use crate::core::{
    JobImage, JobKey, JobNo, JobReject, Reject, RunCause, Turn, model::limits::Limits,
    schedule::ScheduleText,
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

    /// A job follows one that exists, and not itself over others.
    pub(super) fn check_follows(
        &self,
        key: &JobKey,
        schedule: &ScheduleText,
    ) -> Result<(), Reject> {
        let mut way: Vec<Arc<str>> = vec![key.name.clone()];
        let mut before: Option<Arc<str>> = schedule.follows().map(Into::into);
        while let Some(name) = before {
            let is_circle = way.contains(&name);
            way.push(name.clone());
            if is_circle {
                return Err(Reject::Job(JobReject::FollowsItself(way)));
            }
            let of = JobKey {
                namespace: key.namespace.clone(),
                name: name.clone(),
            };
            let Some(no) = self.by_name.get(&of) else {
                return Err(Reject::Job(JobReject::FollowsNone(name)));
            };
            let settings = &self.jobs[no].image.settings;
            before = settings.schedule.follows().map(Into::into);
        }
        Ok(())
    }

    /// A run of a job has succeeded.
    pub(super) fn fire_followers(&mut self, turn: &mut Turn, limits: &Limits, no: JobNo) {
        let followers: Vec<JobNo> = self.followers(no).collect();
        for follower in followers {
            let due = self.unscheduled(turn, follower);
            let held = self.held_because(follower);
            let firing = Firing::new(due, RunCause::Followed);
            match held {
                Some((state, reason)) => self.note(turn, follower, firing, state, reason),
                None => self.begin(turn, limits, follower, firing),
            }
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
