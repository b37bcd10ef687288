//! Rebuilding jobs from what the journal remembers. What was due meanwhile has its fate when the
//! owner first settles.

use super::{Job, Jobs, Step, open_claim::OpenClaim, wake::Wake};
use crate::core::{
    JobImage, JobState, RecoveredJobs, RunClaim, RunImage, RunKey, RunState, Time,
    model::steady::Pace,
};

impl Jobs {
    /// As of the last durable batch.
    pub(crate) fn restore(now: Time, recovered: RecoveredJobs) -> Self {
        let mut jobs = Jobs {
            shard: recovered.shard,
            agent: recovered.agent,
            last: recovered.last,
            token: recovered.last_token,
            served_since: now,
            owner: recovered.owner,
            unreadable: recovered.unreadable.into_iter().collect(),
            set_aside: recovered.set_aside.into_iter().collect(),
            leases_since: Pace::default().steady(now),
            ..Jobs::default()
        };
        for (image, state) in recovered.jobs {
            jobs.restore_job(now, image, state);
        }
        let mut runs = recovered.runs;
        runs.sort_by_key(|run| run.key);
        for run in runs {
            jobs.restore_run(run);
        }
        for image in recovered.claims {
            jobs.restore_claim(now, image);
        }
        let (deleted, runs) = (&mut jobs.deleted, &jobs.runs);
        deleted.retain(|no, _| runs.range(RunKey::all_of(*no)).next().is_some());
        jobs.find_missing_claims();
        // An earlier owner may have left some of them to a later batch.
        jobs.turns_later();
        jobs
    }

    fn restore_job(&mut self, now: Time, image: JobImage, state: JobState) {
        let no = image.no;
        self.last = self.last.max(no);
        if image.deleted {
            self.deleted.insert(no, Job::new(image, state, &self.zones));
            return;
        }
        self.by_name.insert(image.key.clone(), no);
        self.note_follower(&image);
        let mut job = Job::new(image, state, &self.zones);
        if *job.state.time_zones != *self.zones.release() {
            job.state.next_due = job.next_by_other_time_zones(now);
        }
        // A program of before did not remember it, and no row of a due time is left.
        if job.state.last_due.is_none() {
            job.state.last_due = job.last_by_definition(now);
        }
        self.jobs.insert(no, job);
        self.set_timer(no);
    }

    fn restore_run(&mut self, run: RunImage) {
        if run.state.is_over() {
            return self.asked.remember(run);
        }
        let key = run.key;
        if run.state == RunState::Running
            && let Some(handle) = run.handle
        {
            self.by_handle.insert(handle, key);
            self.check_later(key, handle);
        }
        self.runs.insert(key, run);
        self.set_run_timer(key);
    }

    /// Runs that are claimed must not go on for ever when nothing is known of their claims.
    fn find_missing_claims(&mut self) {
        let is_missing = |run: &&RunImage| {
            let has_one = run.handle.is_some() || self.claims.contains_key(&run.key);
            run.state == RunState::Running && !has_one && self.is_claimed(run.key.job)
        };
        let missing = self.runs.values().filter(is_missing);
        let steps: Vec<Step> = missing.map(|run| Step::FindClaim(run.key)).collect();
        self.steps.extend(steps);
    }

    fn restore_claim(&mut self, now: Time, image: RunClaim) {
        let key = image.run;
        self.token = self.token.max(image.token);
        let run = self.runs.get(&key);
        if run.is_none_or(|run| run.state != RunState::Running) {
            return;
        }
        self.timers.insert((now + image.lease, Wake::Claim(key)));
        let renewed_at = self.pace.steady(now);
        self.claims.insert(key, OpenClaim { image, renewed_at });
    }
}
