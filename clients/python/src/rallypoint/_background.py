"""The thread on which everything that takes time happens: calls, streams, renewals of leases.

One event loop in one thread of the process, started when it is first needed. The classes for
programs with threads and those for asyncio both hand their work to it, so it is written once, and
a lease is renewed also while the program itself computes.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeAlias, TypeVar

from rallypoint._waiting import Future, wait_until_done
from rallypoint.errors import RallypointError

log = logging.getLogger("rallypoint")

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
    _unattended.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _background() -> _Background:
    global _present
    if _present is None:
        with _lock:
            if _present is None:
                _present = _Background()
    return _present


def is_running() -> bool:
    """Whether something was handed to the thread in this process."""
    return _present is not None


def is_here() -> bool:
    """Whether this is the background thread: nothing may be waited for in it."""
    return _present is not None and threading.current_thread() is _present.thread


def call(function: Callable[..., object], *arguments: object) -> None:
    """Has the background thread call a function soon."""
    _background().loop.call_soon_threadsafe(function, *arguments)


Undo: TypeAlias = Callable[[T], Coroutine[Any, Any, object]]


def run(work: Coroutine[Any, Any, T], undo: Undo[T] | None = None) -> T:
    """Has the background thread do something, and waits for it.

    Ctrl-C cancels it. When it was too quick for that, `undo` gets the result that nobody took.
    """
    handover = _Handover(work, undo)
    try:
        handover.start()
        return _waited(handover)
    except BaseException:
        handover.leave()
        raise


async def arun(work: Coroutine[Any, Any, T], undo: Undo[T] | None = None) -> T:
    """As `run`, and awaits it: being cancelled cancels it."""
    handover = _Handover(work, undo)
    try:
        handover.start()
        return await asyncio.wrap_future(handover.future)
    except RallypointError as error:
        handover.leave()
        _shorten(error)
        raise
    except BaseException:
        handover.leave()
        raise


def finish(work: Coroutine[Any, Any, T], within: float | None = None) -> T:
    """As `run`, for what gives back: it goes on when nobody waits for it any more.

    `within`: for how many seconds it is waited for at most; then it raises TimeoutError.
    """
    handover: _Handover[T] | None = None
    try:
        handover = _Handover(work)
        handover.start()
        return _waited(handover, within)
    except RallypointError:
        raise
    except BaseException:  # Ctrl-C may come at any moment
        (handover or _Handover(work)).go_on()
        raise


def go_on(work: Coroutine[Any, Any, object]) -> None:
    """As `finish`, and waits for nothing."""
    _Handover(work).go_on()


async def afinish(work: Coroutine[Any, Any, T]) -> T:
    """As `finish`, and awaits it."""
    handover = _Handover(work)
    handover.start()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    call_soon = ended.get_loop().call_soon_threadsafe

    def end_soon(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            call_soon(end)

    handover.future.add_done_callback(end_soon)
    try:
        await ended
    except BaseException:
        handover.go_on()
        raise
    try:
        return handover.future.result()
    except RallypointError as error:
        _shorten(error)
        raise


def _shorten(error: RallypointError) -> None:
    """Leaves out where in this package it comes from: it says what is wrong."""
    error.__traceback__ = None


def _waited(handover: "_Handover[T]", within: float | None = None) -> T:
    wait_until_done(handover.future, within)
    try:
        return handover.future.result()
    except RallypointError as error:
        _shorten(error)
        raise


class _Handover(Generic[T]):
    """Work of the background thread, and its result on the way to whoever waits for it."""

    def __init__(self, work: Coroutine[Any, Any, T], undo: Undo[T] | None = None) -> None:
        if is_here():
            work.close()
            raise RallypointError(
                "this call waits, and was made in a callback of a future, for which everything "
                "else waits; make it in another thread"
            )
        if sys.is_finalizing():
            # The thread stands still by now, and this one would for ever.
            work.close()
            raise RallypointError("the interpreter ends: what is open ends with its lease, or idle")
        self._work, self._undo = work, undo
        self.future: Future[T] = Future()
        # These are of the background thread.
        self._results: list[T] = []
        self._is_left = False
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """Begins the work, if it has not begun.

        Apart from making this, so that whoever is interrupted here has it, and can leave it.
        """
        call(self._begin)

    def _begin(self) -> None:
        if self._task is None and not self._is_left:
            self._task = asyncio.ensure_future(self._work)
            self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[T]") -> None:
        error = None if task.cancelled() else task.exception()
        if not task.cancelled() and error is None:
            self._results.append(task.result())
        self._undo_if_left()
        if error is None and not self._results:
            self.future.cancel()
        if not self.future.set_running_or_notify_cancel():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._results[0])

    def leave(self) -> None:
        """Nobody waits for it any more."""
        call(self._leave)

    def _leave(self) -> None:
        self._is_left = True
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()
            leave(self._task)
        self._undo_if_left()

    def go_on(self) -> None:
        """Nobody waits for it any more, and it is done all the same."""
        call(self._go_on)

    def _go_on(self) -> None:
        self._begin()  # whoever was to do that may have been interrupted before
        if self._task is not None:
            leave(self._task)

    def _undo_if_left(self) -> None:
        if self._is_left and self._results and self._undo is not None:
            leave(asyncio.ensure_future(_quietly(self._undo(self._results.pop()))))


_unattended: set[asyncio.Future[Any]] = set()


def leave(work: "asyncio.Future[Any]") -> None:
    """Nobody waits for it any more. On the background thread, as what follows."""
    if not work.done():
        _unattended.add(work)
        work.add_done_callback(_unattended.discard)


def unattended() -> "set[asyncio.Future[Any]]":
    """What was left so, and has not ended."""
    return set(_unattended)


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception as error:
        log.warning("what nobody waits for any more cannot be given back: %s", error)
