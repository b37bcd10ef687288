//! Runs that outside programs do: offered when they are due, claimed by one at a time, kept by
//! renewing the claim, and offered again while their window lasts when the claim is lost.
//!
//! Renewing is in memory alone: after a recovery, and after an outage, every claim has a whole
//! lease before it.

use super::{Answered, Jobs, open_claim::OpenClaim, wake::Wake};
use crate::core::{
    Caller, Claimant, JobNo, JobReject, JobReply, Overlap, Reject, RunClaim, RunClaimOutcome,
    RunClaimed, RunImage, RunKept, RunKey, RunState, RunToken, Time, Turn, command::may_go_on_for,
    fairness::allowance::Allowance,
};
use std::sync::Arc;

/// Refused to other identities than the one that made the claim.
pub(super) fn check_is_of(claim: &RunClaim, caller: &Caller) -> Result<(), Reject> {
    match may_go_on_for(&claim.caller, &caller.name) {
        true => Ok(()),
        false => Err(Reject::Job(JobReject::ClaimOfAnother)),
    }
}

impl Jobs {
    /// Whether outside programs do the runs of a job.
    pub(super) fn is_claimed(&self, no: JobNo) -> bool {
        let job = self.jobs.get(&no);
        job.is_some_and(|job| job.image.settings.claimed)
    }

    /// Gives a run to a caller, or says who has it.
    pub(super) fn claim_run(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        caller: &Caller,
        (name, due): (&Arc<str>, Option<Time>),
        claimant: &Claimant,
    ) -> Answered {
        let no = self.job_of(caller, name)?;
        if !self.is_claimed(no) {
            return Err(Reject::Job(JobReject::NotForClaims));
        }
        if let Some(request) = claimant.request {
            let mut open = self.claims.range_mut(RunKey::all_of(no));
            let same = open.find(|(_, claim)| claim.image.request == Some(request));
            if let Some((&key, claim)) = same {
                let image = &claim.image;
                let is_same = may_go_on_for(&image.caller, &caller.name)
                    && due.is_none_or(|due| due == key.due)
                    && (&image.owner, image.lease) == (&claimant.owner, claimant.lease);
                if !is_same {
                    return Err(Reject::RequestIdReused);
                }
                claim.renewed_at = self.pace.steady(turn.now);
                return Ok(self.claimed(turn.now, key, false));
            }
        }
        if !self.is_held(no) {
            self.pass(turn, allowance, no);
        }
        self.close_unclaimed(turn, allowance.limits, no);
        match self.claimable(no, due) {
            Some(key) => {
                self.give(turn, caller, key, claimant);
                Ok(self.claimed(turn.now, key, true))
            }
            None => Ok(JobReply::NotClaimed(self.in_the_way(no, due))),
        }
    }

    fn give(&mut self, turn: &mut Turn, caller: &Caller, key: RunKey, claimant: &Claimant) {
        self.token.0 += 1;
        let token = self.token;
        let Some(run) = self.runs.get_mut(&key) else {
            return;
        };
        let said = [&claimant.owner, &caller.name].into_iter();
        let by = said.into_iter().find(|text| !text.is_empty());
        run.attempt += 1;
        run.state = RunState::Running;
        run.reason = None;
        run.detail = "".into();
        run.by = by.cloned().unwrap_or_default();
        run.handle = None;
        run.started_at = Some(turn.now);
        run.next_attempt_at = None;
        (run.failed, run.cancelled) = (0, 0);
        let image = RunClaim {
            run: key,
            token,
            owner: claimant.owner.clone(),
            caller: caller.name.clone(),
            request: claimant.request,
            lease: claimant.lease,
            claimed_at: turn.now,
            end: None,
            late: None,
        };
        self.record_claim(turn, &image);
        let renewed_at = self.pace.steady(turn.now);
        self.claims.insert(key, OpenClaim { image, renewed_at });
        self.change_state(turn, key.job, |state| state.last_token = token);
        self.record_run(turn, key);
        self.set_run_timer(key);
        let until = turn.now + claimant.lease;
        self.timers.insert((until, Wake::Claim(key)));
    }

    fn claimed(&self, now: Time, key: RunKey, is_new: bool) -> JobReply {
        let claim = &self.claims[&key];
        let job = self.jobs.get(&key.job);
        let claimed = RunClaimed {
            claim: claim.image.clone(),
            run: self.runs[&key].clone(),
            kept: self.kept(now, claim),
            max_runtime: job.and_then(|job| job.image.settings.max_runtime),
        };
        JobReply::Claimed(claimed, is_new)
    }

    fn kept(&self, now: Time, claim: &OpenClaim) -> RunKept {
        let times_out = self.times_out_at(claim.image.run);
        RunKept {
            lease_until: claim.lease_until(&self.pace, self.leases_since),
            runtime_left: times_out.map(|at| at.since(now)),
        }
    }

    /// The oldest run that may be claimed.
    fn claimable(&self, no: JobNo, due: Option<Time>) -> Option<RunKey> {
        let job = self.jobs.get(&no)?;
        let is_it = |key: &RunKey| due.is_none_or(|due| due == key.due);
        if job.image.settings.overlap != Overlap::Allow {
            return self.next_turn(no).filter(is_it);
        }
        let may = |run: &&RunImage| {
            run.state == RunState::Waiting && self.may_start(run) && self.is_free_for(run)
        };
        let mut offered = self.open_runs(no).filter(may).map(|run| run.key);
        offered.find(is_it)
    }

    /// The run that somebody has, or that keeps others waiting.
    fn in_the_way(&self, no: JobNo, due: Option<Time>) -> Option<(RunImage, Option<RunClaim>)> {
        let is_it = |run: &&RunImage| due.is_none_or(|due| due == run.key.due);
        let mut open = self.open_runs(no).filter(is_it);
        let has_begun = |run: &RunImage| run.state != RunState::Waiting;
        let begun = self
            .open_runs(no)
            .filter(is_it)
            .find(|run| has_begun(run))
            .or_else(|| open.next())?;
        let claim = self.claims.get(&begun.key);
        Some((begun.clone(), claim.map(|claim| claim.image.clone())))
    }

    /// Keeps a claim for another lease.
    pub(super) fn renew_run(
        &mut self,
        now: Time,
        caller: &Caller,
        name: &Arc<str>,
        due: Time,
        token: RunToken,
    ) -> Answered {
        let key = RunKey {
            job: self.job_of(caller, name)?,
            due,
        };
        let claim = self.claims.get_mut(&key);
        let Some(claim) = claim.filter(|claim| claim.image.token == token) else {
            return Err(self.no_claim());
        };
        check_is_of(&claim.image, caller)?;
        claim.renewed_at = self.pace.steady(now);
        Ok(JobReply::Renewed(self.kept(now, &self.claims[&key])))
    }

    /// A lease may be over.
    pub(super) fn wake_claim(
        &mut self,
        turn: &mut Turn,
        allowance: &mut Allowance<'_>,
        key: RunKey,
    ) {
        let Some(claim) = self.claims.get(&key) else {
            return;
        };
        let until = match self.in_outage {
            true => turn.now + claim.image.lease,
            false => claim.lease_until(&self.pace, self.leases_since),
        };
        if until > turn.now {
            self.timers.insert((until, Wake::Claim(key)));
        } else {
            self.end_claim(turn, allowance, key, RunClaimOutcome::Lost, "".into());
        }
    }

    /// Callers cannot reach the service, so that no claim ends for not being renewed; or they can
    /// again, and every claim has a whole lease.
    pub(crate) fn set_outage(&mut self, now: Time, in_outage: bool) {
        if std::mem::replace(&mut self.in_outage, in_outage) && !in_outage {
            self.renew_claims(now);
        }
    }

    /// Gives every claim a whole lease.
    pub(crate) fn renew_claims(&mut self, now: Time) {
        self.leases_since = self.leases_since.max(self.pace.steady(now));
    }

    /// How far the time of the service leads time as it passes: leases count by the latter.
    pub(crate) fn set_lead(&mut self, lead: i64) {
        self.pace.set_lead(lead);
    }
}
