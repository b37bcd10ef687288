//! Jobs are defined, changed, deleted, paused and resumed. What runs goes on; what had passed
//! before the change has its fate by the rules of before.

use super::{Answered, Job, Jobs, job::may_be_scheduled, key_of};
use crate::core::{
    Caller, JobImage, JobNo, JobPause, JobReject, JobReply, JobSettings, JobState, NewJob, Reject,
    RunImage, RunKey, RunReason, RunState, Time, Turn,
    fairness::allowance::Allowance,
    model::limits::{Limit, Limits},
    schedule::ScheduleText,
};
use std::{sync::Arc, time::Duration};

impl Jobs {
    /// Defines a job. The same definition once more changes nothing.
    pub(super) fn create(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        name: &Arc<str>,
        job: &NewJob,
    ) -> Answered {
        let key = key_of(caller, name);
        if let Some(no) = self.by_name.get(&key) {
            let is_same = self.jobs[no]
                .image
                .says(&job.settings, &job.steps, &job.on_failure);
            return match is_same {
                true => Ok(self.shown(*no, false)),
                false => Err(Reject::Job(JobReject::JobExists)),
            };
        }
        if self.unreadable.contains(&key) {
            return Err(Reject::Job(JobReject::Unreadable));
        }
        let of = |job: &&Job| job.image.key.namespace == key.namespace;
        if self.jobs.len() >= limits.jobs && self.jobs.values().filter(of).count() >= limits.jobs {
            return Err(Reject::LimitReached {
                limit: Limit::Jobs,
                namespace: key.namespace,
                value: limits.jobs as i64,
                wait: None,
            });
        }
        self.check_follows(limits, &key, &job.settings.schedule)?;
        self.last = JobNo(self.last.0 + 1);
        let image = JobImage {
            no: self.last,
            key,
            version: 1,
            settings: job.settings.clone(),
            unknown: None,
            steps: job.steps.clone(),
            on_failure: job.on_failure.clone(),
            created_at: turn.now,
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            deleted: false,
        };
        let next_due =
            Job::new(image.clone(), JobState::default(), &self.zones).due_after(turn.now);
        let state = JobState {
            next_due,
            ..JobState::default()
        };
        Ok(self.define(turn, image, state))
    }

    /// Puts a definition in place of the present one.
    pub(super) fn update(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        job: &NewJob,
        version: Option<i64>,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        let known = &self.jobs[&no];
        // Also when it was said by an earlier attempt of the same call, and the version is another.
        if known.image.says(&job.settings, &job.steps, &job.on_failure) {
            return Ok(self.shown(no, false));
        }
        self.job_at(caller, name, version)?;
        if known.image.settings.claimed != job.settings.claimed {
            return Err(Reject::Job(JobReject::ClaimedChanged));
        }
        self.check_follows(
            allowance.limits,
            &key_of(caller, name),
            &job.settings.schedule,
        )?;
        let is_due_alike = is_due_alike(&self.jobs[&no].image.settings, &job.settings);
        // Whose start was put off for longer than the jitter allows now would come too late.
        let sooner = job.settings.schedule.jitter < known_jitter(&self.jobs[&no]);
        // At once, since what is missed together is one failure.
        match is_due_alike && !sooner {
            true => self.pass(turn, allowance, no),
            false => self.pass_early(turn, allowance, no),
        }
        let known = &self.jobs[&no];
        let image = JobImage {
            version: known.image.version + 1,
            settings: job.settings.clone(),
            steps: job.steps.clone(),
            on_failure: job.on_failure.clone(),
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            ..known.image.clone()
        };
        let mut state = known.state.clone();
        if !is_due_alike {
            let job = Job::new(image.clone(), JobState::default(), &self.zones);
            state.next_due = job.due_after_change(known, turn.now);
            if !job.keeps_periods_of(known) {
                state.periods_since = Some(turn.now);
            }
        }
        let reply = self.define(turn, image, state);
        self.shorten_offers(turn, allowance.limits, no);
        // What waits may go on side by side now.
        self.turn_later(no);
        Ok(reply)
    }

    /// Deletes a job that no other one follows. It stays until it is decided how those of its runs
    /// have ended that an earlier owner left undecided, with several batches if they are very many:
    /// only the job says what follows. Until then the answer is that nothing is deleted yet.
    pub(super) fn delete(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        version: Option<i64>,
    ) -> Answered {
        let no = self.job_at(caller, name, version)?;
        if let Some(follower) = self.followers(no).next() {
            let name = self.jobs[&follower].image.key.name.clone();
            return Err(Reject::Job(JobReject::JobFollowed(name)));
        }
        if self.open_runs(no).any(RunImage::is_undecided) {
            return Ok(self.shown(no, false));
        }
        self.pass(turn, allowance, no);
        let deleted = Some((RunState::Skipped, RunReason::JobDeleted));
        self.pass_until(turn, allowance, no, turn.now, deleted);
        self.end_claims_of(turn, no);
        let waits = self
            .open_runs(no)
            .filter(|run| run.state != RunState::Running);
        let waiting: Vec<(RunKey, RunState)> =
            waits.map(|run| (run.key, without_job(run))).collect();
        for (key, state) in waiting {
            self.give_up(turn, key, state, RunReason::JobDeleted);
        }
        let Some(Job { image, state, .. }) = self.jobs.remove(&no) else {
            return Err(Reject::Job(JobReject::UnknownJob(name.clone())));
        };
        self.by_name.remove(&image.key);
        self.forget_follower(&image);
        let image = JobImage {
            version: image.version + 1,
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            deleted: true,
            ..image
        };
        turn.out.records.jobs.jobs.insert(no, image.clone());
        let job = Job {
            image: image.clone(),
            schedule: None,
            state: state.clone(),
        };
        self.deleted.insert(no, job);
        self.forget_deleted(no);
        Ok(JobReply::Job(image, state, true))
    }

    pub(super) fn pause(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
        reason: &Arc<str>,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if self.jobs[&no].state.paused.is_some() {
            return Ok(self.shown(no, false));
        }
        self.pass(turn, allowance, no);
        let pause = JobPause {
            since: turn.now,
            by: caller.name.clone(),
            reason: reason.clone(),
        };
        self.change_state(turn, no, |state| state.paused = Some(pause));
        Ok(self.shown(no, true))
    }

    /// Goes on with the next due time: those of the pause are skipped.
    pub(super) fn resume(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        name: &Arc<str>,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if self.jobs[&no].state.paused.is_none() {
            return Ok(self.shown(no, false));
        }
        self.pass(turn, allowance, no);
        self.change_state(turn, no, |state| {
            state.paused = None;
            state.failures = 0;
        });
        self.rearm(turn, allowance, no);
        Ok(self.shown(no, true))
    }

    fn define(&mut self, turn: &mut Turn, image: JobImage, state: JobState) -> JobReply {
        let no = image.no;
        self.by_name.insert(image.key.clone(), no);
        if let Some(before) = self.jobs.remove(&no) {
            self.forget_follower(&before.image);
        }
        self.note_follower(&image);
        turn.out.records.jobs.jobs.insert(no, image.clone());
        let mut job = Job::new(image, state, &self.zones);
        job.state.time_zones = self.zones.release().into();
        self.jobs.insert(no, job);
        self.record_state(turn, no);
        self.set_timer(no);
        // They may take as long as the job says now.
        let open: Vec<RunKey> = self.open_runs(no).map(|run| run.key).collect();
        open.into_iter().for_each(|key| self.set_run_timer(key));
        self.shown(no, true)
    }

    /// The job, if nobody has changed it since.
    fn job_at(
        &self,
        caller: &Caller,
        name: &Arc<str>,
        version: Option<i64>,
    ) -> Result<JobNo, Reject> {
        let no = self.job_of(caller, name)?;
        let present = self.jobs[&no].image.version;
        match version.is_none_or(|version| version == present) {
            true => Ok(no),
            false => Err(Reject::Job(JobReject::JobChanged(present))),
        }
    }

    fn shown(&self, no: JobNo, changed: bool) -> JobReply {
        let job = &self.jobs[&no];
        JobReply::Job(job.image.clone(), job.state.clone(), changed)
    }

    /// The due time of a run that no schedule names: now, unless that is taken, or may be one of a
    /// schedule.
    pub(super) fn unscheduled(&mut self, turn: &mut Turn, no: JobNo) -> Time {
        let mut due = turn.now;
        self.change_state(turn, no, |state| {
            due = due.max(Time(state.last_unscheduled.0 + 1));
            if may_be_scheduled(due) {
                due.0 += 1;
            }
            state.last_unscheduled = due;
        });
        due
    }
}

/// What becomes of a run that does not run when its job is deleted: one that has begun is
/// cancelled.
fn without_job(run: &RunImage) -> RunState {
    match run.attempt {
        0 => RunState::Skipped,
        _ => RunState::Cancelled,
    }
}

fn known_jitter(job: &Job) -> Duration {
    job.image.settings.schedule.jitter
}

/// Whether a job is due at the same times; the jitter only moves its starts.
fn is_due_alike(one: &JobSettings, other: &JobSettings) -> bool {
    let without_jitter = |settings: &JobSettings| ScheduleText {
        jitter: Duration::ZERO,
        ..settings.schedule.clone()
    };
    without_jitter(one) == without_jitter(other)
}
