"""A scheduler: opened, submitted to, waited for, released. What both faces of it do.

The coroutines run on the background thread; `put` and `entries` are called on that of the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from google.protobuf import field_mask_pb2

from rallypoint import _methods
from rallypoint._client import BaseClient
from rallypoint._connection import Connection
from rallypoint._events import Events
from rallypoint._future import TaskFuture
from rallypoint._given_up import in_background
from rallypoint._halts import Halts
from rallypoint._leases import HURRY
from rallypoint._ledger import Ledger
from rallypoint._request_id import new_request_id
from rallypoint._settings import Settings, check_in_force, settings_message
from rallypoint._submission import Entry, Submission
from rallypoint._tasks import Task, as_task
from rallypoint.errors import CallError, RallypointError
from rallypoint.v1 import scheduler_pb2, task_pb2

log = logging.getLogger("rallypoint")

#: What becomes of the tasks at the end of a block: they are waited for, or cancelled, and the
#: scheduler is released; or they are waited for, or left, and it stays open.
Exit: TypeAlias = Literal["drain", "cancel", "wait", "leave"]
_RELEASED = "the scheduler is released: it takes no more tasks"
EXITS = ("drain", "cancel", "wait", "leave")


class SchedulerCore:
    """One scheduler of the service, as this program uses it."""

    def __init__(
        self,
        client: BaseClient,
        settings: Settings,
        name: str,
        reuse: bool,
        handle: str | None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._request = scheduler_pb2.GetSchedulerRequest(
            settings=settings_message(settings), name=name, reuse=reuse
        )
        self._handle = handle
        # It was open before: others use it, too.
        self._is_shared = handle is not None
        self._is_opening = False
        self.ledger = Ledger()
        self._submission: Submission | None = None

    @property
    def name(self) -> str:
        """For people: its handle, its name, or that it is not open."""
        return self._handle or self._request.name or "(not open)"

    @property
    def handle(self) -> str:
        """The handle of the service. Raises RallypointError before it is open."""
        return self.require_open().handle

    @property
    def submission(self) -> Submission:
        """Where tasks are submitted. Raises RallypointError before it is open."""
        return self.require_open()

    def require_open(self) -> Submission:
        """Raises RallypointError before it is open."""
        if self._submission is None:
            raise RallypointError("the scheduler is not open; use it in a `with` block, or open()")
        self._submission.check_process()
        return self._submission

    def is_of_parent(self) -> bool:
        """Whether the process from which this one was forked has opened it."""
        return self._submission is not None and not self._submission.is_here()

    async def open(self) -> None:
        """Opens the scheduler, or finds the one with the name or the handle."""
        if self._submission is not None or self._is_opening:
            raise RallypointError("the scheduler is open already; make another one")
        self._is_opening = True
        try:
            await self._open()
        finally:
            self._is_opening = False

    async def _open(self) -> None:
        self._connection = self._client.connection()
        if self._handle is None:
            answer = await self._opened()
            opened = answer.scheduler
            self._is_shared = answer.reused
            if answer.reused:
                check_in_force(self._settings, opened)
        else:
            described = scheduler_pb2.DescribeSchedulerRequest(handle=self._handle)
            found = await self._connection.call(_methods.DESCRIBE_SCHEDULER, described)
            opened = found.scheduler
        self._handle = opened.handle
        self._events = Events(self._connection, opened.handle, self.ledger)
        self._halts = Halts(self._connection, opened.handle, self._events)
        self._note(opened)
        self._submission = Submission(
            self._connection, opened.handle, self._events, self.ledger, self._halts
        )
        log.info("scheduler %s is open", opened.handle)

    async def _opened(self) -> scheduler_pb2.GetSchedulerResponse:
        request = scheduler_pb2.GetSchedulerRequest()
        request.CopyFrom(self._request)
        request.request_id = new_request_id()
        try:
            return await self._connection.call(_methods.GET_SCHEDULER, request)
        except asyncio.CancelledError:
            if not request.reuse:  # that one is to be found by others
                in_background(_release_unheard(self._connection, request))
            raise

    def entry(self, task: Task, order: int | None) -> Entry:
        """A task that is submitted in its own order, else in this one."""
        message = task.message(order)
        return self._future(task, message), message

    def entries(self, task: Task, items: Iterable[object], order: int | None) -> Iterator[Entry]:
        """One of each item: see `Task.messages`."""
        self.require_open()  # before an item is taken
        return ((self._future(task, message), message) for message in task.messages(items, order))

    def _future(self, task: Task, message: task_pb2.Task) -> TaskFuture:
        order = message.order if message.HasField("order") else None
        return TaskFuture(self.submission, task.statement, order)

    async def synchronize(self, order: int | None, timeout: float | None) -> None:
        """Until what was submitted has ended; raises for failures that nobody has asked for."""
        self.require_open().start()
        futures = self.ledger.open(order)
        try:
            if not all(future.done() for future in futures):  # a timeout of 0 waits for nothing
                async with asyncio.timeout(timeout):
                    await self._ended(futures)
        except TimeoutError:
            left = sum(not future.done() for future in futures)
            what = "1 task has" if left == 1 else f"{left} tasks have"
            raise TimeoutError(f"{what} not ended within {timeout:g} s") from None
        self.ledger.raise_unseen()

    async def _ended(self, futures: set[TaskFuture]) -> None:
        """Until all of them have ended. Raises SchedulerHalted when they cannot.

        Raises RallypointError when it will not be known, since somebody has left the block.
        """
        if not self._halts.can_be:
            await self.ledger.wait(futures)
            return
        await self.submission.flush()
        ended = asyncio.create_task(self.ledger.wait(futures))
        halted = asyncio.create_task(self._halts.halted())
        try:
            await asyncio.wait([ended, halted], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                raise halted.result()
            ended.result()
        finally:
            ended.cancel()
            halted.cancel()

    async def close(self, how: Exit) -> None:
        """Ends the use of the scheduler."""
        submission = self.submission
        submission.close(_RELEASED)
        if how == "cancel":
            submission.drop()
        await submission.flush()
        if how in ("drain", "cancel"):
            await self._release(how)
            return
        if how == "wait":
            await self._ended(self.ledger.open())
        await self._stop()
        text = f"the block was left, and the task goes on: see scheduler {self.handle}"
        self.ledger.leave(RallypointError(text))

    async def abort(self, how: Exit) -> None:
        """Ends the use after an error of the program: what it submitted is cancelled.

        A scheduler that others use, too, keeps their tasks, unless `how` is "cancel".
        """
        try:
            if how in ("wait", "leave") or (how == "drain" and self._is_shared):
                self.submission.close("the block of the scheduler was left")
                await self.submission.cancel_all()
                await self.ledger.wait(self.ledger.open())
                await self._stop()
            else:
                self.submission.close(_RELEASED)
                await self.submission.drop_all()
                await self._release("cancel", HURRY)
        except CallError as error:  # nobody stays to hear of it
            # Tasks whose futures have ended must not run once the service is there again.
            await self.submission.stop()
            await self._stop()
            text = f"the block was left, and the task could not be cancelled: {error.message}"
            self.ledger.leave(RallypointError(text))
            raise

    async def _stop(self) -> None:
        """Hears no more of a scheduler that stays open."""
        await self._halts.stop()
        await self._events.stop()

    async def _release(self, how: Exit, limit: float | None = None) -> None:
        """Releases it, and waits for the end of the tasks; of those of others only by "drain"."""
        mode = "RELEASE_MODE_FINISH" if how == "drain" else "RELEASE_MODE_CANCEL"
        request = scheduler_pb2.ReleaseSchedulerRequest(handle=self.handle)
        request.mode = scheduler_pb2.ReleaseMode.Value(mode)
        # Others may have submitted to it, of which no event is heard here.
        request.wait = how == "drain"
        await self._connection.call(_methods.RELEASE_SCHEDULER, request, limit=limit)
        log.info("scheduler %s is released: %s", self.handle, how)
        await self._events.ended()

    async def retry(self, future: TaskFuture, task: Task | str | None) -> TaskFuture:
        """Submits a failed task once more; what stands for it from now on."""
        if not isinstance(future, TaskFuture):
            raise TypeError(f"future: give the future of a task that failed, not {future!r}")
        if future.handle != self.handle:
            raise ValueError(f"future: its task is of scheduler {future.handle}; retry it there")
        has_params_of_its_own = isinstance(task, Task)
        task = None if task is None else as_task(task)
        request = scheduler_pb2.RetryTaskRequest(
            id=task_pb2.TaskId(handle=self.handle, seq=future.seq)
        )
        if task is not None:
            if task.statement is None:
                raise TypeError("task: give sql('…'), or leave it out to run the same")
            request.sql.CopyFrom(task.message(None).sql)
            request.no_params = has_params_of_its_own and not request.sql.params
        self.ledger.seen(future)
        statement = future.statement if task is None else task.statement
        again = TaskFuture(self.submission, statement, future.order)
        self._events.begin()
        try:
            answer = await self._connection.call(_methods.RETRY_TASK, request)
            self._halts.repaired()
            if (earlier := self._events.expected(answer.seq)) is not None:
                return earlier
            if future._retry is not None and future._retry.seq == answer.seq:
                return future._retry  # it has ended, and counts once
            future._retry = again
            self.ledger.add([again])
            self._events.expect(answer.seq, [again], answer.done_no)
        finally:
            self._events.end()
        if answer.already_retried:  # its event may have passed
            seq = task_pb2.TaskId(handle=self.handle, seq=answer.seq)
            known = await self._connection.call(
                _methods.GET_TASK, scheduler_pb2.GetTaskRequest(id=seq)
            )
            if known.task.HasField("done"):
                self._events.take(known.task.done)
        return again

    async def describe(self) -> scheduler_pb2.Scheduler:
        """Settings and counts."""
        request = scheduler_pb2.DescribeSchedulerRequest(handle=self.handle)
        return (await self._connection.call(_methods.DESCRIBE_SCHEDULER, request)).scheduler

    async def pause(self) -> None:
        """Starts no more tasks."""
        request = scheduler_pb2.PauseSchedulerRequest(handle=self.handle)
        await self._connection.call(_methods.PAUSE_SCHEDULER, request)

    async def resume(self, ignore_failures: bool) -> None:
        """Lifts a pause, and perhaps a halt."""
        request = scheduler_pb2.ResumeSchedulerRequest(
            handle=self.handle, ignore_failures=ignore_failures
        )
        # What fails from here on, be it before the answer arrives, is no failure to ignore.
        with self.ledger.set_aside() if ignore_failures else contextlib.nullcontext():
            await self._connection.call(_methods.RESUME_SCHEDULER, request)
        self._halts.repaired()

    async def update(self, settings: Settings) -> None:
        """Changes the settings that are given."""
        if not settings:
            raise TypeError("settings: name at least one, such as max_parallelism=4")
        request = scheduler_pb2.UpdateSchedulerRequest(
            handle=self.handle,
            settings=settings_message(settings),
            update_mask=field_mask_pb2.FieldMask(paths=sorted(settings)),
        )
        answer = await self._connection.call(_methods.UPDATE_SCHEDULER, request)
        self._note(answer.scheduler)

    def _note(self, scheduler: scheduler_pb2.Scheduler) -> None:
        on_failure = scheduler.settings.on_failure
        is_halted = scheduler.HasField("halt")  # whatever the setting is by now
        self._halts.can_be = is_halted or on_failure == scheduler_pb2.ON_FAILURE_HALT
        self.ledger.cancels_rest = on_failure == scheduler_pb2.ON_FAILURE_CANCEL_REST


async def _release_unheard(
    connection: Connection, request: scheduler_pb2.GetSchedulerRequest
) -> None:
    """Releases the scheduler that a call may have opened whose answer nobody waits for."""
    try:
        opened = await connection.call(_methods.GET_SCHEDULER, request)
        # Tasks that it has are of others, who have found it by its name.
        release = scheduler_pb2.ReleaseSchedulerRequest(
            handle=opened.scheduler.handle, mode=scheduler_pb2.RELEASE_MODE_FINISH
        )
        await connection.call(_methods.RELEASE_SCHEDULER, release)
    except CallError as error:
        log.info("a scheduler that nobody waits for may stay open until it is idle: %s", error)
