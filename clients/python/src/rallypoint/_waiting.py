"""Waiting for a future so that Ctrl-C is noticed at once, and harms nothing.

Python raises KeyboardInterrupt between any two of its instructions, also where a `with` has locked
the condition of a future and has not begun its block. Nobody unlocks it then, and the thread that
is to set the result stands still, and with it everything else. These futures are locked by code in
C, into which no signal breaks, and waiting for one leaves them unlocked.
"""

import _thread
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

# A signal that arrives just before a thread blocks is not seen by it until it wakes up.
_SLICE = 1.0

T = TypeVar("T")


class _Lock(_thread.RLock):  # type: ignore[misc]  # typeshed has it as final, which it is not
    """In place of the condition of a future."""

    def notify_all(self) -> None:
        """Nobody waits for it: they have callbacks."""


class Future(concurrent.futures.Future[T]):
    """A future whose result can be set, whatever has interrupted those who ask for it."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Lock()  # type: ignore[assignment]


def wait_until_done(future: Future[T], timeout: float | None = None) -> None:
    """Returns when it is done. Raises TimeoutError after so many seconds."""
    if not future.done():
        wait_until_any_is_done((future,), timeout)


def wait_until_any_is_done(futures: Sequence[Future[Any]], timeout: float | None = None) -> None:
    """As `wait_until_done`, for the first of them that is done."""
    ended = threading.Lock()
    ended.acquire()

    def end(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # another one was first
            ended.release()

    until = None if timeout is None else time.monotonic() + timeout
    for future in futures:
        add_done_callback(future, end)
    try:
        while True:
            left = _SLICE if until is None else min(until - time.monotonic(), _SLICE)
            if ended.acquire(timeout=max(left, 0.0)):
                return
            if left <= 0:
                raise TimeoutError
    finally:
        for future in futures:
            remove_done_callback(future, end)


def add_done_callback(future: Future[T], callback: Callable[[Any], object]) -> None:
    """Of whatever class it is."""
    concurrent.futures.Future.add_done_callback(future, callback)


def remove_done_callback(future: Future[T], callback: Callable[[Any], object]) -> int:
    """Calls it no more; how often it was there."""
    with future._condition:
        known: list[Any] = vars(future)["_done_callbacks"]
        before = len(known)
        known[:] = [other for other in known if other != callback]
        return before - len(known)
