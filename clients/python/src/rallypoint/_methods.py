"""The methods of the service that are called here, with their messages; `_runs.py` has its own."""

from typing import Generic, TypeVar

from google.protobuf.message import Message

from rallypoint.v1 import resource_pb2 as resource
from rallypoint.v1 import scheduler_pb2 as scheduler

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Method(Generic[Request, Response]):
    """A method: its path, and the types of what is sent and answered."""

    def __init__(self, service: str, request: type[Request], response: type[Response]) -> None:
        #: Its name without that of the service.
        self.name = request.__name__.removesuffix("Request")
        self.path = f"/rallypoint.v1.{service}/{self.name}"
        self.request, self.response = request, response
        self.is_delete = self.name.startswith("Delete")


_SCHEDULERS, _RESOURCES = "SchedulerService", "ResourceService"

GET_SCHEDULER = Method(_SCHEDULERS, scheduler.GetSchedulerRequest, scheduler.GetSchedulerResponse)
EXEC_ASYNC = Method(_SCHEDULERS, scheduler.ExecAsyncRequest, scheduler.ExecAsyncResponse)
SYNCHRONIZATION = Method(
    _SCHEDULERS, scheduler.SynchronizationRequest, scheduler.SynchronizationResponse
)
RELEASE_SCHEDULER = Method(
    _SCHEDULERS, scheduler.ReleaseSchedulerRequest, scheduler.ReleaseSchedulerResponse
)
DESCRIBE_SCHEDULER = Method(
    _SCHEDULERS, scheduler.DescribeSchedulerRequest, scheduler.DescribeSchedulerResponse
)
PAUSE_SCHEDULER = Method(
    _SCHEDULERS, scheduler.PauseSchedulerRequest, scheduler.PauseSchedulerResponse
)
RESUME_SCHEDULER = Method(
    _SCHEDULERS, scheduler.ResumeSchedulerRequest, scheduler.ResumeSchedulerResponse
)
UPDATE_SCHEDULER = Method(
    _SCHEDULERS, scheduler.UpdateSchedulerRequest, scheduler.UpdateSchedulerResponse
)
CANCEL_TASK = Method(_SCHEDULERS, scheduler.CancelTaskRequest, scheduler.CancelTaskResponse)
RETRY_TASK = Method(_SCHEDULERS, scheduler.RetryTaskRequest, scheduler.RetryTaskResponse)
GET_TASK = Method(_SCHEDULERS, scheduler.GetTaskRequest, scheduler.GetTaskResponse)

CREATE_RESOURCE = Method(
    _RESOURCES, resource.CreateResourceRequest, resource.CreateResourceResponse
)
DELETE_RESOURCE = Method(
    _RESOURCES, resource.DeleteResourceRequest, resource.DeleteResourceResponse
)
ACQUIRE = Method(_RESOURCES, resource.AcquireRequest, resource.AcquireResponse)
TRY_ACQUIRE = Method(_RESOURCES, resource.TryAcquireRequest, resource.TryAcquireResponse)
GET_CLAIM = Method(_RESOURCES, resource.GetClaimRequest, resource.GetClaimResponse)
RENEW = Method(_RESOURCES, resource.RenewRequest, resource.RenewResponse)
RELEASE = Method(_RESOURCES, resource.ReleaseRequest, resource.ReleaseResponse)
