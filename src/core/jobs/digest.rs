//! What of jobs must survive a crash: see the digest of the shard.

use super::Jobs;
use crate::core::{AgentImage, JobKey, JobNo, JobState, RunClaim, RunImage, RunKey, RunToken};
use std::collections::BTreeMap;

/// Everything about jobs that a crash must not change. Out, because a recovery may change it: runs
/// that are over and only remembered, and since when somebody serves.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobsDigest {
    /// All jobs: name, version and where they stand.
    pub jobs: BTreeMap<JobNo, (JobKey, i64, JobState)>,
    /// Runs that are not over.
    pub runs: BTreeMap<RunKey, RunImage>,
    /// Claims that have not ended.
    pub claims: BTreeMap<RunKey, RunClaim>,
    /// The token of the last claim.
    pub token: RunToken,
    /// The agent.
    pub agent: AgentImage,
    /// The last job.
    pub last: JobNo,
}

impl Jobs {
    pub(crate) fn digest(&self) -> JobsDigest {
        let jobs = self.jobs.iter().map(|(no, job)| {
            let known = (job.image.key.clone(), job.image.version, job.state.clone());
            (*no, known)
        });
        let claims = self.claims.iter();
        let claims = claims.map(|(key, claim)| (*key, claim.image.clone()));
        JobsDigest {
            jobs: jobs.collect(),
            runs: self.runs.clone(),
            claims: claims.collect(),
            token: self.token,
            agent: self.agent.clone(),
            last: self.last,
        }
    }
}
