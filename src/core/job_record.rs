//! What is remembered of jobs: definitions, where each stands, what became of each due time, and
//! whether the agent fires: all as whole images.

use super::{
    AgentImage, Epoch, Handle, JobImage, JobKey, JobNo, JobState, RunClaim, RunImage, RunKey,
    RunToken, ShardId,
};
use std::collections::{BTreeMap, BTreeSet};

/// The records of one batch about jobs, the last image of each.
#[derive(Clone, Debug, Default)]
pub struct JobRecords {
    /// Changed definitions.
    pub jobs: BTreeMap<JobNo, JobImage>,
    /// Where jobs stand.
    pub states: BTreeMap<JobNo, JobState>,
    /// Due times, and what became of them.
    pub runs: BTreeMap<RunKey, RunImage>,
    /// Those of `runs` that stood for more due times before: nothing new has become of them.
    pub cut: BTreeSet<RunKey>,
    /// Claims of runs.
    pub claims: BTreeMap<(RunKey, RunToken), RunClaim>,
    /// The agent.
    pub agent: Option<AgentImage>,
}

/// What a recovery reads.
#[derive(Clone, Debug, Default)]
pub struct RecoveredJobs {
    /// Whose jobs they are.
    pub shard: ShardId,
    /// The owner of the shard that takes them over.
    pub owner: Epoch,
    /// Jobs that are not deleted, with where they stand.
    pub jobs: Vec<(JobImage, JobState)>,
    /// Those that this version cannot read, or not with all their runs: their names are taken.
    pub unreadable: Vec<JobKey>,
    /// Schedulers that the owner has set aside, those of runs among them.
    pub set_aside: Vec<Handle>,
    /// Runs that are not over, and those of late that somebody asked for.
    pub runs: Vec<RunImage>,
    /// Claims of runs that have not ended.
    pub claims: Vec<RunClaim>,
    /// The agent.
    pub agent: AgentImage,
    /// The last job so far.
    pub last: JobNo,
    /// The token of the last claim so far.
    pub last_token: RunToken,
}

impl JobRecords {
    /// Nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.states.is_empty()
            && self.runs.is_empty()
            && self.claims.is_empty()
            && self.agent.is_none()
    }
}

impl RecoveredJobs {
    /// Takes in what a batch writes, as the journal does.
    #[doc(hidden)]
    pub fn remember(&mut self, records: &JobRecords) {
        for (no, image) in &records.jobs {
            self.last = self.last.max(*no);
            let known = self.jobs.iter().position(|(job, _)| job.no == *no);
            let state = known.map(|at| self.jobs.remove(at).1).unwrap_or_default();
            self.jobs.push((image.clone(), state));
        }
        for (no, state) in &records.states {
            self.last_token = self.last_token.max(state.last_token);
            if let Some(job) = self.jobs.iter_mut().find(|(job, _)| job.no == *no) {
                job.1 = state.clone();
            }
        }
        for (key, image) in &records.runs {
            self.runs.retain(|run| run.key != *key);
            if !image.state.is_over() || image.request.is_some() {
                self.runs.push(image.clone());
            }
        }
        // Of a deleted job, what goes on ends by its definition.
        let is_open = |no| {
            let mut runs = self.runs.iter();
            runs.any(|run| run.key.job == no && !run.state.is_over())
        };
        self.jobs.retain(|(job, _)| !job.deleted || is_open(job.no));
        for (id, claim) in &records.claims {
            self.claims.retain(|known| (known.run, known.token) != *id);
            self.claims
                .extend(Some(claim).filter(|claim| claim.end.is_none()).cloned());
        }
        if let Some(agent) = &records.agent {
            self.agent = agent.clone();
        }
    }
}
