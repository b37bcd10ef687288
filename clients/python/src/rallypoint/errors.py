"""What can go wrong, as exceptions. All of them are `RallypointError`."""

import concurrent.futures
import re
from collections.abc import Sequence

# What to do where the message of the service does not say it.
_REMEDIES = {
    "HANDLE_NOT_FOUND": "Use a handle of this namespace, within its retention.",
    "HANDLE_RELEASED": "Open another scheduler.",
    "NAME_TAKEN": "Open it with reuse=True, or release the one that is open.",
    "BODY_TOO_LARGE": "Divide it, or put large values into a table and read them there.",
    "ORDER_CLOSED": "Use an order not below the current one, or open with late_order='join'.",
    "RESOURCE_NOT_FOUND": (
        "Here that is Client.create_resource, at the command line `rallypoint resource create`."
    ),
    "RESOURCE_EXISTS": "At the command line that is `rallypoint resource update`.",
    "JOB_NOT_FOUND": (
        "`rallypoint jobs list` shows the jobs, and `rallypoint jobs apply -f FILE` adds some; "
        "claim_run takes those with `claimed = true`."
    ),
    "TARGET_UNKNOWN": (
        "Targets are those of the server: `rallypoint serve --target NAME=URL`, or "
        "[targets.NAME] in its configuration file."
    ),
    "CIRCULAR_WAIT": "Release first, or lock everything in one call: lock('a', 'b').",
    "REQUEST_ID_REUSED": "Use a new request id for other content.",
}

# What gRPC says of a connection when one side speaks TLS and the other does not, or when the
# certificate is not accepted. Compiled at its first use.
_TLS_MIX_UP = (
    r"(?is)failed to connect.*(handshake failed|verification|verify|WRONG_VERSION|socket closed)"
)
_AWAY_REMEDY = "Is the server running, and is {} its address?"
_ADDRESS_REMEDY = "Another one is given to the client or scheduler, or by RALLYPOINT_SERVER."
_TLS_REMEDY = (
    "The address begins with https:// if the server has TLS, else with http://. With https:// the "
    "certificate of the server must name the host of the address, and its authority must be "
    "trusted: tls=Tls(ca='ca.crt')."
)


class RallypointError(Exception):
    """Anything that goes wrong here."""


class CallError(RallypointError):
    """A call was refused, or the service cannot be reached."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: str | None = None,
        metadata: dict[str, str] | None = None,
        violations: Sequence[tuple[str, str]] = (),
        retry_after: float | None = None,
        is_unknown: bool = False,
        request_id: str | None = None,
    ) -> None:
        super().__init__(code, message)
        #: The gRPC code, such as `INVALID_ARGUMENT`.
        self.code = code
        #: Text for people.
        self.message = message
        #: The stable reason of the service, such as `QUEUE_FULL`; None: the connection failed.
        self.reason = reason
        #: What the service says besides, by key.
        self.metadata = metadata or {}
        #: The fields at fault, and what is wrong with each.
        self.violations = tuple(violations)
        #: After how many seconds the service asks to call again.
        self.retry_after = retry_after
        #: The call may have had its effect. Repeated under its request id, it has it once.
        self.is_unknown = is_unknown
        #: The id under which the call was made, of calls that begin something.
        self.request_id = request_id
        #: The address of the service, or its addresses, of a call that nobody may have answered.
        self.server: str | None = None

    @property
    def is_retryable(self) -> bool:
        """Calling again may succeed."""
        is_fault = self.code == "INTERNAL" and self.reason is not None
        return (self.is_unknown and not is_fault) or self.retry_after is not None

    def _is_tls_mix_up(self) -> bool:
        is_connection = self.reason is None and self.code == "UNAVAILABLE"
        return is_connection and re.search(_TLS_MIX_UP, self.message) is not None

    def _away_remedy(self) -> str:
        remedy = _AWAY_REMEDY.format(self.server or "this")
        return f"{remedy} {_ADDRESS_REMEDY}" if self.server else remedy

    @property
    def remedy(self) -> str | None:
        """What to do about it, if there is more to say than the message does."""
        if self.reason == "RESOURCE_NOT_FOUND" and "definition" in self.metadata:
            return None  # It comes from a pattern, and the message names that.
        if self.reason in _REMEDIES:
            return _REMEDIES[self.reason]
        if self._is_tls_mix_up():
            # Of a server behind a proxy it may also mean that nobody is there.
            is_closed = "socket closed" in self.message.lower()
            return f"{self._away_remedy()} {_TLS_REMEDY}" if is_closed else _TLS_REMEDY
        if self.reason is None and self.code == "UNAVAILABLE":
            return self._away_remedy()
        return None

    def __str__(self) -> str:
        lines = [
            f"{self.code} {self.reason}: {self.message}"
            if self.reason
            else f"{self.code}: {self.message}"
        ]
        named = [f"{field}: {what}" for field, what in self.violations]
        lines += [f"  {violation}" for violation in named if violation not in self.message]
        lines += [f"  {self.remedy}"] if self.remedy else []
        return "\n".join(lines)


class TaskError(RallypointError):
    """A task did not succeed. What a task ended with is one of the classes below this one."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        handle: str = "",
        seq: int = 0,
        attempt: int = 0,
        statement: str | None = None,
        detail: str = "",
        hint: str = "",
        context: str = "",
        constraint: str = "",
        position: int | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        super().__init__(code, message)
        #: The SQLSTATE, such as `23505`, or a word of the service, such as `TIMEOUT`.
        self.code = code
        #: Text for people; detail, hint and context follow in lines of their own.
        self.message = message
        #: The scheduler of the task.
        self.handle = handle
        #: The number of the task there.
        self.seq = seq
        #: The number of the last attempt; 0: it never started.
        self.attempt = attempt
        #: What it ran.
        self.statement = statement
        #: What Postgres says of the error besides.
        self.detail = detail
        self.hint = hint
        #: The functions it comes from.
        self.context = context
        #: The constraint that was violated.
        self.constraint = constraint
        #: Where in the statement, in characters from 1.
        self.position = position
        #: What the last attempt said on its way.
        self.notices = tuple(notices)

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE; None: the error is not of Postgres."""
        is_one = len(self.code) == 5 and self.code.isalnum() and self.code.upper() == self.code
        return self.code if is_one else None

    def __str__(self) -> str:
        text = f"task {self.seq}: {self.code} {self.message}"
        return f"{text}\n{self._place()}" if self._place() else text

    def _place(self) -> str:
        """The line of the statement in which the error is, and a mark below it, as psql has it."""
        if self.statement is None or self.position is None:
            return ""
        before = self.statement[: self.position - 1]
        number, column = before.count("\n") + 1, self.position - 1 - (before.rfind("\n") + 1)
        lines = self.statement.split("\n")
        if not 0 < number <= len(lines):
            return ""
        head = f"LINE {number}: "
        return f"{head}{lines[number - 1]}\n{' ' * (len(head) + column)}^"


class TaskFailed(TaskError):
    """The last attempt reported an error, or this version does not know how the task ended."""


class TaskTimedOut(TaskError):
    """The time limit of an attempt, or of the task, has passed."""


class TaskExhausted(TaskError):
    """Its attempts were lost too often, with their host or their connection."""


class TaskCancelled(TaskError, concurrent.futures.CancelledError):
    """It was cancelled: by this program, by a failure before it, or by somebody else."""


class SchedulerHalted(RallypointError):
    """Failures keep everything that is left from starting (`on_failure="halt"`)."""

    def __init__(self, handle: str, blocked: int, failed: Sequence[int]) -> None:
        failed = tuple(failed)
        super().__init__(handle, blocked, failed)
        #: The scheduler.
        self.handle = handle
        #: How many tasks cannot start.
        self.blocked = blocked
        #: The numbers of the tasks that failed: some of them.
        self.failed = failed

    def __str__(self) -> str:
        failed = ", ".join(str(seq) for seq in self.failed)
        what = "1 task cannot" if self.blocked == 1 else f"{self.blocked} tasks cannot"
        return (
            f"{what} start, since tasks failed: {failed}; retry(future) those, or "
            "resume(ignore_failures=True)"
        )


class HoldLost(RallypointError):
    """What was locked may be in use by others: the hold has ended before it was released."""


class LockTimeout(RallypointError, TimeoutError):
    """The lock could not be had within the time that it was to wait."""


class RunLost(RallypointError):
    """The claim of a run has ended before the run was finished: others may have it."""
