"""What failed, until the program has asked about it, or was told of it.

All of it behind the lock of the ledger.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from rallypoint._waiting import Future
from rallypoint.errors import CallError

# Failures that are kept, of which some may be seen by the time they are raised.
_MAX_FAILURES = 10_000
# Refused calls that are kept, each of which may be asked about.
_MAX_GAPS = 100

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
        #: Somebody has asked about one of its tasks.
        self.is_closed = False

    def is_live(self) -> bool:
        """Whether the program has neither asked about it nor was told of it."""
        return not self.is_closed and not self.round.present().is_told


class Round(Generic[F]):
    """What fails from one time at which the program is told of failures to the next one."""

    def __init__(self) -> None:
        # Failures that nobody has asked for, the first of them, and how many there are besides.
        self._failures: dict[F, None] = {}
        self._left_out = Count()
        # Gaps likewise: the first of them, the lowest of the others, and how many those are.
        self._gaps: list[Gap] = []
        self._lowest_left_out: Gap | None = None
        self._gaps_left_out = 0
        # The one that has taken over what was here.
        self._moved_to: Round[F] | None = None
        #: The program was told of what was here.
        self.is_told = False

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
        self._keep_gap(gap)
        return gap

    def _keep_gap(self, gap: Gap) -> None:
        if len(self._gaps) < _MAX_GAPS:
            self._gaps.append(gap)
        else:
            self._leave_out(gap, 1)

    def _leave_out(self, lowest: Gap, count: int) -> None:
        self._gaps_left_out += count
        if self._lowest_left_out is None or lowest.order < self._lowest_left_out.order:
            self._lowest_left_out = lowest

    def close_gap(self, gap: Gap) -> None:
        """Somebody has asked about one of its tasks.

        Those that are left out are closed together, when each of them was asked about.
        """
        if gap.is_closed:
            return
        gap.is_closed = True
        if gap in self._gaps:
            self._gaps.remove(gap)
        elif self._gaps_left_out:
            self._gaps_left_out -= 1
            if not self._gaps_left_out:
                self._lowest_left_out = None

    def lowest_gap(self) -> Gap | None:
        """The one with the lowest order."""
        left_out = [] if self._lowest_left_out is None else [self._lowest_left_out]
        return min([*self._gaps, *left_out], key=lambda gap: gap.order, default=None)

    def take(self) -> tuple[list[F], Count]:
        """The failures, and how many were left out: the program is told of all that is here."""
        self.is_told = True
        failures, left_out = list(self._failures), self._left_out
        # Futures that are kept do not keep those that failed with them.
        self._failures, self._left_out = {}, Count()
        self._gaps, self._lowest_left_out, self._gaps_left_out = [], None, 0
        return failures, left_out

    def take_over(self, later: Round[F]) -> None:
        """What has failed since is here, too."""
        later._moved_to = self
        for gap in later._gaps:
            self._keep_gap(gap)
        if later._lowest_left_out is not None:
            self._leave_out(later._lowest_left_out, later._gaps_left_out)
        failures, left_out = later.take()
        for future in failures:
            self.add(future, future.cancelled())
        self._left_out.add(True, left_out.cancelled)
        self._left_out.add(False, left_out.all - left_out.cancelled)
