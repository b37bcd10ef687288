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
from rallypoint._rounds import Gap, Round
from rallypoint.errors import CallError, TaskCancelled

if TYPE_CHECKING:
    from rallypoint._progress import Progress

# Failures that TasksFailed has.
_MAX_SHOWN = 100


class Ledger:
    """The futures of one scheduler."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[TaskFuture] = set()
        self._waiters: list[tuple[set[TaskFuture], asyncio.Future[None]]] = []
        # What fails now: another one since failures were raised, or set aside; and those that are
        # set aside as long as it is not known whether they are ignored.
        self._round: Round[TaskFuture] = Round()
        self._aside: list[Round[TaskFuture]] = []
        #: Whether a failure cancels other tasks, and whether this program cancels everything.
        self.cancels_rest = self.is_cancelled = False
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
        self._round.add(future, is_cancelled)

    def add_gap(self, order: int, error: CallError) -> Gap:
        """Of a call whose tasks are about to fail, the lowest of them of this order."""
        with self._lock:
            return self._round.add_gap(order, error)

    def is_live(self, gap: Gap | None) -> bool:
        """Whether it is one that the program has neither asked about nor was told of."""
        with self._lock:
            return gap is not None and gap.is_live()

    def lowest_gap(self) -> Gap | None:
        """Of those that the program has not asked about, nor was told of. From any thread."""
        with self._lock:
            lowest = [live.lowest_gap() for live in (*self._aside, self._round)]
        return min((gap for gap in lowest if gap), key=lambda gap: gap.order, default=None)

    def seen(self, future: TaskFuture) -> None:
        """Somebody has asked for its error. From any thread."""
        with self._lock:
            if (failed_in := future._failed_in) is not None:
                future._failed_in = None
                failed_in.present().seen(future, future.cancelled())
            if (gap := future._gap) is not None:
                gap.round.present().close_gap(gap)

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
            told, self._round = self._round, Round()
            unseen, count = told.take()
        for future in unseen:
            count.add(future.cancelled(), 1)
        if count.all:
            raise TasksFailed(unseen[:_MAX_SHOWN], count.all, count.cancelled)

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """The failures so far are not raised, unless the block fails.

        What is raised meanwhile tells nothing of them.
        """
        with self._lock:
            aside, self._round = self._round, Round()
            self._aside.append(aside)
        try:
            yield
        except BaseException:
            with self._lock:
                self._aside.remove(aside)
                aside.take_over(self._round)
                self._round = aside
            raise
        with self._lock:
            self._aside.remove(aside)
            aside.take()

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
