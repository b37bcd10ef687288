"""What calls have made whose answers nobody waits for, given back in the background.

All of it on the background thread.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from rallypoint import _background

# How long a client that is closed, and a program that ends, wait for that.
_TIMEOUT = 0.5


def in_background(work: Coroutine[Any, Any, None]) -> None:
    """Gives something back."""
    _background.leave(asyncio.create_task(work))


async def given_back() -> None:
    """Waits a moment for what is being given back: its connection is about to be closed.

    What is left then ends with its lease, or when it has been idle for long.
    """
    ends, own = time.monotonic() + _TIMEOUT, asyncio.current_task()
    # What ends may leave something to be given back.
    while left := _background.unattended() - {own}:
        if (within := ends - time.monotonic()) <= 0:
            return
        await asyncio.wait(left, timeout=within)
