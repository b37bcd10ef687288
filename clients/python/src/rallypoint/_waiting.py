"""Waiting for a future so that Ctrl-C is always noticed.

A signal that arrives just before a thread blocks is not seen by it until it wakes up. So no wait is
longer than a second.
"""

import concurrent.futures
import time
from typing import TypeVar

_SLICE = 1.0

T = TypeVar("T")


def wait_until_done(future: "concurrent.futures.Future[T]", timeout: float | None = None) -> None:
    """Returns when it is done. Raises TimeoutError after so many seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    while not future.done():
        left = _SLICE if end is None else min(end - time.monotonic(), _SLICE)
        try:
            concurrent.futures.Future.exception(future, max(left, 0))
        except TimeoutError:
            if not future.done() and end is not None and time.monotonic() >= end:
                raise
        except concurrent.futures.CancelledError:
            return
