"""What failed, until the program has asked about it, or was told of it.

All of it behind the lock of the ledger.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from rallypoint._waiting import Future
from rallypoint.errors import CallError

# Failures that are kept, of which some may be seen by the time they are raised.
_MAX_FAILURES = 10_000

F = TypeVar("F", bound=Future[Any])


class Count:
    """How many tasks did not succeed, and how many of them were cancelled."""

    def __init__(self) -> None:
        self.all = self.cancelled = 0

    def add(self, is_cancelled: bool, count: int) -> None:
        """So many more, or fewer."""
        self.all += count
        self.cancelled += count if is_cancelled else 0


class Gap:
    """A call that was refused though nothing was wrong with its tasks.

    A later order must not run without them unnoticed.
    """

    def __init__(self, order: int, error: CallError, failed_in: Round[Any]) -> None:
        #: The lowest order of its tasks.
        self.order = order
        #: That of what is not sent because of them.
        self.error = error
        #: Where its failures are, or were before they were moved.
        self.round = failed_in


class Round(Generic[F]):
    """What fails from one time at which the program is told of failures to the next one."""

    def __init__(self) -> None:
        # Failures that nobody has asked for, the first of them, and how many there are besides.
        self._failures: dict[F, None] = {}
        self._left_out = Count()
        self._gaps: list[Gap] = []
        # The one that has taken over what was here.
        self._moved_to: Round[F] | None = None

    def present(self) -> Round[F]:
        """The one in which its failures are by now."""
        present = self
        while present._moved_to is not None:
            present = present._moved_to
        return present

    def add(self, future: F, is_cancelled: bool) -> None:
        """It failed."""
        if len(self._failures) < _MAX_FAILURES:
            self._failures[future] = None
        else:
            self._left_out.add(is_cancelled, 1)

    def seen(self, future: F, is_cancelled: bool) -> None:
        """Somebody has asked for the error of one that was added, which is done once."""
        if future in self._failures:
            del self._failures[future]
        else:
            self._left_out.add(is_cancelled, -1)

    def add_gap(self, order: int, error: CallError) -> Gap:
        """Of a call whose tasks are about to fail."""
        gap = Gap(order, error, self)
        self._gaps.append(gap)
        return gap

    def close_gap(self, gap: Gap) -> None:
        """Somebody has asked about one of its tasks."""
        if gap in self._gaps:
            self._gaps.remove(gap)

    def lowest_gap(self) -> Gap | None:
        """The one with the lowest order."""
        return min(self._gaps, key=lambda gap: gap.order, default=None)

    def take(self) -> tuple[list[F], Count]:
        """The failures, and how many were left out: the program is told of all that is here."""
        failures, left_out = list(self._failures), self._left_out
        # Futures that are kept do not keep those that failed with them.
        self._failures, self._left_out, self._gaps = {}, Count(), []
        return failures, left_out

    def take_over(self, later: Round[F]) -> None:
        """What has failed since is here, too."""
        later._moved_to = self
        self._gaps += later._gaps
        failures, left_out = later.take()
        for future in failures:
            self.add(future, future.cancelled())
        self._left_out.add(True, left_out.cancelled)
        self._left_out.add(False, left_out.all - left_out.cancelled)
