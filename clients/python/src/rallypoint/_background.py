"""The thread on which everything that takes time happens: calls, streams, renewals of leases.

One event loop in one thread of the process, started when it is first needed. The classes for
programs with threads and those for asyncio both hand their work to it, so it is written once, and
a lease is renewed also while the program itself computes.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rallypoint._waiting import wait_until_done
from rallypoint.errors import RallypointError

T = TypeVar("T")


class _Background:
    """A running event loop, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # A daemon: a program that ends does not wait for it.
        self.thread = threading.Thread(target=self._serve, name="rallypoint", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_lock = threading.Lock()
_present: _Background | None = None


def _forget() -> None:
    """Threads do not survive a fork."""
    global _present, _lock
    _present, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _background() -> _Background:
    global _present
    if _present is None:
        with _lock:
            if _present is None:
                _present = _Background()
    return _present


def is_here() -> bool:
    """Whether this is the background thread: nothing may be waited for in it."""
    return _present is not None and threading.current_thread() is _present.thread


def call(function: Callable[..., object], *arguments: object) -> None:
    """Has the background thread call a function soon."""
    _background().loop.call_soon_threadsafe(function, *arguments)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Has the background thread do something, and waits for it."""
    if is_here():
        work.close()
        raise RallypointError(
            "this call waits, and was made in a callback of a future, for which everything else "
            "waits; make it in another thread"
        )
    future = asyncio.run_coroutine_threadsafe(work, _background().loop)
    try:
        wait_until_done(future)
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C: nobody waits for it any more
        raise


async def arun(work: Coroutine[Any, Any, T]) -> T:
    """Has the background thread do something, and awaits it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _background().loop))
