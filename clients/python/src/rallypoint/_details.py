"""The errors of gRPC calls, with what the service says of them besides."""

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message

from rallypoint.errors import CallError

if TYPE_CHECKING:
    from rallypoint.wire import status_pb2

_DOMAIN = "rallypoint"
_KEY = "grpc-status-details-bin"
# Without a reason of the service these say that the call may have arrived.
_UNKNOWN = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL", "CANCELLED"}
# With these the owner of the shard answers, which knows the request ids of earlier calls.
_OF_THE_OWNER = {
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
    "RESOURCE_EXHAUSTED",
}


def call_error(call: Any) -> CallError:
    """The error of a call that has ended with one."""
    code = call.code() or grpc.StatusCode.UNKNOWN
    return _error(code.name, call.details() or "", call.trailing_metadata() or ())


def _error(code: str, message: str, metadata: Any) -> CallError:
    from rallypoint.wire import status_pb2

    info, violations, retry_after = status_pb2.ErrorInfo(), [], None
    for detail in _details(metadata):
        if isinstance(detail, status_pb2.ErrorInfo):
            info = detail if detail.domain == _DOMAIN else info
        elif isinstance(detail, status_pb2.BadRequest):
            violations = [_violation(field) for field in detail.field_violations]
        elif isinstance(detail, status_pb2.RetryInfo):
            delay = detail.retry_delay
            retry_after = delay.seconds + delay.nanos / 1e9
    said = dict(info.metadata)
    reason = info.reason or None
    effect = said.pop("effect", None)
    is_unknown = effect == "unknown" if reason else code in _UNKNOWN
    return CallError(
        code,
        message,
        reason=reason,
        metadata=said,
        violations=violations,
        retry_after=retry_after,
        is_unknown=is_unknown,
    )


def _violation(violation: "status_pb2.FieldViolation") -> tuple[str, str]:
    """The field, and what is wrong with it, which some descriptions begin with the field."""
    return violation.field, violation.description.removeprefix(f"{violation.field}: ")


def _details(metadata: Any) -> list[Message]:
    from rallypoint.wire import status_pb2

    kinds: dict[str, type[Message]] = {
        "google.rpc.ErrorInfo": status_pb2.ErrorInfo,
        "google.rpc.BadRequest": status_pb2.BadRequest,
        "google.rpc.RetryInfo": status_pb2.RetryInfo,
    }
    for key, value in metadata:
        if key == _KEY:
            try:
                named = [
                    (kinds.get(detail.type_url.rpartition("/")[2]), detail.value)
                    for detail in status_pb2.Status.FromString(value).details
                ]
                return [kind.FromString(content) for kind, content in named if kind is not None]
            except Exception:  # not of this service: the code says enough
                return []
    return []


def unavailable(message: str) -> CallError:
    """The connection is of no use."""
    return CallError("UNAVAILABLE", message, is_unknown=True)


def is_of_the_server(error: CallError) -> bool:
    """It says something of this server or the connection to it: another one may answer."""
    is_away = error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    return is_away or (error.is_unknown and error.reason is None)


def after_unknown(error: CallError, was_unknown: bool, *, is_delete: bool = False) -> CallError:
    """The error of a call whose attempt before may have had its effect.

    Only the answer of the owner takes that back. What any server may refuse by itself, it refuses
    before it looks for the request id. What a call deletes is not found after its effect, either.
    """
    is_of_the_owner = error.reason is not None and error.code in _OF_THE_OWNER
    if was_unknown and (not is_of_the_owner or (is_delete and error.code == "NOT_FOUND")):
        error.is_unknown = True
    return error
