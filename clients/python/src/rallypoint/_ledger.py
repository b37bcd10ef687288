"""Which tasks of a scheduler have not ended, and which failed.

Tasks end on the background thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rallypoint._failures import TasksFailed
from rallypoint._future import TaskFuture
from rallypoint._result import Result
from rallypoint.errors import TaskCancelled

if TYPE_CHECKING:
    from rallypoint._progress import Progress

# Failures that TasksFailed has, and those that are kept, of which some may be seen by then.
_MAX_SHOWN = 100
_MAX_FAILURES = 10_000


class _Count:
    """How many tasks did not succeed, and how many of them were cancelled."""

    def __init__(self) -> None:
        self.all = self.cancelled = 0

    def add(self, is_cancelled: bool, count: int) -> None:
        """So many more, or fewer."""
        self.all += count
        self.cancelled += count if is_cancelled else 0


class Ledger:
    """The futures of one scheduler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[TaskFuture] = set()
        self._waiters: list[tuple[set[TaskFuture], asyncio.Future[None]]] = []
        # Failures that nobody has asked for, the first of them, and how many there are besides.
        self._failures: dict[TaskFuture, None] = {}
        self._left_out = _Count()
        # Another one since failures were raised, or set aside; and the last of which that was so.
        self._round, self._told = 1, 0
        #: Whether a failure cancels other tasks, and whether this program cancels everything.
        self.cancels_rest = self.is_cancelled = False
        self._submitted = self._done = self._failed = self._cancelled = 0
        self._begun: float | None = None

    @property
    def round(self) -> int:
        """That of what fails now: another one since failures were raised, or set aside."""
        return self._round

    @property
    def told(self) -> int:
        """The last round whose failures were raised, or are ignored."""
        return self._told

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
                is_told = future._is_cancelling or (self.cancels_rest and self._failed > 0)
                if not is_told and not self.is_cancelled:  # somebody else has done it
                    self._add_failure(future, is_cancelled=True)
            elif isinstance(outcome, Exception):
                self._failed += 1
                self._add_failure(future, is_cancelled=False)
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        for remaining, waiter in self._waiters:
            remaining.discard(future)
            if not remaining and not waiter.done():
                waiter.set_result(None)

    def _add_failure(self, future: TaskFuture, is_cancelled: bool) -> None:
        future._failed_in = self._round
        if len(self._failures) < _MAX_FAILURES:
            self._failures[future] = None
        else:
            self._left_out.add(is_cancelled, 1)

    def seen(self, future: TaskFuture) -> None:
        """Somebody has asked for its error. From any thread."""
        with self._lock:
            if future._failed_in == self._round:
                future._failed_in = 0
                if future in self._failures:
                    del self._failures[future]
                else:
                    self._left_out.add(future.cancelled(), -1)

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
        unseen, count, told = self._take_unseen()
        self._told = max(self._told, told)
        for future in unseen:
            count.add(future.cancelled(), 1)
        if count.all:
            raise TasksFailed(unseen[:_MAX_SHOWN], count.all, count.cancelled)

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """The failures so far are not raised, unless the block fails."""
        unseen, left_out, told = self._take_unseen()
        try:
            yield
        except BaseException:
            with self._lock:
                for future in unseen:
                    self._add_failure(future, future.cancelled())
                self._left_out.add(True, left_out.cancelled)
                self._left_out.add(False, left_out.all - left_out.cancelled)
            raise
        self._told = max(self._told, told)

    def _take_unseen(self) -> tuple[list[TaskFuture], _Count, int]:
        """The failures since they were taken last, how many were left out, and their round."""
        with self._lock:
            unseen, left_out, taken = list(self._failures), self._left_out, self._round
            self._failures, self._left_out = {}, _Count()
            self._round += 1
        return unseen, left_out, taken

    def progress(self) -> Progress:
        """How far it is."""
        from rallypoint._progress import Progress

        with self._lock:
            begun = time.monotonic() if self._begun is None else self._begun
            return Progress(
                submitted=self._submitted,
                done=self._done,
                failed=self._failed,
                cancelled=self._cancelled,
                seconds=time.monotonic() - begun,
            )
