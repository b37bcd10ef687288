"""The future of a task: of `concurrent.futures`, and to be awaited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, Protocol

from rallypoint import _background, _checks
from rallypoint._result import Result, notices_of
from rallypoint._rounds import Gap, Round
from rallypoint._times import Seconds
from rallypoint._waiting import (
    Future,
    add_done_callback,
    remove_done_callback,
    wait_until_any_is_done,
)
from rallypoint.errors import (
    RallypointError,
    TaskCancelled,
    TaskError,
    TaskExhausted,
    TaskFailed,
    TaskTimedOut,
)
from rallypoint.v1 import task_pb2

_ERRORS: dict[int, type[TaskError]] = {
    task_pb2.OUTCOME_FAILED: TaskFailed,
    task_pb2.OUTCOME_TIMED_OUT: TaskTimedOut,
    task_pb2.OUTCOME_EXHAUSTED: TaskExhausted,
    task_pb2.OUTCOME_CANCELLED: TaskCancelled,
}


log = logging.getLogger("rallypoint")


class _Callback:
    """A callback of a future, which is called where it was added, or guarded."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self.function = function
        # The loop of the background thread is not the program's: there it is guarded, too.
        self._loop = None if _background.is_here() else asyncio._get_running_loop()

    def __eq__(self, other: object) -> bool:
        return self.function == (other.function if isinstance(other, _Callback) else other)

    def __call__(self, future: Any) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self.function, future)
                return
            except RuntimeError:  # the loop is closed
                pass
        try:
            self.function(future)
        except Exception:
            log.exception("a callback of a task fails")
        except BaseException:
            if not _background.is_here():
                raise
            # sys.exit() in a callback must not end the thread on which all others wait.
            log.exception("a callback of a task fails")


class Submitter(Protocol):
    """Whoever has submitted a task."""

    handle: str

    def cancel(self, future: TaskFuture, /) -> None:
        """Asks to cancel the task."""

    def seen(self, future: TaskFuture, /) -> None:
        """Somebody has asked for its error."""

    def watch(self, future: TaskFuture, /) -> Future[None] | None:
        """Gets SchedulerHalted once a halt blocks its task; None: nothing halts there."""

    def check_process(self) -> None:
        """Raises RallypointError in a process that was forked."""


class TaskFuture(Future[Result]):
    """What becomes of a task: a `Result`, or an error such as `TaskFailed`.

    It works with `concurrent.futures.wait` and `as_completed`, and in asyncio it is awaited;
    cancelling what awaits it leaves the task alone. While a halt blocks the task, it is pending.
    Callbacks run on the thread on which everything else happens, so they must be short and must
    not wait.
    """

    def __init__(self, submitter: Submitter, statement: str | None, order: int | None) -> None:
        super().__init__()
        self._submitter = submitter
        #: What it runs; None: a no-op.
        self.statement = statement
        #: The order it was submitted in.
        self.order = order
        #: Its number in the scheduler; 0: it has none yet.
        self.seq = 0
        #: That of its retry, once there is one.
        self._retry: TaskFuture | None = None
        #: In which round of the ledger it failed; None: it did not, or somebody has seen that.
        self._failed_in: Round[TaskFuture] | None = None
        #: What was refused with it or before it, if it was refused for others.
        self._gap: Gap | None = None
        self._is_cancelling = False
        # A call that cancels it is under way, or was answered.
        self._has_asked = False

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self._failure() else "succeeded"
        return f"<TaskFuture {self.seq or '(not numbered)'} {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """What has ended can be pickled, to show another process what it ended with."""
        if not self.done():
            raise TypeError("a future can be pickled when its task has ended, not before")
        outcome = self._failure() or super().result()
        return _ended, (self.handle, self.statement, self.order, self.seq, outcome)

    @property
    def handle(self) -> str:
        """The scheduler of the task."""
        return self._submitter.handle

    def result(self, timeout: Seconds | None = None) -> Result:
        """Waits for the result, for so many seconds at most. Raises what the task ended with.

        Raises SchedulerHalted when a failure keeps the task from starting. It goes on waiting, and
        can be asked again when the halt is lifted.
        """
        self._wait(_checks.patience(timeout, "timeout"))
        return super().result()

    def exception(self, timeout: Seconds | None = None) -> BaseException | None:
        """As `result`; what the task ended with is returned. None: it succeeded."""
        self._wait(_checks.patience(timeout, "timeout"))
        return super().exception()

    def cancel(self) -> bool:
        """Asks to cancel the task, also while it runs; False: it has ended.

        What came of it the future tells: `TaskCancelled`, or a result if that was quicker.
        """
        if self.done():
            return False
        self._submitter.check_process()
        if not self._has_asked:
            self._is_cancelling = self._has_asked = True
            self._submitter.cancel(self)
        return True

    def cancelled(self) -> bool:
        """Whether the task ended cancelled, by whomever."""
        return self.done() and isinstance(self._failure(), TaskCancelled)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Has a function called with this when the task has ended: see the class.

        Added in a loop of asyncio, it is called in that loop.
        """
        super().add_done_callback(_Callback(fn))

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """Calls it no more. How often it was there, as asyncio has it."""
        return remove_done_callback(self, fn)

    def __await__(self) -> Generator[Any, None, Result]:
        if not self.done():
            self._submitter.check_process()
            loop = asyncio.get_running_loop()
            done = loop.create_future()

            def wake(_: object) -> None:
                if not done.done():
                    done.set_result(None)

            self.add_done_callback(wake)
            halted = self._submitter.watch(self)
            if halted is not None:
                add_done_callback(halted, _Callback(wake))
            try:
                yield from done
            finally:
                self.remove_done_callback(wake)
                if halted is not None:
                    remove_done_callback(halted, wake)
            self._raise_halt(halted)
        return self.result()

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            self._submitter.check_process()
            if _background.is_here():
                raise RallypointError(
                    "a callback of a future must not wait: everything else waits for it"
                )
            halted = self._submitter.watch(self)
            wait_until_any_is_done([self] if halted is None else [self, halted], timeout)
            self._raise_halt(halted)
        if self._failed_in is not None:
            self._submitter.seen(self)

    def _raise_halt(self, halted: Future[None] | None) -> None:
        """Raises SchedulerHalted for somebody who has waited in vain."""
        if halted is not None and not self.done():
            halted.result()

    def _failure(self) -> BaseException | None:
        return super().exception()

    def outcome(self, done: task_pb2.AsyncDone) -> Result | TaskError:
        """What the event of the task says. For the other modules of this package."""
        if done.outcome == task_pb2.OUTCOME_SUCCEEDED:
            return Result(done)
        error = done.error
        kind = _ERRORS.get(done.outcome)
        if kind is None:  # of a newer server
            kind = TaskFailed
            code, message = "OUTCOME_UNKNOWN", _unknown(done)
        else:
            code, message = error.code, error.message
        return kind(
            code,
            message,
            handle=self._submitter.handle,
            seq=done.seq,
            attempt=done.attempt,
            statement=self.statement,
            detail=error.detail,
            hint=error.hint,
            context=error.context,
            constraint=error.constraint,
            position=error.position if error.HasField("position") else None,
            notices=notices_of(done),
        )


def _unknown(done: task_pb2.AsyncDone) -> str:
    """What is said of an outcome that this package does not know."""
    text = (
        f"the service says that the task ended with outcome {done.outcome}, which this version of "
        "the package does not know: take a newer one"
    )
    said = " ".join(part for part in (done.error.code, done.error.message) if part)
    return f"{text}; its error: {said}" if said else text


class _Elsewhere:
    """Whoever has submitted a task, in another process."""

    def __init__(self, handle: str) -> None:
        self.handle = handle

    def cancel(self, future: TaskFuture, /) -> None:
        """Has nothing to do: the task has ended."""

    def seen(self, future: TaskFuture, /) -> None:
        """Is not told to the other process."""

    def watch(self, future: TaskFuture, /) -> None:
        """The task has ended."""

    def check_process(self) -> None:
        """Everything is known here."""


def _ended(
    handle: str, statement: str | None, order: int | None, seq: int, outcome: Any
) -> TaskFuture:
    """A future that was pickled."""
    future = TaskFuture(_Elsewhere(handle), statement, order)
    future.seq = seq
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future
