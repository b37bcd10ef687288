"""Schedulers, for programs with threads (`Scheduler`) and for asyncio (`AsyncScheduler`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Never, TextIO, Unpack

from rallypoint import _background, _checks, _times
from rallypoint._client import BaseClient, client_of
from rallypoint._future import TaskFuture
from rallypoint._orders import order_block, present_order
from rallypoint._progress import Display, Progress
from rallypoint._scheduler import EXITS, Exit, SchedulerCore
from rallypoint._settings import Settings
from rallypoint._submission import MAX_UNSENT, Entry
from rallypoint._tasks import Task, as_task, check_order, refuse_options
from rallypoint._times import Seconds
from rallypoint.errors import RallypointError
from rallypoint.v1 import scheduler_pb2

log = logging.getLogger("rallypoint")

# Tasks of `map` that are handed over together.
_CHUNK = 2_000
# Those of slow items are not kept waiting for others.
_CHUNK_SECONDS = 0.05


@contextlib.contextmanager
def _all_or_none(futures: list[TaskFuture]) -> Iterator[None]:
    """When an item is wrong, nobody gets the futures of those before it, which may run by now."""
    try:
        yield
    except BaseException as error:
        for future in futures:
            if not future.done():
                future.cancel()
        if futures:
            error.add_note(f"map: {len(futures)} tasks before were submitted, and are cancelled")
        raise


class _SchedulerFace:
    """What does not wait, and is the same for both."""

    def __init__(
        self,
        client: BaseClient | str | None = None,
        *,
        name: str = "",
        reuse: bool = False,
        handle: str | None = None,
        on_exit: Exit | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """A scheduler of its own, which is opened when the `with` block begins.

        `client`: a client, an address, or None for what the environment says.
        `name`: others find it under the name as long as it is open; with `reuse` this one is the
        one that is open, if there is one. `handle`: the one with this handle. One that is open has
        its settings: opening raises RallypointError when one that is given here is another.

        When the block ends, `on_exit` says what becomes of the tasks:

        - "drain", the default: all end, then the scheduler is released.
        - "cancel": those that have not ended are cancelled, and it is released.
        - "wait", the default with `reuse` or `handle`: all of this program end, it stays open.
        - "leave": they go on, it stays open.

        When the block ends with an exception, what the program has submitted is cancelled.
        Failures that nobody has asked their futures about are raised at the end: `TasksFailed`.
        """
        _checks.text(name, "name")
        if isinstance(client, str) and re.fullmatch(r"\w*[^\W\d][\w-]*", client):
            what = f"client: {client!r} has no port, as an address does; the usual one is 50051"
            meant = f"the first argument is the server; a scheduler is named by name={client!r}"
            raise ValueError(f"{what}; {meant}")
        if handle is not None:
            _checks.text(handle, "handle")
        if _checks.flag(reuse, "reuse") and not name:
            raise ValueError("reuse: it needs a name under which the scheduler is found")
        if handle is not None and (name or settings):
            raise ValueError("handle: a scheduler that is open has its name and settings")
        if on_exit is not None and on_exit not in EXITS:
            raise ValueError(f"on_exit: {on_exit!r} is none of {', '.join(EXITS)}")
        self._on_exit: Exit = on_exit or ("wait" if reuse or handle is not None else "drain")
        self._core = SchedulerCore(client_of(client), settings, name, reuse, handle)
        self._is_aborted = False  # set on the background thread alone

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.name}, {self.progress}>"

    @property
    def handle(self) -> str:
        """The handle, by which the command line and other programs find the scheduler."""
        return self._core.handle

    @property
    def progress(self) -> Progress:
        """How far the tasks are that were submitted here; a notebook shows it as a bar."""
        return self._core.ledger.progress()

    def show_progress(self, *, interval: Seconds = 0.5, file: TextIO | None = None) -> Display:
        """`with s.show_progress():` shows it again and again: on a terminal, or in a notebook."""
        pause = _times.seconds(interval, "interval")
        return Display(self._core.ledger.progress, pause, file)

    def order(self, order: int | None) -> AbstractContextManager[None]:
        """`with s.order(100):` what is submitted inside has this order; with None it has none.

        Tasks of one order run in parallel; a task starts when all of lower orders have ended.
        Leaving the block waits for nothing. Each thread, and each task of asyncio, has its own:
        a thread that is given work inside says `order=` itself.
        """
        checked = check_order(order)
        return order_block(self, checked)

    async def _undo(self, _: None) -> None:
        """Of a block that was not entered after all."""
        await self._core.abort(self._on_exit)

    async def _abort(self) -> None:
        """After an error of the block, which counts more than what goes wrong here.

        Once: Ctrl-C may have had it handed over twice.
        """
        if self._is_aborted:
            return
        self._is_aborted = True
        try:
            await self._core.abort(self._on_exit)
        except RallypointError as error:
            log.warning("scheduler %s: its tasks cannot be cancelled: %s", self._core.name, error)

    def _chunks(
        self, task: Task | str, params: Iterable[Any], order: int | None
    ) -> Iterator[list[Entry]]:
        task, order = self._ordered(task, order)
        chunk: list[Entry] = []
        begun = time.monotonic()
        for entry in self._core.entries(task, params, order):
            chunk.append(entry)
            if len(chunk) == _CHUNK or time.monotonic() - begun > _CHUNK_SECONDS:
                yield chunk
                chunk, begun = [], time.monotonic()
        if chunk:
            yield chunk

    def _ordered(self, task: Task | str, order: int | None) -> tuple[Task, int | None]:
        """A task with the order of the call, or of the block around; its own one counts more."""
        task, order = as_task(task), check_order(order)
        if order is None and task.order is None:
            order = present_order(self)
        return task, order

    def _put(self, task: Task | str, order: int | None) -> tuple[TaskFuture, bool]:
        task, order = self._ordered(task, order)
        future, message = self._core.entry(task, order)
        return future, self._core.submission.put([(future, message)])


class Scheduler(_SchedulerFace):
    """Runs tasks, in orders, and tells what becomes of each.

    >>> with Scheduler() as s:
    ...     future = s.submit(sql("select 1"))
    ...     future.result().rows_affected
    1
    """

    def open(self) -> Scheduler:
        """Opens it, as the `with` block does. `close` ends it."""
        _background.run(self._core.open(), self._undo)
        return self

    def close(self) -> None:
        """Ends it as `on_exit` says, as the end of the `with` block does."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Scheduler:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._core.is_of_parent():  # which goes on with it
                return
            if error is None:
                _background.run(self._core.close(self._on_exit))
            else:
                _background.finish(self._abort())
        except RallypointError:
            raise
        except BaseException:  # Ctrl-C while it waits, or before
            _background.finish(self._abort())
            raise
        if error is None:
            self._core.ledger.raise_unseen()

    def submit(
        self, task: Task | str, *params: Never, order: int | None = None, **strange: Never
    ) -> TaskFuture:
        """Submits a task, and returns its future at once. Many of them travel in one call.

        It waits only when 50 000 tasks are not sent yet.
        """
        refuse_options("submit", strange, params)
        future, is_full = self._put(task, order)
        if is_full and not _background.is_here():
            _background.run(self._core.submission.room())
        return future

    def map(
        self, task: Task | str, params: Iterable[Any], *, order: int | None = None, **strange: Never
    ) -> list[TaskFuture]:
        """Submits a task for each item: a tuple or list of its parameters, or the only one.

        Returns the futures, in the order of the items. They are submitted as the items come; when
        an item is wrong, those before it are cancelled.
        """
        refuse_options("map", strange)
        futures: list[TaskFuture] = []
        with _all_or_none(futures):
            for chunk in self._chunks(task, params, order):
                futures += [future for future, _ in chunk]
                if self._core.submission.put(chunk):
                    _background.run(self._core.submission.room())
        return futures

    def synchronize(self, *, order: int | None = None, timeout: Seconds | None = None) -> None:
        """Waits until everything has ended that was submitted here; with `order`, up to that one.

        Raises TasksFailed for failures that nobody has asked for, SchedulerHalted when what is
        left cannot start, TimeoutError after `timeout` seconds.
        """
        _background.run(
            self._core.synchronize(check_order(order), _checks.patience(timeout, "timeout"))
        )

    def retry(self, future: TaskFuture, task: Task | str | None = None) -> TaskFuture:
        """Runs a failed task once more, or `task` in its place, in the same order.

        A text keeps the parameters of the failed task; what `sql` makes has its own, or none.
        Asked again, it returns the same future: a task has one retry.
        """
        return _background.run(self._core.retry(future, task))

    def pause(self) -> None:
        """Starts no more tasks; those that run go on."""
        _background.run(self._core.pause())

    def resume(self, *, ignore_failures: bool = False) -> None:
        """Lifts a pause; with `ignore_failures` also a halt.

        TasksFailed then leaves out the failures so far.
        """
        _background.run(self._core.resume(_checks.flag(ignore_failures, "ignore_failures")))

    def update(self, **settings: Unpack[Settings]) -> None:
        """Changes settings, such as `max_parallelism`."""
        _background.run(self._core.update(settings))

    def describe(self) -> scheduler_pb2.Scheduler:
        """Settings and counts, as the service has them."""
        return _background.run(self._core.describe())


class AsyncScheduler(_SchedulerFace):
    """As `Scheduler`, for asyncio.

    >>> async def one() -> int:
    ...     async with AsyncScheduler() as s:
    ...         result = await s.submit(sql("select 1"))
    ...         return result.rows_affected
    """

    async def open(self) -> AsyncScheduler:
        """Opens it, as the `async with` block does. `close` ends it."""
        await _background.arun(self._core.open(), self._undo)
        return self

    async def close(self) -> None:
        """Ends it as `on_exit` says, as the end of the block does."""
        try:
            if self._core.is_of_parent():
                return
            await _background.arun(self._core.close(self._on_exit))
        except RallypointError:
            raise
        except BaseException:  # a timeout, or another cancellation, while it waits
            await _background.afinish(self._abort())
            raise
        self._core.ledger.raise_unseen()

    async def __aenter__(self) -> AsyncScheduler:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif not self._core.is_of_parent():
            await _background.afinish(self._abort())

    def submit(
        self, task: Task | str, *params: Never, order: int | None = None, **strange: Never
    ) -> TaskFuture:
        """Submits a task; awaiting the future waits for its result.

        It never waits, so it submits at most 50 000 tasks ahead; `map` waits.
        """
        refuse_options("submit", strange, params)
        if self._core.submission.unsent >= MAX_UNSENT:
            raise RallypointError(
                f"{MAX_UNSENT} tasks are not sent yet; await some of the futures, or use map()"
            )
        return self._put(task, order)[0]

    async def map(
        self, task: Task | str, params: Iterable[Any], *, order: int | None = None, **strange: Never
    ) -> list[TaskFuture]:
        """As `Scheduler.map`: it waits until the tasks are handed over, not for their results."""
        refuse_options("map", strange)
        futures: list[TaskFuture] = []
        with _all_or_none(futures):
            for chunk in self._chunks(task, params, order):
                futures += [future for future, _ in chunk]
                if self._core.submission.put(chunk):
                    await _background.arun(self._core.submission.room())
                await asyncio.sleep(0)  # others have their turn
        return futures

    async def synchronize(
        self, *, order: int | None = None, timeout: Seconds | None = None
    ) -> None:
        """As `Scheduler.synchronize`."""
        await _background.arun(
            self._core.synchronize(check_order(order), _checks.patience(timeout, "timeout"))
        )

    async def retry(self, future: TaskFuture, task: Task | str | None = None) -> TaskFuture:
        """As `Scheduler.retry`."""
        return await _background.arun(self._core.retry(future, task))

    async def pause(self) -> None:
        """Starts no more tasks; those that run go on."""
        await _background.arun(self._core.pause())

    async def resume(self, *, ignore_failures: bool = False) -> None:
        """As `Scheduler.resume`."""
        await _background.arun(self._core.resume(_checks.flag(ignore_failures, "ignore_failures")))

    async def update(self, **settings: Unpack[Settings]) -> None:
        """Changes settings, such as `max_parallelism`."""
        await _background.arun(self._core.update(settings))

    async def describe(self) -> scheduler_pb2.Scheduler:
        """Settings and counts, as the service has them."""
        return await _background.arun(self._core.describe())
