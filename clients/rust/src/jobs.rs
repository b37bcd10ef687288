//! Calls of JobService.

use crate::{
    Client, api,
    error::{Error, Result},
};
use prost::Message;

/// Calls by their own names: what is said of each, its RPC, request and response.
macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident($rpc:literal, $request:ident) -> $response:ident;)*) => {
        impl Client {
            $($(#[$meta])*
            pub async fn $name(&self, request: api::$request) -> Result<api::$response> {
                self.job_call($rpc, request).await
            })*
        }
    };
}

calls! {
    /// Defines a job.
    create_job("CreateJob", CreateJobRequest) -> CreateJobResponse;
    /// Puts a definition in place of the present one.
    update_job("UpdateJob", UpdateJobRequest) -> UpdateJobResponse;
    /// Deletes a job.
    delete_job("DeleteJob", DeleteJobRequest) -> DeleteJobResponse;
    /// A job.
    get_job("GetJob", GetJobRequest) -> GetJobResponse;
    /// A page of jobs, by name.
    list_jobs("ListJobs", ListJobsRequest) -> ListJobsResponse;
    /// Starts nothing more of a job.
    pause_job("PauseJob", PauseJobRequest) -> PauseJobResponse;
    /// Goes on with the next due time.
    resume_job("ResumeJob", ResumeJobRequest) -> ResumeJobResponse;
    /// The next due times of a schedule, or of a job.
    preview_schedule("PreviewSchedule", PreviewScheduleRequest) -> PreviewScheduleResponse;
    /// A page of due times with what became of them, newest first.
    list_runs("ListRuns", ListRunsRequest) -> ListRunsResponse;
    /// A run.
    get_run("GetRun", GetRunRequest) -> GetRunResponse;
    /// Cancels a run.
    cancel_run("CancelRun", CancelRunRequest) -> CancelRunResponse;
    /// Has runs for due times in the past.
    backfill_job("BackfillJob", BackfillJobRequest) -> BackfillJobResponse;
    /// Keeps a claim of a run for another lease.
    renew_run("RenewRun", RenewRunRequest) -> RenewRunResponse;
    /// Says how the work of a claimed run went.
    finish_run("FinishRun", FinishRunRequest) -> FinishRunResponse;
    /// Lets jobs fire.
    start_agent("StartAgent", StartAgentRequest) -> StartAgentResponse;
    /// Lets no job fire.
    stop_agent("StopAgent", StopAgentRequest) -> StopAgentResponse;
}

impl Client {
    /// Starts a run of a job now.
    pub async fn run_job(&self, mut request: api::RunJobRequest) -> Result<api::RunJobResponse> {
        if request.request_id.is_empty() {
            request.request_id = self.request_id();
        }
        let id = request.request_id.clone();
        let answered = self.job_call("RunJob", request).await;
        answered.map_err(|error: Error| error.under(id))
    }

    /// Takes a run of a job upon this program, if there is one to be had. A
    /// [`ClaimedRun`](crate::ClaimedRun) made of the answer keeps it.
    pub async fn claim_run(
        &self,
        mut request: api::ClaimRunRequest,
    ) -> Result<api::ClaimRunResponse> {
        if request.request_id.is_empty() {
            request.request_id = self.request_id();
        }
        let id = request.request_id.clone();
        let answered = self.job_call("ClaimRun", request).await;
        answered.map_err(|error: Error| error.under(id))
    }

    async fn job_call<T, R>(&self, rpc: &'static str, request: T) -> Result<R>
    where
        T: Message + 'static,
        R: Message + Default + 'static,
    {
        self.call(format!("/rallypoint.v1.JobService/{rpc}"), request)
            .await
    }
}
