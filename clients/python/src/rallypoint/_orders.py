"""The order in which a block of the program submits."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# For each thread, and each task of asyncio: the schedulers with a block around, innermost last.
_blocks: ContextVar[tuple[tuple[object, int], ...]] = ContextVar("rallypoint-orders", default=())

# All blocks that are open, each with the thread that has opened it.
_open: list[tuple[object, int, int]] = []
_lock = threading.Lock()


@contextmanager
def order_block(scheduler: object, order: int) -> Iterator[None]:
    """What is submitted inside has this order, unless it says another one."""
    token = _blocks.set((*_blocks.get(), (scheduler, order)))
    block = (scheduler, order, threading.get_ident())
    with _lock:
        _open.append(block)
    try:
        yield
    finally:
        with _lock:
            _open.remove(block)
        _blocks.reset(token)


def present_order(scheduler: object) -> int | None:
    """That of the innermost block.

    Warns when there is none, and another thread is in one: it may have given this one its work.
    """
    for owner, order in reversed(_blocks.get()):
        if owner is scheduler:
            return order
    with _lock:
        elsewhere = [
            order
            for owner, order, thread in _open
            if owner is scheduler and thread != threading.get_ident()
        ]
    if elsewhere:
        text = (
            f"another thread is in `with s.order({elsewhere[-1]})`, and this one submits without "
            "an order: the block does not reach it; give order=… here"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return None
