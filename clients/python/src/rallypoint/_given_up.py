"""What calls have made whose answers nobody waits for, given back in the background.

All of it on the background thread.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator
from typing import Any

# How long a client that is closed waits for that.
_TIMEOUT = 0.5

# Tasks that make something, and those that give it back.
_making: set[asyncio.Task[Any]] = set()
_giving_back: set[asyncio.Task[None]] = set()


@contextlib.contextmanager
def making() -> Iterator[None]:
    """Around what gives something back when it is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    _making.add(task)
    try:
        yield
    finally:
        _making.discard(task)


def in_background(work: Coroutine[Any, Any, None]) -> None:
    """Gives something back."""
    task = asyncio.create_task(work)
    _giving_back.add(task)
    task.add_done_callback(_giving_back.discard)


async def given_back() -> None:
    """Waits a moment for what is being given back: its connection is about to be closed.

    What is left then ends with its lease, or when it has been idle for long.
    """
    ends = time.monotonic() + _TIMEOUT
    cancelled = {task for task in _making if task.cancelling()}
    for tasks in (cancelled, _giving_back):
        if tasks:
            await asyncio.wait(set(tasks), timeout=max(0.0, ends - time.monotonic()))
