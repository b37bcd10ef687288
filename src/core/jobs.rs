//! Jobs: what is due, and what becomes of each due time.
//!
//! Each due time has a fate as soon as it has passed: a run, or a record of why there is none. The
//! first one whose fate is open is durable, and so is a run before it starts: both are in the batch
//! that opens its scheduler. Schedulers are opened and cancelled by the shard
//! (`shard/job_runs.rs`), which carries out the steps that are left here, in the same batch.
//!
//! A job has one timer at most that counts, and each run too; an older one finds nothing to do. So
//! a job that is not due costs nothing.

mod agent;
mod asked;
mod backfill;
mod claim_end;
mod claims;
mod define;
pub(crate) mod digest;
mod due;
mod ended_claims;
mod failure;
mod follow;
mod job;
mod offers;
mod open_claim;
mod overlap;
mod restore;
mod room;
mod runs;
mod steps;
mod timers;
mod turns;
mod undecided;
mod wake;

use super::{
    AgentImage, Caller, Epoch, Handle, JobCounts, JobImage, JobKey, JobNo, JobReject, JobReply,
    JobState, JobVerb, Reject, Reply, RunImage, RunKey, RunToken, ShardId, Time, Turn,
    fairness::allowance::Allowance,
    model::{
        limits::Limits,
        steady::{Pace, Steady},
    },
    schedule::TimeZones,
};
use asked::Asked;
use ended_claims::EndedClaims;
pub(crate) use failure::Failure;
use job::Job;
use open_claim::OpenClaim;
pub(crate) use room::{Room, limit_reached};
use rustc_hash::FxHashMap;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
pub(crate) use steps::at_due_time;
use wake::Wake;

/// The jobs of one shard.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) shard: ShardId,
    zones: TimeZones,
    jobs: BTreeMap<JobNo, Job>,
    by_name: BTreeMap<JobKey, JobNo>,
    /// Jobs that this version cannot read, or not with all their runs.
    unreadable: BTreeSet<JobKey>,
    /// Schedulers that this owner has set aside.
    set_aside: BTreeSet<Handle>,
    /// Jobs that are deleted, as long as runs of theirs go on.
    deleted: BTreeMap<JobNo, Job>,
    /// Those that follow the job of this name.
    followers: BTreeMap<JobKey, BTreeSet<JobNo>>,
    /// Runs that are not over.
    runs: BTreeMap<RunKey, RunImage>,
    /// Those that run, by their schedulers.
    by_handle: FxHashMap<Handle, RunKey>,
    /// Those that outside programs do.
    claims: BTreeMap<RunKey, OpenClaim>,
    ended_claims: EndedClaims,
    /// Leases of claims count from then at the earliest.
    leases_since: Steady,
    pace: Pace,
    /// Callers cannot reach the service, so that no claim ends for not being renewed.
    in_outage: bool,
    /// The token of the last claim.
    token: RunToken,
    /// Runs that somebody asked for, and that are over.
    asked: Asked,
    /// When to look at a job or a run.
    timers: BTreeSet<(Time, Wake)>,
    /// Those of runs.
    run_timers: FxHashMap<RunKey, Time>,
    /// Jobs whose runs wait until there may be room among the tasks of their namespace, and why.
    no_room: FxHashMap<JobNo, (Time, Arc<str>)>,
    /// What the shard is to do.
    steps: VecDeque<Step>,
    /// Bytes of the tasks of runs that this batch starts.
    started_bytes: usize,
    agent: AgentImage,
    last: JobNo,
    /// Nobody served due times before.
    served_since: Time,
    /// Which owner of the shard this is.
    owner: Epoch,
}

/// Something that the shard is to do.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Open the scheduler of a run, with its tasks.
    Start(RunKey, Room),
    /// Cancel what is left of a scheduler.
    Cancel(Handle),
    /// Find out whether this scheduler of a run is still there.
    Check(RunKey, Handle),
    /// End the claim of a run that is cancelled.
    EndClaim(RunKey),
    /// Deal with a run that is claimed, and whose claim is not known.
    FindClaim(RunKey),
    /// Open the scheduler of the tasks that follow a failure of this job, which may be deleted
    /// before.
    Follow(RunKey, Failure, Arc<JobImage>),
}

type Answered = Result<JobReply, Reject>;

impl Default for Jobs {
    fn default() -> Self {
        Jobs {
            shard: ShardId::default(),
            zones: TimeZones::bundled(),
            jobs: BTreeMap::new(),
            by_name: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            set_aside: BTreeSet::new(),
            deleted: BTreeMap::new(),
            followers: BTreeMap::new(),
            runs: BTreeMap::new(),
            by_handle: FxHashMap::default(),
            claims: BTreeMap::new(),
            ended_claims: EndedClaims::default(),
            leases_since: Steady::default(),
            pace: Pace::default(),
            in_outage: false,
            token: RunToken::default(),
            asked: Asked::default(),
            timers: BTreeSet::new(),
            run_timers: FxHashMap::default(),
            no_room: FxHashMap::default(),
            steps: VecDeque::new(),
            started_bytes: 0,
            agent: AgentImage::default(),
            last: JobNo::default(),
            served_since: Time(0),
            owner: Epoch(0),
        }
    }
}

impl Jobs {
    /// Decides one verb.
    pub(crate) fn decide(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        remembered_since: Time,
        caller: &Caller,
        verb: &JobVerb,
    ) -> Reply {
        self.decide_first(turn, allowance, caller, verb);
        let most = allowance.limits.requests;
        self.asked.forget(remembered_since, most);
        self.forget_claims(remembered_since);
        let answered = match verb {
            JobVerb::Create { name, job } => self.create(turn, allowance.limits, caller, name, job),
            JobVerb::Update { name, job, version } => {
                self.update(turn, allowance, caller, name, job, *version)
            }
            JobVerb::Delete { name, version } => {
                self.delete(turn, allowance, caller, name, *version)
            }
            JobVerb::Pause { name, reason } => self.pause(turn, allowance, caller, name, reason),
            JobVerb::Resume(name) => self.resume(turn, allowance, caller, name),
            JobVerb::Run {
                name,
                request,
                from_order,
            } => self.run_now(turn, allowance, caller, name, (*request, *from_order)),
            JobVerb::CancelRun { name, due } => {
                self.cancel_run(turn, allowance, caller, name, *due)
            }
            JobVerb::Backfill { name, asked } => {
                self.backfill(turn, allowance, caller, name, asked)
            }
            JobVerb::Claim {
                name,
                due,
                claimant,
            } => self.claim_run(turn, allowance, caller, (name, *due), claimant),
            JobVerb::RenewRun { name, due, token } => {
                self.renew_run(turn.now, caller, name, *due, *token)
            }
            JobVerb::FinishRun {
                name,
                due,
                report,
                known,
            } => {
                let known = known.as_deref();
                self.finish_run(turn, allowance, caller, (name, *due), report, known)
            }
            JobVerb::StartAgent => Ok(self.start_agent(turn, caller)),
            JobVerb::StopAgent(stop) => Ok(self.stop_agent(turn, allowance, caller, stop)),
        };
        match answered {
            Ok(reply) => Reply::Job(Box::new(reply)),
            Err(reject) => Reply::Rejected(reject),
        }
    }

    /// The number of a job of the caller's namespace.
    fn job_of(&self, caller: &Caller, name: &Arc<str>) -> Result<JobNo, Reject> {
        let key = key_of(caller, name);
        let reject = || match self.unreadable.contains(&key) {
            true => JobReject::Unreadable,
            false => JobReject::UnknownJob(name.clone()),
        };
        let known = self.by_name.get(&key).copied();
        known.ok_or_else(|| Reject::Job(reject()))
    }

    /// Runs of a job that are not over, by due time.
    fn open_runs(&self, no: JobNo) -> impl Iterator<Item = &RunImage> {
        self.runs.range(RunKey::all_of(no)).map(|(_, run)| run)
    }

    /// Whether nothing of a job may start.
    fn is_held(&self, no: JobNo) -> bool {
        let job = self.jobs.get(&no);
        self.agent.is_stopped || job.is_some_and(|job| job.state.paused.is_some())
    }

    /// Counts over all jobs, in one pass.
    pub(crate) fn counts(&self, now: Time, limits: &Limits) -> JobCounts {
        let running = self.by_handle.len() + self.claims.len();
        let mut counts = JobCounts {
            agent: self.agent.clone(),
            jobs: self.jobs.len(),
            running,
            waiting: self.runs.len() - running,
            unreadable: self.unreadable.len(),
            ..JobCounts::default()
        };
        for job in self.jobs.values() {
            let is_paused = job.state.paused.is_some();
            counts.paused += usize::from(is_paused);
            counts.failing += usize::from(job.state.failures > 0);
            if is_paused || self.agent.is_stopped {
                continue;
            }
            if let Some(at) = job.fires_at() {
                counts.late += usize::from(at + limits.late_start < now);
            }
            // As of each job: its jitter moves only when it starts.
            let due = job.state.next_due.into_iter().chain(counts.next_due);
            counts.next_due = due.min();
        }
        counts
    }

    /// What the shard is to do next.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// The definition of a job, also of a deleted one of which a run goes on.
    pub(crate) fn definition(&self, no: JobNo) -> Option<&JobImage> {
        self.job(no).map(|job| &job.image)
    }

    fn job(&self, no: JobNo) -> Option<&Job> {
        self.jobs.get(&no).or_else(|| self.deleted.get(&no))
    }

    /// The token of the last claim of a run of a job.
    pub(crate) fn last_token(&self, no: JobNo) -> RunToken {
        let job = self.job(no);
        job.map_or_else(RunToken::default, |job| job.state.last_token)
    }

    /// A run that is not over.
    pub(crate) fn run(&self, key: RunKey) -> Option<&RunImage> {
        self.runs.get(&key)
    }

    /// Writes the row of a run with this batch, and what is over leaves memory.
    fn record_run(&mut self, turn: &mut Turn, key: RunKey) {
        let Some(run) = self.runs.get(&key) else {
            return;
        };
        turn.out.records.jobs.runs.insert(key, run.clone());
        if run.state.is_over()
            && let Some(run) = self.runs.remove(&key)
        {
            self.asked.remember(run);
            self.clear_run_timer(key);
            self.forget_deleted(key.job);
        }
    }

    /// Of a deleted job nothing goes on any more.
    fn forget_deleted(&mut self, no: JobNo) {
        if !self.deleted.is_empty() && self.open_runs(no).next().is_none() {
            self.deleted.remove(&no);
        }
    }

    /// Writes where a job stands with this batch.
    fn record_state(&self, turn: &mut Turn, no: JobNo) {
        if let Some(job) = self.jobs.get(&no) {
            let states = &mut turn.out.records.jobs.states;
            states.insert(no, job.state.clone());
        }
    }

    fn change_state(&mut self, turn: &mut Turn, no: JobNo, change: impl FnOnce(&mut JobState)) {
        if let Some(job) = self.jobs.get_mut(&no) {
            let before = job.state.clone();
            change(&mut job.state);
            if job.state != before {
                self.record_state(turn, no);
            }
        }
    }
}

fn key_of(caller: &Caller, name: &Arc<str>) -> JobKey {
    JobKey {
        namespace: caller.namespace.clone(),
        name: name.clone(),
    }
}
