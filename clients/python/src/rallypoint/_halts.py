"""Whether a failure keeps all that is left from starting, for those who wait for it.

A halt is no state here: it is asked for while somebody waits, and a repair ends it. So a future
that is blocked stays pending, and ends as any other when the halt is lifted.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import threading

from google.protobuf import empty_pb2

from rallypoint import _background, _methods
from rallypoint._connection import Connection
from rallypoint._events import Events
from rallypoint._future import TaskFuture
from rallypoint._waiting import Future
from rallypoint.errors import CallError, SchedulerHalted
from rallypoint.v1 import scheduler_pb2

log = logging.getLogger("rallypoint")

# Between two looks, when the tasks of the first have ended and others have come.
_PAUSE = 0.1
# Before the next look when one was refused: this, then twice as long each time, up to the limit.
_REFUSED = 1.0
_LONGEST = 30.0


class Halts:
    """The halts of one scheduler. Only `watch` is called from any thread."""

    def __init__(self, connection: Connection, handle: str, events: Events) -> None:
        self._connection, self._handle, self._events = connection, handle, events
        #: Whether a failure halts this scheduler, or has done so.
        self.can_be = False
        self._lock = threading.Lock()
        self._watched: dict[TaskFuture, Future[None]] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._repairs = 0

    def repaired(self) -> None:
        """A failure was retried or ignored: a look that began before says nothing of now."""
        self._repairs += 1

    def watch(self, future: TaskFuture) -> Future[None] | None:
        """Gets SchedulerHalted once a halt blocks the task of this future, which has not ended.

        None: nothing halts here. Whoever waits again watches again.
        """
        if not self.can_be:
            return None
        with self._lock:
            halted = self._watched.setdefault(future, Future())
        _background.call(self._start)
        return halted

    async def halted(self) -> SchedulerHalted:
        """Returns when a failure keeps all that is left, and was sent before, from starting."""
        while (halted := await self._look()) is None:
            await asyncio.sleep(_PAUSE)
        return halted

    async def stop(self) -> None:
        """Watches no more."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])

    def _start(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """One stream for all who wait, kept until what they wait for has ended."""
        refused = _REFUSED
        while watched := self._unfinished():
            # Those that are sent during the look need not be blocked.
            sent, repairs = [future for future in watched if future.seq], self._repairs
            pause = _PAUSE
            try:
                halted = await self._look() if sent else None
                refused = _REFUSED
                if halted is not None and repairs == self._repairs:
                    self._tell(sent, halted)
                    continue
            except CallError as error:
                # What is wrong with the scheduler the stream of events hears, too, which then ends
                # the futures; what is wrong with this stream alone, such as too many, may pass.
                log.info("scheduler %s is not watched: %s", self._handle, error)
                pause, refused = max(error.retry_after or 0, refused), min(refused * 2, _LONGEST)
            except Exception:
                log.exception("scheduler %s is not watched", self._handle)
                return
            await asyncio.sleep(pause)

    def _unfinished(self) -> list[TaskFuture]:
        """Those that are watched, without those that have ended."""
        with self._lock:
            for future in [future for future in self._watched if future.done()]:
                del self._watched[future]
            return list(self._watched)

    def _tell(self, futures: list[TaskFuture], halted: SchedulerHalted) -> None:
        with self._lock:
            told = [self._watched.pop(future) for future in futures]
        for waiter in told:
            waiter.set_exception(copy.copy(halted))

    async def _look(self) -> SchedulerHalted | None:
        """Until all that was submitted so far has ended, or a failure blocks all that is left."""
        request = scheduler_pb2.SynchronizationRequest(
            handle=self._handle,
            after=self._events.cursor,
            until=scheduler_pb2.Until(all=empty_pb2.Empty()),
        )
        stream = self._connection.resumed(_methods.SYNCHRONIZATION, lambda: request)
        async with contextlib.aclosing(stream):
            async for message in stream:
                # Whoever is told of a halt finds the failures, though the other stream is behind.
                for done in message.done:
                    self._events.take(done)
                if message.HasField("end"):
                    end = message.end
                    if end.reason != scheduler_pb2.End.REASON_HALTED:
                        return None
                    await self._events.fetched()
                    return SchedulerHalted(self._handle, end.blocked, end.halt.failed_seqs)
        raise AssertionError("a stream that is resumed ends with a reason or an error")
