"""The methods of the service that are called here, with their messages."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from rallypoint.v1 import job_pb2 as job
from rallypoint.v1 import resource_pb2 as resource
from rallypoint.v1 import scheduler_pb2 as scheduler

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """A method: its path, and the types of what is sent and answered."""

    path: str
    request: type[Request]
    response: type[Response]

    @property
    def name(self) -> str:
        """Its name without that of the service."""
        return self.path.rpartition("/")[2]


def _of_schedulers(request: type[Request], response: type[Response]) -> Method[Request, Response]:
    return _method("SchedulerService", request, response)


def _of_resources(request: type[Request], response: type[Response]) -> Method[Request, Response]:
    return _method("ResourceService", request, response)


def _of_jobs(request: type[Request], response: type[Response]) -> Method[Request, Response]:
    return _method("JobService", request, response)


def _method(
    service: str, request: type[Request], response: type[Response]
) -> Method[Request, Response]:
    rpc = request.__name__.removesuffix("Request")
    return Method(f"/rallypoint.v1.{service}/{rpc}", request, response)


GET_SCHEDULER = _of_schedulers(scheduler.GetSchedulerRequest, scheduler.GetSchedulerResponse)
EXEC_ASYNC = _of_schedulers(scheduler.ExecAsyncRequest, scheduler.ExecAsyncResponse)
SYNCHRONIZATION = _of_schedulers(
    scheduler.SynchronizationRequest, scheduler.SynchronizationResponse
)
RELEASE_SCHEDULER = _of_schedulers(
    scheduler.ReleaseSchedulerRequest, scheduler.ReleaseSchedulerResponse
)
DESCRIBE_SCHEDULER = _of_schedulers(
    scheduler.DescribeSchedulerRequest, scheduler.DescribeSchedulerResponse
)
PAUSE_SCHEDULER = _of_schedulers(scheduler.PauseSchedulerRequest, scheduler.PauseSchedulerResponse)
RESUME_SCHEDULER = _of_schedulers(
    scheduler.ResumeSchedulerRequest, scheduler.ResumeSchedulerResponse
)
UPDATE_SCHEDULER = _of_schedulers(
    scheduler.UpdateSchedulerRequest, scheduler.UpdateSchedulerResponse
)
CANCEL_TASK = _of_schedulers(scheduler.CancelTaskRequest, scheduler.CancelTaskResponse)
RETRY_TASK = _of_schedulers(scheduler.RetryTaskRequest, scheduler.RetryTaskResponse)
GET_TASK = _of_schedulers(scheduler.GetTaskRequest, scheduler.GetTaskResponse)

CREATE_RESOURCE = _of_resources(resource.CreateResourceRequest, resource.CreateResourceResponse)
DELETE_RESOURCE = _of_resources(resource.DeleteResourceRequest, resource.DeleteResourceResponse)
ACQUIRE = _of_resources(resource.AcquireRequest, resource.AcquireResponse)
TRY_ACQUIRE = _of_resources(resource.TryAcquireRequest, resource.TryAcquireResponse)
GET_CLAIM = _of_resources(resource.GetClaimRequest, resource.GetClaimResponse)
RENEW = _of_resources(resource.RenewRequest, resource.RenewResponse)
RELEASE = _of_resources(resource.ReleaseRequest, resource.ReleaseResponse)

CLAIM_RUN = _of_jobs(job.ClaimRunRequest, job.ClaimRunResponse)
RENEW_RUN = _of_jobs(job.RenewRunRequest, job.RenewRunResponse)
FINISH_RUN = _of_jobs(job.FinishRunRequest, job.FinishRunResponse)
