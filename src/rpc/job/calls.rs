//! The calls of JobService that the owner answers: what each does here, and by its own name the
//! call that sends it to the owner.

use super::{Jobs, convert, validate};
use crate::{
    core::{Caller, JobVerb, StopAgent},
    rpc::{errors, forwarding::unary::unary_calls},
};
use rallypoint_client::api::{self, job_service_client::JobServiceClient};
use tonic::Status;

unary_calls! {
    Jobs, JobServiceClient:
    create_job(CreateJobRequest) -> CreateJobResponse, of "job" name, dry if validate_only;
    update_job(UpdateJobRequest) -> UpdateJobResponse, of "job" name;
    delete_job(DeleteJobRequest) -> DeleteJobResponse, of "job" name, deletes name;
    run_job(RunJobRequest) -> RunJobResponse, of "job" name, creates by request_id;
    pause_job(PauseJobRequest) -> PauseJobResponse, of "job" name since reason;
    resume_job(ResumeJobRequest) -> ResumeJobResponse, of "job" name;
    cancel_run(CancelRunRequest) -> CancelRunResponse, of "job" name, deletes name;
    backfill_job(BackfillJobRequest) -> BackfillJobResponse, of "job" name, dry if dry_run;
    claim_run(ClaimRunRequest) -> ClaimRunResponse, creates by request_id;
    renew_run(RenewRunRequest) -> RenewRunResponse;
    finish_run(FinishRunRequest) -> FinishRunResponse;
    start_agent(StartAgentRequest) -> StartAgentResponse, about "agent";
    stop_agent(StopAgentRequest) -> StopAgentResponse, about "agent" since reason;
}

impl Jobs {
    async fn create_job(
        &self,
        caller: Caller,
        request: &api::CreateJobRequest,
    ) -> Result<api::CreateJobResponse, Status> {
        let verb = validate::create(request, &self.targets.of(&caller.namespace))?;
        if let (true, JobVerb::Create { name, job }) = (request.validate_only, &verb) {
            return Ok(api::CreateJobResponse {
                job: Some(convert::planned_job(name, job)),
                already_exists: false,
            });
        }
        let (job, changed) = self.job(caller, verb).await?;
        Ok(api::CreateJobResponse {
            job: Some(job),
            already_exists: !changed,
        })
    }

    async fn update_job(
        &self,
        caller: Caller,
        request: &api::UpdateJobRequest,
    ) -> Result<api::UpdateJobResponse, Status> {
        let verb = validate::update(request, &self.targets.of(&caller.namespace))?;
        let (job, changed) = self.job(caller, verb).await?;
        Ok(api::UpdateJobResponse {
            job: Some(job),
            unchanged: !changed,
        })
    }

    async fn delete_job(
        &self,
        caller: Caller,
        request: &api::DeleteJobRequest,
    ) -> Result<api::DeleteJobResponse, Status> {
        let verb = validate::delete(request)?;
        // Nothing is deleted before it is decided how its runs have ended, batch by batch.
        loop {
            let (_, is_deleted) = self.job(caller.clone(), verb.clone()).await?;
            if is_deleted {
                return Ok(api::DeleteJobResponse {});
            }
        }
    }

    async fn run_job(
        &self,
        caller: Caller,
        request: &api::RunJobRequest,
    ) -> Result<api::RunJobResponse, Status> {
        let verb = validate::run(request)?;
        let (run, changed) = self.run(caller, &request.name, verb).await?;
        Ok(api::RunJobResponse {
            run: Some(run),
            repeated: !changed,
        })
    }

    async fn pause_job(
        &self,
        caller: Caller,
        request: &api::PauseJobRequest,
    ) -> Result<api::PauseJobResponse, Status> {
        let (job, changed) = self.job(caller, validate::pause(request)?).await?;
        Ok(api::PauseJobResponse {
            job: Some(job),
            already_paused: !changed,
        })
    }

    async fn resume_job(
        &self,
        caller: Caller,
        request: &api::ResumeJobRequest,
    ) -> Result<api::ResumeJobResponse, Status> {
        let (job, changed) = self.job(caller, validate::resume(request)?).await?;
        Ok(api::ResumeJobResponse {
            job: Some(job),
            already_resumed: !changed,
        })
    }

    async fn cancel_run(
        &self,
        caller: Caller,
        request: &api::CancelRunRequest,
    ) -> Result<api::CancelRunResponse, Status> {
        let verb = validate::cancel_run(request)?;
        let (run, _) = self.run(caller, &request.name, verb).await?;
        Ok(api::CancelRunResponse { run: Some(run) })
    }

    async fn start_agent(
        &self,
        caller: Caller,
        _: &api::StartAgentRequest,
    ) -> Result<api::StartAgentResponse, Status> {
        let by = caller.name.clone();
        let (agent, changed, _) = self.agent(caller, JobVerb::StartAgent).await?;
        if changed {
            tracing::warn!(%by, "an operator starts the agent: jobs fire");
        }
        Ok(api::StartAgentResponse {
            agent: Some(agent),
            already_started: !changed,
        })
    }

    async fn stop_agent(
        &self,
        caller: Caller,
        request: &api::StopAgentRequest,
    ) -> Result<api::StopAgentResponse, Status> {
        let by = caller.name.clone();
        let mut stop = validate::stop_agent(request)?;
        let verb = JobVerb::StopAgent(stop.clone());
        let (mut agent, mut changed, mut goes_on) = self.agent(caller.clone(), verb).await?;
        while goes_on.is_some() {
            stop.goes_on = goes_on;
            let verb = JobVerb::StopAgent(stop.clone());
            let again = self.agent(caller.clone(), verb).await;
            let (now, has_changed, more) = match stop.goes_on {
                Some(StopAgent::NOT_YET) => again?,
                _ => again.map_err(errors::after_effect)?,
            };
            (agent, goes_on) = (now, more);
            changed |= has_changed;
        }
        if changed {
            let reason = &request.reason;
            tracing::warn!(%by, reason, "an operator stops the agent: no job fires");
        }
        Ok(api::StopAgentResponse {
            agent: Some(agent),
            already_stopped: !changed,
        })
    }
}
