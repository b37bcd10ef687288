"""The events of a scheduler's tasks, each to its future, whatever happens to the connection."""

import asyncio
import contextlib
import copy
import logging
from collections.abc import Sequence

from google.protobuf import empty_pb2

from rallypoint import _methods
from rallypoint._connection import Connection
from rallypoint._future import TaskFuture
from rallypoint._ledger import Ledger
from rallypoint._result import Result
from rallypoint.errors import CallError, RallypointError
from rallypoint.v1 import scheduler_pb2, task_pb2

log = logging.getLogger("rallypoint")

# Large results that are fetched at a time.
_FETCHES = 4


class Events:
    """One stream of a scheduler, opened with the first task and kept until the release.

    All of it on the background thread.
    """

    def __init__(self, connection: Connection, handle: str, ledger: Ledger) -> None:
        self._connection, self._handle, self._ledger = connection, handle, ledger
        self._futures: dict[int, TaskFuture] = {}
        # Events of tasks whose numbers are not known yet, while calls that submit are under way.
        self._early: dict[int, task_pb2.AsyncDone] = {}
        self._submitting = 0
        self._cursor = 0
        self._resume_token = ""
        self._follower: asyncio.Task[None] | None = None
        self._fetches: set[asyncio.Task[None]] = set()
        self._fetch_slots = asyncio.Semaphore(_FETCHES)

    @property
    def cursor(self) -> int:
        """The number of the last event."""
        return self._cursor

    def begin(self) -> None:
        """A call begins that submits."""
        self._submitting += 1

    def end(self) -> None:
        """It has ended."""
        self._submitting -= 1
        if self._submitting == 0:
            self._early.clear()

    def expect(self, first_seq: int, futures: Sequence[TaskFuture], after: int) -> None:
        """The tasks with these numbers are those of these futures; their events are above `after`.

        Between `begin` and `end`.
        """
        for seq, future in enumerate(futures, first_seq):
            future.seq = seq
            if (done := self._early.pop(seq, None)) is not None:
                self._take(future, done)
            else:
                self._futures[seq] = future
        if self._follower is None or self._follower.done():
            self._cursor, self._resume_token = max(self._cursor, after), ""
            self._follower = asyncio.create_task(self._follow())

    def expected(self, seq: int) -> TaskFuture | None:
        """The future of a task that is followed already."""
        return self._futures.get(seq)

    async def ended(self) -> None:
        """Until the scheduler is released and every task has ended, if it had any."""
        if self._follower is not None:
            await asyncio.wait([self._follower])
        await self.fetched()
        self.lose(RallypointError("the stream of the scheduler has ended before the task"))

    async def fetched(self) -> None:
        """Until the futures of all events that came have their outcome."""
        while self._fetches:
            await asyncio.wait(self._fetches)

    async def stop(self) -> None:
        """Follows no more."""
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait([self._follower])

    def lose(self, error: Exception) -> None:
        """Nothing more will be known of the tasks that are expected."""
        futures, self._futures = self._futures, {}
        for future in futures.values():
            self._ledger.end(future, copy.copy(error))

    async def _follow(self) -> None:
        try:
            stream = self._connection.resumed(
                _methods.SYNCHRONIZATION, self._request, is_news=lambda message: bool(message.done)
            )
            async with contextlib.aclosing(stream):
                async for message in stream:
                    self._resume_token = message.resume_token
                    for done in message.done:
                        self._cursor = done.done_no
                        self.take(done)
                    if message.HasField("end"):
                        return
        except CallError as error:
            level = logging.INFO if self._connection.servers.is_closed else logging.WARNING
            log.log(level, "the stream of scheduler %s is lost: %s", self._handle, error)
            self.lose(error)
        except Exception as error:  # a fault of this package must not leave anybody waiting
            log.exception("the stream of scheduler %s is lost", self._handle)
            self.lose(error)

    def _request(self) -> scheduler_pb2.SynchronizationRequest:
        return scheduler_pb2.SynchronizationRequest(
            handle=self._handle,
            after=self._cursor,
            until=scheduler_pb2.Until(forever=empty_pb2.Empty()),
            resume_token=self._resume_token,
        )

    def take(self, done: task_pb2.AsyncDone) -> None:
        """An event, which may be of a task of others."""
        future = self._futures.pop(done.seq, None)
        if future is not None:
            self._take(future, done)
        elif self._submitting:
            self._early[done.seq] = done

    def _take(self, future: TaskFuture, done: task_pb2.AsyncDone) -> None:
        if done.rows_omitted and done.outcome == task_pb2.OUTCOME_SUCCEEDED:
            fetch = asyncio.create_task(self._fetch(future, done))
            self._fetches.add(fetch)
            fetch.add_done_callback(self._fetches.discard)
        else:
            self._ledger.end(future, future.outcome(done))

    async def _fetch(self, future: TaskFuture, done: task_pb2.AsyncDone) -> None:
        """Gets the rows that were too large for the event."""
        task = task_pb2.TaskId(handle=self._handle, seq=done.seq)
        try:
            async with self._fetch_slots:
                request = scheduler_pb2.GetTaskRequest(id=task)
                view = await self._connection.call(_methods.GET_TASK, request)
            result = view.task.done.result
            full = Result(done, result.rows_json, result.truncated)
            self._ledger.end(future, full)
        except CallError as error:
            error.message = f"task {done.seq} succeeded; its rows cannot be read: {error.message}"
            self._ledger.end(future, error)
