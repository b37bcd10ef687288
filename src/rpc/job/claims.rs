//! Claims of runs by programs outside the service.

use super::{Jobs, convert, errors, mismatched, validate};
use crate::{
    coordinator::CallError,
    core::{
        Caller, Epoch, JobReject, JobReply, JobVerb, KnownClaim, Reject, RunClaimed, RunImage,
        RunKey, RunToken, Time, model::limits::length_text,
    },
};
use rallypoint_client::api;
use std::time::Duration;
use tonic::Status;

/// How often a claim is read that the core has forgotten: once for each owner that takes over
/// meanwhile.
const READINGS: u32 = 10;

impl Jobs {
    pub(super) async fn claim_run(
        &self,
        caller: Caller,
        request: &api::ClaimRunRequest,
    ) -> Result<api::ClaimRunResponse, Status> {
        let verb = validate::claim_run(request)?;
        match self.ask(caller.clone(), verb).await? {
            JobReply::Claimed(claimed, is_new) => {
                Ok(given(&caller, &request.name, &claimed, !is_new))
            }
            JobReply::NotClaimed(in_the_way) => {
                let (run, holder) = match in_the_way {
                    Some((run, claim)) => (Some(run), claim),
                    None => (self.last_run(&caller, &request.name).await?, None),
                };
                Ok(api::ClaimRunResponse {
                    run: run.map(|run| convert::run(&request.name, &run)),
                    holder: holder.as_ref().map(convert::run_claim_of_others),
                    ..api::ClaimRunResponse::default()
                })
            }
            other => Err(mismatched(other)),
        }
    }

    /// The newest due time of a job that has a fate.
    async fn last_run(&self, caller: &Caller, name: &str) -> Result<Option<RunImage>, Status> {
        let job = self.numbered(caller, name).await?;
        let read = self.reader.job_runs(job, Time::NEVER, 1).await;
        Ok(read.map_err(errors::journal)?.pop())
    }

    pub(super) async fn renew_run(
        &self,
        caller: Caller,
        request: &api::RenewRunRequest,
    ) -> Result<api::RenewRunResponse, Status> {
        match self.ask(caller, validate::renew_run(request)?).await? {
            JobReply::Renewed(kept) => Ok(api::RenewRunResponse {
                lease_until: Some(convert::timestamp(kept.lease_until)),
                runtime_left: kept.runtime_left.map(convert::duration),
            }),
            other => Err(mismatched(other)),
        }
    }

    pub(super) async fn finish_run(
        &self,
        caller: Caller,
        request: &api::FinishRunRequest,
    ) -> Result<api::FinishRunResponse, Status> {
        let (name, due, report) = validate::finish_run(request)?;
        let verb = |known| JobVerb::FinishRun {
            name: name.clone(),
            due,
            report: report.clone(),
            known,
        };
        let (mut known, mut readings) = (None, 0);
        let reply = loop {
            let answered = self.coordinator.job(caller.clone(), verb(known)).await;
            match answered {
                // The core has forgotten the claim, or there never was one.
                Err(CallError::Rejected(Reject::Job(JobReject::NoClaim(owner))))
                    if readings < READINGS =>
                {
                    let job = self.numbered(&caller, &name).await?;
                    let key = RunKey { job, due };
                    known = Some(Box::new(self.known(key, report.token, owner).await?));
                    readings += 1;
                }
                answered => break answered.map_err(errors::job::call)?,
            }
        };
        let JobReply::Finished(claim, run, changed) = reply else {
            return Err(mismatched(reply));
        };
        let run = match run {
            Some(run) => Some(run),
            // It is over, and the core remembers only the claim. The report counts, also when the
            // run cannot be read.
            None => {
                let known = self.known(claim.run, claim.token, Epoch(0)).await;
                known.ok().map(|known| known.run)
            }
        };
        Ok(api::FinishRunResponse {
            late: claim.late.is_some(),
            claim: Some(convert::run_claim(&claim)),
            run: run.map(|run| convert::run(&name, &run)),
            already_finished: !changed,
        })
    }

    /// A claim and its run as the journal has them, for this owner.
    async fn known(
        &self,
        key: RunKey,
        token: RunToken,
        owner: Epoch,
    ) -> Result<KnownClaim, Status> {
        let claim = self.reader.run_claim(key, token).await;
        let claim = claim.map_err(errors::journal)?;
        let runs = self.reader.job_runs(key.job, Time(key.due.0 + 1), 1).await;
        let run = runs.map_err(errors::journal)?.pop();
        let run = run.filter(|run| run.key == key);
        let known = claim.zip(run).map(|((claim, is_last), run)| KnownClaim {
            owner,
            claim,
            is_last,
            run,
        });
        known.ok_or_else(|| errors::job::unknown_run("the run has no claim with this token"))
    }
}

fn given(
    caller: &Caller,
    name: &str,
    claimed: &RunClaimed,
    repeated: bool,
) -> api::ClaimRunResponse {
    api::ClaimRunResponse {
        claim: Some(convert::run_claim(&claimed.claim)),
        run: Some(convert::run(name, &claimed.run)),
        holder: None,
        lease_until: Some(convert::timestamp(claimed.kept.lease_until)),
        runtime_left: claimed.kept.runtime_left.map(convert::duration),
        warning: warning(claimed),
        repeated,
        namespace: caller.namespace.0.to_string(),
    }
}

/// What is left of the time for claims is shorter than the work may take.
fn warning(claimed: &RunClaimed) -> String {
    let (Some(closes), Some(longest)) = (claimed.run.closes, claimed.max_runtime) else {
        return String::new();
    };
    let left = closes.since(claimed.claim.claimed_at);
    if left >= longest {
        return String::new();
    }
    format!(
        "the run may be claimed for {} more, until its window closes or the next one is due, which \
         is less than max_runtime ({}): if this claim is lost, nobody else may be in time",
        length_text(Duration::from_secs(left.as_secs())),
        length_text(longest)
    )
}
