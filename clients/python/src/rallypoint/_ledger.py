"""Which tasks of a scheduler have not ended, and which failed.

Tasks end on the background thread.
"""

import asyncio
import copy
import threading
import time

from rallypoint._failures import TasksFailed
from rallypoint._future import TaskFuture
from rallypoint._progress import Progress
from rallypoint._result import Result
from rallypoint.errors import TaskCancelled

# Failures that are kept for TasksFailed.
_MAX_FAILURES = 100


class Ledger:
    """The futures of one scheduler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[TaskFuture] = set()
        self._waiters: list[tuple[set[TaskFuture], asyncio.Future[None]]] = []
        self._failures: list[TaskFuture] = []
        self._left_out = 0  # failures beyond those kept
        self._submitted = self._done = self._failed = self._cancelled = 0
        self._begun: float | None = None

    def add(self, futures: list[TaskFuture]) -> None:
        """They were submitted. From any thread."""
        with self._lock:
            self._begun = time.monotonic() if self._begun is None else self._begun
            self._open.update(futures)
            self._submitted += len(futures)

    def open(self, order: int | None = None) -> set[TaskFuture]:
        """Those that have not ended; with an order, those of it or a lower one."""
        with self._lock:
            everything = self._open.copy()
        if order is None:
            return everything
        return {
            future for future in everything if future.order is not None and future.order <= order
        }

    def end(self, future: TaskFuture, outcome: Result | Exception) -> None:
        """A task has ended, which its future is given."""
        with self._lock:
            if future not in self._open:
                return
            self._open.remove(future)
            self._done += 1
            if isinstance(outcome, TaskCancelled):
                self._cancelled += 1
            elif isinstance(outcome, Exception):
                self._failed += 1
                if len(self._failures) < _MAX_FAILURES:
                    self._failures.append(future)
                else:
                    self._left_out += 1
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        for remaining, waiter in self._waiters:
            remaining.discard(future)
            if not remaining and not waiter.done():
                waiter.set_result(None)

    def leave(self, error: Exception) -> None:
        """Nobody will hear of those that have not ended, which is no failure."""
        with self._lock:
            left, self._open = self._open, set()
        for future in left:
            future.set_exception(copy.copy(error))
        for remaining, waiter in self._waiters:
            if remaining & left and not waiter.done():
                waiter.set_exception(copy.copy(error))

    async def wait(self, futures: set[TaskFuture]) -> None:
        """Until all of them have ended."""
        if not (remaining := {future for future in futures if not future.done()}):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (remaining, waiter)
        self._waiters.append(entry)
        try:
            await waiter
        finally:
            self._waiters.remove(entry)

    def raise_unseen(self) -> None:
        """Raises TasksFailed for failures that nobody has asked for, once."""
        with self._lock:
            unseen = [future for future in self._failures if not future._is_seen]
            left_out, self._left_out = self._left_out, 0
            self._failures = []
        if unseen:
            raise TasksFailed(unseen, len(unseen) + left_out)

    def progress(self) -> Progress:
        """How far it is."""
        with self._lock:
            begun = time.monotonic() if self._begun is None else self._begun
            return Progress(
                submitted=self._submitted,
                done=self._done,
                failed=self._failed,
                cancelled=self._cancelled,
                seconds=time.monotonic() - begun,
            )
