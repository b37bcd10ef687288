"""The order in which a block of the program submits."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

# For each thread, and each task of asyncio: the schedulers with a block around, innermost last.
_blocks: ContextVar[tuple[tuple[object, int | None], ...]] = ContextVar(
    "rallypoint-orders", default=()
)

# All blocks with an order that are open, each with the thread that has opened it.
_open: list[tuple[object, int, int]] = []

# From `present_order` to the call of the program, which the warning is about.
_CALLER = 5


@contextmanager
def order_block(scheduler: object, order: int | None) -> Iterator[None]:
    """What is submitted inside has this order, unless it says another one. None: it has none."""
    before = _blocks.get()
    block = None if order is None else (scheduler, order, threading.get_ident())
    try:
        if block is not None:
            _open.append(block)
        _blocks.set((*before, (scheduler, order)))
        yield
    finally:
        _blocks.set(before)
        with suppress(ValueError):
            _open.remove(block)  # type: ignore[arg-type]


def present_order(scheduler: object) -> int | None:
    """That of the innermost block.

    Warns when there is none, and another thread is in one: it may have given this one its work.
    """
    for owner, order in reversed(_blocks.get()):
        if owner is scheduler:
            return order
    here = threading.get_ident()
    elsewhere = [
        order for owner, order, thread in tuple(_open) if owner is scheduler and thread != here
    ]
    if elsewhere:
        text = (
            f"another thread is in `with s.order({elsewhere[-1]})`, and this one submits without "
            "an order: the block does not reach it. Give order=… here, or say that it has none by "
            "`with s.order(None)`"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=_CALLER)
    return None
