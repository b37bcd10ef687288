"""What this process keeps for a lease, and renews on the background thread until it is given back.

It counts as lost when no renewal was answered for nearly a lease, and when it was kept for nearly
as long as it may be, by the clock of this process and from when the last answered renewal was sent.
So it is known to be lost here before others get it, unless the process is suspended, or an operator
ends it or shortens `max_hold` or `max_runtime`: against that, show the token to what is protected.
"""

import asyncio
import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable

from rallypoint.errors import CallError

log = logging.getLogger("rallypoint")

# How much earlier than the service this process takes a lease for lost, at least.
_MARGIN = 0.2
# Before a renewal is tried again.
_PAUSE = 0.1

_GIVEN_BACK = "it was given back"

DEFAULT_LEASE = 15.0
# Seconds that giving back takes at most after Ctrl-C or another error: the lease ends it, too.
HURRY = 5.0


class Lease:
    """One lease, which is renewed until `stop`, or until it is lost."""

    def __init__(
        self,
        what: str,
        seconds: float,
        since: float,
        renew: Callable[[float], Awaitable[float | None]],
        why: Callable[[CallError], Awaitable[str | None]],
        left: float | None,
        at_limit: str,
    ) -> None:
        """`since`: by the monotonic clock, when the call was sent that began it. `renew` gets the
        seconds it may take.

        `left`: for how many seconds it may be kept from then on, however often it is renewed; None:
        any time. `renew` returns the same. `at_limit`: how it is lost then.

        `why` says of an error of `renew` that the lease is lost, and how; None: try again.
        """
        self._what, self._seconds, self._renew, self._why = what, seconds, renew, why
        # What it protects is left alone a little before others may have it.
        self._kept = seconds - max(seconds / 10, _MARGIN)
        self._since = since
        self._limited, self._at_limit = self._limit(since, left), at_limit
        self._lost: str | None = None
        self._pid = os.getpid()
        self._lost_lock, self._loop = threading.Lock(), asyncio.get_running_loop()
        # Who is to hear that it is lost, until they have heard it.
        self._on_lost: list[Callable[[str], None]] | None = []
        self._task = asyncio.create_task(self._keep())

    @property
    def lost(self) -> str | None:
        """Why it was lost, or that it was given back; None: as far as is known, it is kept.

        From any thread. What was once said to be lost remains so.
        """
        if not self.is_here():
            return f"process {self._pid} has it, from which this one was forked"
        until, why = self._end()
        if self._lost is None and time.monotonic() >= until and self._set_lost(why):
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to hear
                self._loop.call_soon_threadsafe(self.lose, why)
        return self._lost

    def _set_lost(self, why: str) -> bool:
        """False: it was lost before."""
        with self._lost_lock:
            if self._lost is not None:
                return False
            self._lost = why
            return True

    def _end(self) -> tuple[float, str]:
        """When it counts as lost, and why."""
        kept = self._since + self._kept
        if self._limited < kept:
            return self._limited, self._at_limit
        return kept, "it could not be renewed within its lease"

    def _next(self, sent: float) -> float:
        """When to renew it after a call of this time. What is left may be more or less by then,
        since it counts by the clock of the service."""
        return sent + min(self._seconds / 3, max((self._limited - sent) / 3, _PAUSE))

    @staticmethod
    def _limit(sent: float, left: float | None) -> float:
        return math.inf if left is None else sent + max(left - _MARGIN, 0)

    def is_here(self) -> bool:
        """Whether this process has it, and not the one from which it was forked."""
        return self._pid == os.getpid()

    def when_lost(self, function: Callable[[str], None]) -> None:
        """Has a function called with the reason when it is lost; at once, if it is already."""
        if self._on_lost is not None:
            self._on_lost.append(function)
        elif self._lost is not None and self._lost != _GIVEN_BACK:
            self._tell(function, self._lost)

    def lose(self, why: str) -> None:
        """It is lost; this is why, unless somebody has seen before that it is."""
        if self._on_lost is None:
            return
        self._set_lost(why)
        why = self._lost or why
        log.warning("%s is lost: %s", self._what, why)
        on_lost, self._on_lost = self._on_lost, None
        for function in on_lost:
            self._tell(function, why)

    def _tell(self, function: Callable[[str], None], why: str) -> None:
        try:
            function(why)
        except BaseException:  # sys.exit() in it, too, must not end the thread for all others
            log.exception("a callback of %s fails", self._what)

    def stop(self) -> None:
        """Renews it no more: it is given back, and cannot be lost from here on."""
        self._task.cancel()
        if (lost := self.lost) is not None:
            self.lose(lost)
        self._on_lost = None
        self._set_lost(_GIVEN_BACK)

    async def _keep(self) -> None:
        due = self._next(self._since)
        while self._lost is None:
            end, why_then = self._end()
            await asyncio.sleep(max(min(due, end) - time.monotonic(), 0))
            sent = time.monotonic()
            if sent >= end:
                self.lose(why_then)
                return
            try:
                # No renewal takes longer than until the next one is due.
                left = await self._renew(min(self._next(sent), end) - sent)
                self._since = sent
                self._limited = self._limit(sent, left)
                due = self._next(sent)
            except CallError as error:
                why = await self._why(error)
                if why is not None:
                    self.lose(why)
                    return
                due = time.monotonic() + _PAUSE
        self.lose(self._lost)
