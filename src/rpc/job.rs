//! JobService. Any replica takes a call. What changes something the owner of the shard answers;
//! what only looks is read from the journal, by whichever replica is asked.

mod backfill;
mod calls;
mod claims;

use super::{
    auth::Auth,
    convert, errors,
    forwarding::{
        route::Route,
        unary::{Endpoint, Unary},
    },
    unfetched::Turn,
    validate::{Targets, job as validate},
};
use crate::{
    coordinator::Coordinator,
    core::{
        Caller, JobImage, JobNo, JobReply, JobState, JobVerb, Reply, RunKey, Time,
        schedule::{DueTime, TimeZones},
    },
    journal::Reader,
};
use jiff::Timestamp;
use prost::Message;
use rallypoint_client::api::{self, job_service_server::JobService};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Jobs that are read at a time for a page: a definition may have some hundred KiB of dates.
const JOBS_PER_READ: usize = 50;
/// Size at which a page of jobs ends.
const MAX_PAGE_BYTES: usize = 1 << 20;
/// Claims that are told of a run, the newest ones.
const CLAIMS_SHOWN: i64 = 500;

/// The service of this replica, or of its peer port.
#[derive(Clone)]
pub(super) struct Jobs {
    pub coordinator: Coordinator,
    /// Reads the journal.
    pub reader: Reader,
    pub auth: Auth,
    /// Targets of this replica.
    pub targets: Targets,
    /// Cancelled when the server shuts down.
    pub stopping: CancellationToken,
    /// Route to the owner; `None`: this replica answers itself, as the owner does another one.
    pub route: Option<Route>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl JobService for Jobs {
    async fn create_job(
        &self,
        request: Request<api::CreateJobRequest>,
    ) -> Answer<api::CreateJobResponse> {
        self.answer(request).await
    }

    async fn update_job(
        &self,
        request: Request<api::UpdateJobRequest>,
    ) -> Answer<api::UpdateJobResponse> {
        self.answer(request).await
    }

    async fn delete_job(
        &self,
        request: Request<api::DeleteJobRequest>,
    ) -> Answer<api::DeleteJobResponse> {
        self.answer(request).await
    }

    async fn run_job(&self, request: Request<api::RunJobRequest>) -> Answer<api::RunJobResponse> {
        self.answer(request).await
    }

    async fn pause_job(
        &self,
        request: Request<api::PauseJobRequest>,
    ) -> Answer<api::PauseJobResponse> {
        self.answer(request).await
    }

    async fn resume_job(
        &self,
        request: Request<api::ResumeJobRequest>,
    ) -> Answer<api::ResumeJobResponse> {
        self.answer(request).await
    }

    async fn cancel_run(
        &self,
        request: Request<api::CancelRunRequest>,
    ) -> Answer<api::CancelRunResponse> {
        self.answer(request).await
    }

    async fn backfill_job(
        &self,
        request: Request<api::BackfillJobRequest>,
    ) -> Answer<api::BackfillJobResponse> {
        self.answer(request).await
    }

    async fn claim_run(
        &self,
        request: Request<api::ClaimRunRequest>,
    ) -> Answer<api::ClaimRunResponse> {
        self.answer(request).await
    }

    async fn renew_run(
        &self,
        request: Request<api::RenewRunRequest>,
    ) -> Answer<api::RenewRunResponse> {
        self.answer(request).await
    }

    async fn finish_run(
        &self,
        request: Request<api::FinishRunRequest>,
    ) -> Answer<api::FinishRunResponse> {
        self.answer(request).await
    }

    async fn start_agent(
        &self,
        request: Request<api::StartAgentRequest>,
    ) -> Answer<api::StartAgentResponse> {
        self.answer(request).await
    }

    async fn stop_agent(
        &self,
        request: Request<api::StopAgentRequest>,
    ) -> Answer<api::StopAgentResponse> {
        self.answer(request).await
    }

    async fn get_job(&self, request: Request<api::GetJobRequest>) -> Answer<api::GetJobResponse> {
        let (caller, request) = self.in_turn(request).await?;
        let (image, state) = self.stored(&caller, &request.name).await?;
        Ok(Response::new(api::GetJobResponse {
            job: Some(convert::job(&image, &state, true)),
        }))
    }

    async fn list_jobs(
        &self,
        request: Request<api::ListJobsRequest>,
    ) -> Answer<api::ListJobsResponse> {
        let (caller, request) = self.in_turn(request).await?;
        let (size, after) = validate::list_jobs(&request)?;
        let page = self.page(&caller, size, after).await?;
        Ok(Response::new(page))
    }

    async fn preview_schedule(
        &self,
        request: Request<api::PreviewScheduleRequest>,
    ) -> Answer<api::PreviewScheduleResponse> {
        let (caller, request) = self.in_turn(request).await?;
        self.preview(caller, request).await.map(Response::new)
    }

    async fn list_runs(
        &self,
        request: Request<api::ListRunsRequest>,
    ) -> Answer<api::ListRunsResponse> {
        let (caller, request) = self.in_turn(request).await?;
        let (name, size, before) = validate::list_runs(&request)?;
        let job = self.numbered(&caller, &name).await?;
        let page = self.reader.run_page(job, before, size).await;
        let page = page.map_err(errors::journal)?;
        let runs = page.items.iter();
        Ok(Response::new(api::ListRunsResponse {
            next_page_token: page.next.map_or_else(String::new, |due| due.0.to_string()),
            runs: runs.map(|run| convert::run(&name, run)).collect(),
        }))
    }

    async fn get_run(&self, request: Request<api::GetRunRequest>) -> Answer<api::GetRunResponse> {
        let (caller, request) = self.in_turn(request).await?;
        let (name, due) = validate::run_of(&request.name, request.due.as_ref())?;
        let job = self.numbered(&caller, &name).await?;
        let run = self.reader.run_of(RunKey { job, due }).await;
        let run = run.map_err(errors::journal)?;
        let run = run.ok_or_else(|| errors::job::unknown_run("the job has no such run"))?;
        let claims = self.reader.run_claims(run.key, CLAIMS_SHOWN).await;
        let claims = claims.map_err(errors::journal)?;
        Ok(Response::new(api::GetRunResponse {
            run: Some(convert::run(&name, &run)),
            claims: claims.iter().map(convert::run_claim_of_others).collect(),
        }))
    }
}

impl Jobs {
    /// Who asks and for what, once it is their turn to be answered.
    async fn in_turn<T>(&self, request: Request<T>) -> Result<(Caller, T), Status> {
        let caller = self.auth.caller(&request)?;
        let (_, extensions, asked) = request.into_parts();
        Turn::come_to(&extensions, &caller).await?;
        Ok((caller, asked))
    }

    async fn answer<C: Unary<Jobs>>(&self, request: Request<C>) -> Answer<C::Response> {
        let endpoint = Endpoint {
            here: self,
            auth: &self.auth,
            route: self.route.as_ref(),
            stopping: &self.stopping,
        };
        endpoint.answer(request).await
    }

    async fn ask(&self, caller: Caller, verb: JobVerb) -> Result<JobReply, Status> {
        let replied = self.coordinator.job(caller, verb).await;
        replied.map_err(errors::job::call)
    }

    /// Verbs that are answered with the job, and whether they have changed something.
    async fn job(&self, caller: Caller, verb: JobVerb) -> Result<(api::Job, bool), Status> {
        match self.ask(caller, verb).await? {
            JobReply::Job(image, state, changed) => {
                Ok((convert::job(&image, &state, true), changed))
            }
            other => Err(mismatched(other)),
        }
    }

    /// Verbs that are answered with a run, and whether they have changed something.
    async fn run(
        &self,
        caller: Caller,
        name: &str,
        verb: JobVerb,
    ) -> Result<(api::JobRun, bool), Status> {
        match self.ask(caller, verb).await? {
            JobReply::Run(run, changed) => Ok((convert::run(name, &run), changed)),
            other => Err(mismatched(other)),
        }
    }

    /// Verbs that are answered with the agent, whether they have changed something, and whether
    /// they are to go on.
    async fn agent(
        &self,
        caller: Caller,
        verb: JobVerb,
    ) -> Result<(api::Agent, bool, Option<Time>), Status> {
        match self.ask(caller, verb).await? {
            JobReply::Agent(view, changed) => {
                let runs = view.running.iter();
                let agent = api::Agent {
                    runs: runs
                        .map(|(key, run)| convert::run(&key.name, run))
                        .collect(),
                    ..convert::agent(&view.image, view.count)
                };
                Ok((agent, changed, view.goes_on))
            }
            other => Err(mismatched(other)),
        }
    }

    /// A job as the journal has it.
    async fn stored(&self, caller: &Caller, name: &str) -> Result<(JobImage, JobState), Status> {
        let name = validate::named(name)?;
        let read = self.reader.job(&caller.namespace, &name).await;
        let job = read.map_err(errors::journal)?;
        job.ok_or_else(|| errors::job::unknown(&name))
    }

    /// Jobs after a name. The page ends when it is full, or large.
    async fn page(
        &self,
        caller: &Caller,
        size: usize,
        after: &str,
    ) -> Result<api::ListJobsResponse, Status> {
        let mut list = api::ListJobsResponse {
            next_page_token: after.to_owned(),
            ..Default::default()
        };
        let mut bytes = 0;
        loop {
            let most = JOBS_PER_READ.min(size - list.jobs.len());
            let after = &list.next_page_token;
            let page = self.reader.jobs(&caller.namespace, after, most).await;
            let page = page.map_err(errors::journal)?;
            for (image, state) in &page.items {
                let job = convert::job(image, state, false);
                bytes += job.encoded_len();
                list.jobs.push(job);
                if bytes > MAX_PAGE_BYTES {
                    list.next_page_token = image.key.name.to_string();
                    return Ok(list);
                }
            }
            list.next_page_token = page.next.unwrap_or_default();
            if list.next_page_token.is_empty() || list.jobs.len() == size {
                return Ok(list);
            }
        }
    }

    /// The number of a job, for those who need no more of it.
    async fn numbered(&self, caller: &Caller, name: &str) -> Result<JobNo, Status> {
        let name = validate::named(name)?;
        let read = self.reader.job_no(&caller.namespace, &name).await;
        let job = read.map_err(errors::journal)?;
        job.ok_or_else(|| errors::job::unknown(&name))
    }

    async fn preview(
        &self,
        caller: Caller,
        request: api::PreviewScheduleRequest,
    ) -> Result<api::PreviewScheduleResponse, Status> {
        use api::preview_schedule_request::Of;
        let (given, count, after) = validate::preview(&request)?;
        let zones = TimeZones::bundled();
        let schedule = match (given, &request.of) {
            (None, Some(Of::Name(name))) => {
                let (job, _) = self.stored(&caller, name).await?;
                job.settings.schedule.check(&zones).ok()
            }
            (given, _) => given,
        };
        let after = after.unwrap_or_else(|| self.coordinator.clock().now());
        let after = Timestamp::from_microsecond(after.0).unwrap_or(Timestamp::MAX);
        let due: Vec<DueTime> = schedule.map_or_else(Vec::new, |schedule| {
            let times = schedule.due_times(after).filter(DueTime::is_due);
            times.filter(|due| due.at > after).take(count).collect()
        });
        Ok(api::PreviewScheduleResponse {
            due_times: due.iter().map(convert::due_time).collect(),
            time_zones: zones.release().to_owned(),
        })
    }
}

/// The core answered something else than was asked.
fn mismatched(reply: JobReply) -> Status {
    errors::mismatched_reply(&Reply::Job(Box::new(reply)))
}
