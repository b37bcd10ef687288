"""Runs of recurring jobs that this program does: claimed, renewed, and finished."""

from __future__ import annotations

import asyncio
import datetime
import functools
import inspect
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from rallypoint import _background, _checks, _returned, _times
from rallypoint._client import BaseClient, client_of
from rallypoint._connection import Connection
from rallypoint._leases import DEFAULT_LEASE, HURRY, Lease
from rallypoint._methods import Method
from rallypoint._request_id import new_request_id
from rallypoint._times import Seconds
from rallypoint.errors import CallError, RallypointError, RunLost
from rallypoint.v1 import job_pb2

log = logging.getLogger("rallypoint")

_CLAIM_RUN = Method("JobService", job_pb2.ClaimRunRequest, job_pb2.ClaimRunResponse)
_RENEW_RUN = Method("JobService", job_pb2.RenewRunRequest, job_pb2.RenewRunResponse)
_FINISH_RUN = Method("JobService", job_pb2.FinishRunRequest, job_pb2.FinishRunResponse)

_FINAL = ("RUN_CLAIM_ENDED", "JOB_NOT_FOUND", "RUN_NOT_FOUND")
_TOOK_TOO_LONG = "it took for as long as the job lets it (max_runtime)"
_MAX_DETAIL_BYTES = 1000
_PAUSE = 1.0

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", covariant=True)


class Cursor(Protocol[S]):
    """What `ClaimedRun.finish_in` needs: a cursor or a connection, of any driver."""

    def execute(self, query: Any, /) -> S:
        """Runs a statement without parameters."""
        ...


class ClaimedRun:
    """A run that this program has to itself. It is renewed in the background."""

    def __init__(
        self,
        connection: Connection,
        answer: job_pb2.ClaimRunResponse,
        since: float,
        left: float | None,
    ) -> None:
        self._connection = connection
        self._run, self._claim = answer.run, answer.claim
        seconds = self._claim.lease.ToTimedelta().total_seconds() or DEFAULT_LEASE
        what = f"the run of {self.job} of {self.due.isoformat()}"
        keep = (self._renew, self._why)
        self._lease = Lease(what, seconds, since, *keep, left, _TOOK_TOO_LONG)
        self._namespace: str = answer.namespace
        #: What the service warns of, such as that too little is left of the window.
        self.warning: str = answer.warning

    def __repr__(self) -> str:
        return f"<ClaimedRun of {self.job} of {self.due.isoformat()}, token {self.token}>"

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._run.job

    @property
    def due(self) -> datetime.datetime:
        """The due time, which names the run."""
        return _times.moment(self._run.due)

    @property
    def token(self) -> int:
        """The token of the claim: higher than that of every earlier one."""
        return self._claim.token

    @property
    def attempt(self) -> int:
        """The number of this attempt at the run."""
        return self._run.attempt

    @property
    def lost(self) -> str | None:
        """Why it was lost, or that it was given back; None: as far as is known, it is kept."""
        return self._lease.lost

    def check(self) -> None:
        """Raises RunLost if the claim was lost."""
        if (why := self.lost) is not None:
            raise RunLost(f"the run of {self.job} of {self.due.isoformat()} was lost: {why}")

    @property
    def finish_statement(self) -> str:
        """SQL without parameters that says, in the transaction of the work, that it is done.

        It fails with SQLSTATE RP005 when another claim has done the run, or this one is over:
        roll back, nothing is left to do.
        """
        job, namespace = (
            name.replace("'", "''") for name in (self.job, self._namespace or "default")
        )
        due = self.due.isoformat()
        run = f"'{job}', '{due}'::timestamptz, {self.token}, '{namespace}'"
        return f"select rallypoint.finish_run({run})"

    def finish_in(self, cursor: Cursor[S]) -> S:
        """Runs `finish_statement` in the transaction of a cursor or connection, of any driver.

        Returns what its `execute` does: with a driver for asyncio, something to await.
        """
        return cursor.execute(self.finish_statement)

    async def _finish(self, failed: str | None) -> None:
        """Says how the work went. Raises RunLost when the claim had ended before."""
        self._lease.stop()
        # Names of files may hold what is no text.
        text = (failed or "").encode(errors="replace")
        detail = text[:_MAX_DETAIL_BYTES].decode(errors="ignore")
        request = job_pb2.FinishRunRequest(
            name=self.job,
            due=self._run.due,
            token=self.token,
            failed=failed is not None,
            detail=detail.replace("\0", ""),
        )
        answer = await self._answered(request)
        log.info("%r is finished: %s", self, "failed" if failed is not None else "done")
        if answer.late and not answer.HasField("run"):
            raise RunLost(f"the claim of {self.job} had ended before: its run is not known")
        if answer.late and answer.run.state != job_pb2.RUN_STATE_SUCCEEDED:
            raise RunLost(f"the claim of {self.job} had ended before: others may do the run, too")

    async def _answered(self, request: job_pb2.FinishRunRequest) -> job_pb2.FinishRunResponse:
        """Says it until it is answered: what is not known to be done would be done again."""
        while True:
            try:
                return await self._connection.call(_FINISH_RUN, request)
            except CallError as error:
                if not error.is_retryable:
                    raise
                log.warning("%r: its end cannot be said yet: %s", self, error)
                await asyncio.sleep(_PAUSE)

    async def _renew(self, limit: float) -> float | None:
        request = job_pb2.RenewRunRequest(name=self.job, due=self._run.due, token=self.token)
        renewed = await self._connection.call(_RENEW_RUN, request, limit=limit)
        return _left(renewed)

    async def _why(self, error: CallError) -> str | None:
        return error.message if error.reason in _FINAL else None


class claim_run:
    """Does the runs of a job that has claims: of any number of programs, one does each run.

    As a decorator, of a function or a coroutine function, whose first argument is the run:

    >>> @claim_run("nightly")
    ... def nightly(run):
    ...     close_the_books(run.due.date())

    Called without `run`, it claims the run that is due. If there is one it calls the function, and
    says to the service how it went: done, or failed with the exception, which is raised. Otherwise
    nothing is called, and it returns None.

    The work has ended when the function returns. It may return a future that is done, also in a
    list; one that failed or was cancelled fails the run. With a pending one, or a coroutine that
    nothing awaits, the run fails, too: TypeError.

    RunLost is raised when others may have the run by the time it is given.

    As a context, for `with` and `async with`, the block gets the run, or None:

    >>> with claim_run("nightly") as run:
    ...     if run is not None:
    ...         close_the_books(run.due.date())
    """

    def __init__(
        self,
        job: str,
        *,
        due: datetime.datetime | None = None,
        owner: str | None = None,
        lease: Seconds = 15.0,
        client: BaseClient | str | None = None,
    ) -> None:
        """`due`: the run to claim; None: the oldest there is. `owner`: who does it, for people."""
        if not isinstance(job, str) or not job:
            raise ValueError(f"job: give the name of a job, not {job!r}; @claim_run('nightly')")
        if not 1 <= _times.seconds(lease, "lease") <= 3600:
            raise ValueError(f"lease: 1 s to 1 h, not {lease}")
        self._request = job_pb2.ClaimRunRequest(
            name=job,
            owner="" if owner is None else _checks.text(owner, "owner"),
            lease=_times.duration(lease, "lease"),
        )
        if due is not None:
            self._request.due.CopyFrom(_times.timestamp(due, "due"))
        # The environment is looked at when a run is claimed, not when a module is imported.
        self._client = client
        self._claimed: ClaimedRun | None = None
        self._use_lock, self._is_in_use = threading.Lock(), False

    @overload
    def __call__(
        self, work: Callable[Concatenate[ClaimedRun, P], Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T | None]]: ...
    @overload
    def __call__(self, work: Callable[Concatenate[ClaimedRun, P], T]) -> Callable[P, T | None]: ...
    def __call__(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates a function."""
        if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
            raise TypeError(
                "work: calling a generator function does nothing, and its run would count as done; "
                "give a function, or use `with claim_run('…')` inside it"
            )
        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def run_async(*arguments: Any, **named: Any) -> Any:
                async with self._again() as run:
                    if run is None:
                        return None
                    return _returned.checked(await work(run, *arguments, **named))

            return run_async

        @functools.wraps(work)
        def run_sync(*arguments: Any, **named: Any) -> Any:
            with self._again() as run:
                return None if run is None else _returned.checked(work(run, *arguments, **named))

        return run_sync

    def _again(self) -> claim_run:
        """The same for one call, several of which may go on at a time."""
        other = claim_run(self._request.name, client=self._client)
        other._request.CopyFrom(self._request)
        return other

    def _use(self) -> None:
        """Has it for one block at a time, from before anything is claimed."""
        with self._use_lock:
            if self._is_in_use:
                raise RallypointError(
                    "this claim is in use; make one for each block: claim_run('…')"
                )
            self._is_in_use = True

    def __enter__(self) -> ClaimedRun | None:
        self._use()
        try:
            # Nothing is called behind it, where Ctrl-C could come and nobody have the run.
            self._claimed = run = _background.run(self._claim(), _undo)
            return run
        except BaseException:
            self._is_in_use = False
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._claimed
        try:
            if run is not None and run._lease.is_here():
                _background.finish(self._exit(run, error))
        except RallypointError:
            raise
        except BaseException:  # Ctrl-C may come before it is handed over
            if run is not None and run._lease.is_here():
                _background.go_on(self._exit(run, error))
            raise
        finally:
            self._is_in_use = False

    async def __aenter__(self) -> ClaimedRun | None:
        self._use()
        try:
            self._claimed = run = await _background.arun(self._claim(), _undo)
            return run
        except BaseException:
            self._is_in_use = False
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._claimed
        try:
            if run is not None and run._lease.is_here():
                await _background.afinish(self._exit(run, error))
        finally:
            self._is_in_use = False

    async def _exit(self, run: ClaimedRun, error: BaseException | None) -> None:
        """Says how it ended, once: Ctrl-C may have had it handed over twice."""
        if self._claimed is not run:
            return
        self._claimed = None
        failed = None if error is None else f"{type(error).__name__}: {error}"
        # Ctrl-C does not wait for a server that is away; then the claim ends with its lease.
        limit = None if error is None or isinstance(error, Exception) else HURRY
        try:
            async with asyncio.timeout(limit):
                await run._finish(failed)
        except (RallypointError, TimeoutError) as second:
            # An error of the block counts more.
            if error is None:
                raise
            late = f"{run!r}: that it failed could not be said within {HURRY:g} s"
            error.add_note(str(second) or late)

    async def _claim(self) -> ClaimedRun | None:
        connection, since = client_of(self._client).connection(), time.monotonic()
        request = job_pb2.ClaimRunRequest()
        request.CopyFrom(self._request)
        request.owner = request.owner or f"{socket.gethostname()}:{os.getpid()}"
        request.request_id = new_request_id()
        answer = await connection.call(_CLAIM_RUN, request)
        if answer.HasField("claim"):
            run = ClaimedRun(connection, answer, *await _confirmed(connection, answer, since))
            if (lost := run.lost) is not None:
                run._lease.stop()
                raise RunLost(f"the claim of {run.job} was noticed too late: {lost}")
            log.info("%r is claimed", run)
            return run
        holder = f", {answer.holder.owner} has it" if answer.HasField("holder") else ""
        log.info("%s: nothing to do; its last run: %s%s", request.name, _state(answer.run), holder)
        return None


def _state(run: job_pb2.JobRun) -> str:
    """For people; a newer server may have others."""
    if run.state not in job_pb2.RunState.values():
        return f"state {run.state}"
    return job_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_")


def _left(answer: job_pb2.ClaimRunResponse | job_pb2.RenewRunResponse) -> float | None:
    """For how many seconds it may be kept from when the call was sent that says it."""
    if not answer.HasField("runtime_left"):
        return None
    return answer.runtime_left.ToTimedelta().total_seconds()


async def _confirmed(
    connection: Connection, answer: job_pb2.ClaimRunResponse, since: float
) -> tuple[float, float | None]:
    """Since when a claim is kept for a lease, and for how long it may be kept from then on.

    One whose answer was slow is renewed first, since it may be kept for longer than is known.
    """
    seconds = answer.claim.lease.ToTimedelta().total_seconds() or DEFAULT_LEASE
    left, sent = _left(answer), time.monotonic()
    kept = seconds if left is None else min(seconds, left)
    if sent - since < kept / 3:
        return since, left
    name = answer.run.job
    request = job_pb2.RenewRunRequest(name=name, due=answer.run.due, token=answer.claim.token)
    try:
        renewed = await connection.call(_RENEW_RUN, request, limit=kept / 3)
    except CallError as error:
        if error.reason in _FINAL:
            raise RunLost(f"the claim of {name} was noticed too late: {error.message}") from None
        return since, left
    return sent, _left(renewed)


async def _undo(run: ClaimedRun | None) -> None:
    """Of a block that was not entered after all: others may claim the run when the lease ends.

    So it is when nobody waits for the answer to the claim. Reported as failed, the run would be
    over, unless the job repeats runs.
    """
    if run is not None:
        run._lease.stop()
