"""The order in which a block of the program submits."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# For each thread, and each task of asyncio: the schedulers with a block around, innermost last.
_blocks: ContextVar[tuple[tuple[object, int], ...]] = ContextVar("rallypoint-orders", default=())


@contextmanager
def order_block(scheduler: object, order: int) -> Iterator[None]:
    """What is submitted inside has this order, unless it says another one."""
    token = _blocks.set((*_blocks.get(), (scheduler, order)))
    try:
        yield
    finally:
        _blocks.reset(token)


def present_order(scheduler: object) -> int | None:
    """That of the innermost block."""
    for owner, order in reversed(_blocks.get()):
        if owner is scheduler:
            return order
    return None
