"""What a function returns that does a run: the run may be over, or its work may go on."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from typing import TypeVar

from rallypoint.errors import TaskCancelled

T = TypeVar("T")


def checked(result: T) -> T:
    """The same. Raises TypeError when its work has not begun, or may go on.

    A future that is done may be returned, such as that of a task. If it failed, its error is
    raised; if it was cancelled, that is `concurrent.futures.CancelledError`. In a list or a tuple,
    such as `map` of a scheduler returns, every element is looked at, but not what is in those.
    """
    returned = result if isinstance(result, list | tuple) else (result,)
    for one in returned:
        if inspect.iscoroutine(one):
            # One that is left over would warn that it was never awaited.
            one.close()
    for one in returned:
        _check(one)
    return result


def _check(result: object) -> None:
    if inspect.iscoroutine(result):
        raise TypeError(
            "the function returned a coroutine, whose work has not begun; `await` it in an "
            "`async def` that has @claim_run('…') directly above it, or use `async with "
            "claim_run('…')`"
        )
    may_go_on = isinstance(result, map) or inspect.isgenerator(result) or inspect.isasyncgen(result)
    is_future = isinstance(result, concurrent.futures.Future) or inspect.isawaitable(result)
    if may_go_on or (is_future and not _is_done(result)):
        raise TypeError(
            f"the function returned an object of {type(result).__name__}, whose run would count as "
            "done before the work is; do it inside the function, or use `with claim_run('…')`"
        )


def _is_done(future: object) -> bool:
    """Whether it is a future that is done. Raises the error of one that failed."""
    done, outcome = (getattr(future, name, None) for name in ("done", "result"))
    if not callable(done) or not callable(outcome) or not done():
        return False
    try:
        outcome()
    except TaskCancelled:
        raise
    except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
        # That of asyncio would seem to cancel whoever does the run.
        name = type(future).__name__
        text = f"the function returned an object of {name} that was cancelled"
        raise concurrent.futures.CancelledError(text) from error
    return True
