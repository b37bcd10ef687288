"""Tasks on their way to the service: those submitted during a call go with the next one.

A call is repeated under its request id until its outcome is known, so a task is submitted once.
The service takes or refuses a call as a whole; here each task is refused for what is wrong with
itself, and the others go on. When a call is refused for another reason, so is all that was not
sent yet: it may be of a later order, which must not run without what comes before. For the same
reason what is submitted to a later order after that is refused, until the program has asked about
one of the failures of each such call, or was told of them. What is refused for the sake of such a
call after that counts as another one.
"""

import asyncio
import contextlib
import copy
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Sequence

from rallypoint import _background, _methods
from rallypoint._connection import Connection
from rallypoint._events import Events
from rallypoint._future import TaskFuture
from rallypoint._halts import Halts
from rallypoint._leases import HURRY
from rallypoint._ledger import Ledger
from rallypoint._request_id import new_request_id
from rallypoint._rounds import Gap
from rallypoint._waiting import Future
from rallypoint.errors import CallError, RallypointError, TaskCancelled
from rallypoint.v1 import scheduler_pb2, task_pb2

log = logging.getLogger("rallypoint")

# A call has 10 000 tasks and 4 MiB at most, with what surrounds them.
_MAX_TASKS = 10_000
_MAX_BYTES = 4_000_000
_BYTES_AROUND = 8
# Tasks that wait to be sent, before whoever submits more waits.
MAX_UNSENT = 50_000
# For how many seconds tasks are submitted while there is no room: some has to end before.
_BUSY_TIMEOUT = 300.0
# These are about who calls, and not about a task.
_OF_THE_CALLER = ("UNAUTHENTICATED", "PERMISSION_DENIED")
# Calls that cancel single tasks at a time.
_CANCELS = 16
_FIELD = r"tasks\[(\d+)\]"

Entry = tuple[TaskFuture, task_pb2.Task]


class Submission:
    """What is submitted to one scheduler."""

    def __init__(
        self, connection: Connection, handle: str, events: Events, ledger: Ledger, halts: Halts
    ) -> None:
        self.handle = handle
        self._connection, self._events, self._ledger = connection, events, ledger
        self._halts = halts
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._unsent: deque[Entry] = deque()
        self._is_sending = False  # set on the background thread alone
        self._sender: asyncio.Task[None] | None = None
        self._closed: str | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._cancels: set[asyncio.Task[None]] = set()
        # Of an end in a hurry: how long calls may take, and why they are in vain.
        self._hurry: float | None = None
        self._cut_off: CallError | None = None
        self._cancel_slots = asyncio.Semaphore(_CANCELS)

    def is_here(self) -> bool:
        """Whether it is of this process, and not of the one from which it was forked."""
        return self._pid == os.getpid()

    def check_process(self) -> None:
        """Raises RallypointError in a process that was forked."""
        if not self.is_here():
            raise RallypointError(
                f"the scheduler is of process {self._pid}, from which this one was forked; "
                "open one in this process, with a client of its own"
            )

    def put(self, entries: Sequence[Entry]) -> bool:
        """Submits tasks soon, from any thread. Whether the next ones should wait for `room`."""
        with self._lock:
            if self._closed is not None:
                raise RallypointError(self._closed)
            self._mark_later(entries)
            # First, so that whatever is waited for is sent, also when Ctrl-C comes between them.
            self._unsent.extend(entries)
            # Behind the lock, so that whoever waits for all tasks sees these.
            self._ledger.add([future for future, _ in entries])
            is_sending, is_full = self._is_sending, len(self._unsent) >= MAX_UNSENT
        if not is_sending:
            _background.call(self.start)
        return is_full

    def _mark_later(self, entries: Sequence[Entry]) -> None:
        """Those that are behind a gap are not sent."""
        if (lowest := self._ledger.lowest_gap()) is not None:
            for future, message in entries:
                if message.HasField("order") and message.order > lowest.order:
                    future._gap = lowest

    def start(self) -> None:
        """Sends what waits to be sent, if it is not being sent. On the background thread."""
        if not self._is_sending:
            self._is_sending = True
            self._sender = asyncio.create_task(self._send())

    @property
    def unsent(self) -> int:
        """How many tasks wait to be sent."""
        return len(self._unsent)

    async def room(self) -> None:
        """Until fewer wait than are too many."""
        await self._below(MAX_UNSENT)

    async def flush(self) -> None:
        """Until the service has taken, or refused, all that was submitted."""
        await self._below(0)

    def close(self, why: str) -> None:
        """Takes no more."""
        with self._lock:
            self._closed = self._closed or why

    async def stop(self) -> None:
        """Sends no more of what was submitted, after `close` and `drop`."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        self._take()  # there is nothing, and whoever waits for that hears it

    def drop(self) -> None:
        """Cancels what was not sent; all is to be cancelled."""
        self._ledger.is_cancelled = True
        with self._lock:
            dropped = [future for future, _ in self._unsent]
            self._unsent.clear()
        for future in dropped:
            self._end_cancelled(future)

    def seen(self, future: TaskFuture) -> None:
        """Somebody has asked for its error. From any thread."""
        self._ledger.seen(future)

    def watch(self, future: TaskFuture) -> Future[None] | None:
        """Gets SchedulerHalted once a halt blocks its task; None: nothing halts here."""
        return self._halts.watch(future)

    def cancel(self, future: TaskFuture) -> None:
        """Asks to cancel a task, which may not have been sent yet. From any thread."""
        _background.call(self._cancel, future)

    async def cancel_all(self) -> None:
        """Asks to cancel all that have not ended, and waits until that is acknowledged.

        Raises CallError soon when the service cannot be reached.
        """
        self._hurry = HURRY
        await self.drop_all()
        for future in self._ledger.open():
            if not future._has_asked:
                future._is_cancelling = future._has_asked = True
                self._cancel(future)
        while self._cancels:
            await asyncio.wait(self._cancels)
        if self._cut_off is not None:
            raise self._cut_off

    async def drop_all(self) -> None:
        """Cancels what was not sent, and waits a little for what is being sent."""
        self.drop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HURRY / 2):
                await self.flush()

    async def _below(self, count: int) -> None:
        self.start()  # whoever has submitted may have been interrupted before that
        with self._lock:
            if len(self._unsent) < count:
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((count, waiter))
        await waiter

    async def _send(self) -> None:
        while batch := self._take():
            self._events.begin()
            try:
                await self._submit(batch)
            except Exception as error:  # a fault of this package must not leave anybody waiting
                log.exception("tasks cannot be submitted")
                self._refuse(batch, error)
            finally:
                self._events.end()

    def _take(self) -> list[Entry]:
        """The next call; empty: there is nothing to send, and this was the last of it."""
        batch: list[Entry] = []
        dropped: list[TaskFuture] = []
        behind: list[tuple[Entry, Gap]] = []
        with self._lock:
            left = _MAX_BYTES
            while self._unsent and len(batch) < _MAX_TASKS:
                future, message = self._unsent[0]
                left -= message.ByteSize() + _BYTES_AROUND
                if left < 0 and batch:
                    break
                self._unsent.popleft()
                if future._is_cancelling:
                    dropped.append(future)
                elif future._gap is not None:
                    if not self._ledger.is_live(future._gap):
                        self._renew_gap((future, message), future._gap)
                    behind.append(((future, message), future._gap))
                else:
                    batch.append((future, message))
            self._is_sending = bool(batch)
            count = len(self._unsent) if batch else -1
            woken = [waiter for limit, waiter in self._waiters if count < limit or count < 0]
            self._waiters = [entry for entry in self._waiters if entry[1] not in woken]
        for future in dropped:
            self._end_cancelled(future)
        for entry, gap in behind:
            self._refuse([entry], gap.error)
        for waiter in woken:
            if not waiter.done():
                waiter.set_result(None)
        return batch

    async def _submit(self, batch: list[Entry]) -> None:
        parts = [batch]
        while parts:
            part = parts.pop()
            try:
                parts.extend(reversed(await self._submit_once(part)))
            except CallError as error:
                others = [entry for part in reversed(parts) for entry in part]
                self._refuse_all(part, others, error)
                return

    async def _submit_once(self, batch: list[Entry]) -> list[list[Entry]]:
        """Submits a call; what of it is to be sent again, in calls of their own.

        Raises CallError when no task is at fault.
        """
        request = scheduler_pb2.ExecAsyncRequest(
            handle=self.handle,
            request_id=new_request_id(),
            tasks=[message for _, message in batch],
        )
        try:
            taken = await self._connection.call(
                _methods.EXEC_ASYNC, request, busy_timeout=self._busy_timeout
            )
        except CallError as error:
            return self._others(batch, error)
        futures = [future for future, _ in batch]
        self._events.expect(taken.first_seq, futures, taken.done_no)
        log.debug("submitted %d tasks from %d to %s", len(batch), taken.first_seq, self.handle)
        for future in futures:
            if future._is_cancelling and not future.done():
                self._cancel(future)
        return []

    def _busy_timeout(self) -> float:
        return 0.0 if self._ledger.is_cancelled else _BUSY_TIMEOUT

    def _others(self, batch: list[Entry], error: CallError) -> list[list[Entry]]:
        """The call was refused: so are the tasks at fault, and the others are sent again."""
        at_fault = {} if error.is_unknown else _at_fault(error, batch)
        for place, wrong in at_fault.items():
            self._refuse([batch[place]], wrong)
        others = [entry for place, entry in enumerate(batch) if place not in at_fault]
        halves = [others[: len(others) // 2], others[len(others) // 2 :]]
        is_divisible = error.reason in ("JOURNAL_REJECTED", "CALL_TOO_LARGE")
        if at_fault:
            # Of many faults the first are listed, or the first one is named: in halves, so that not
            # all others are sent each time.
            is_listed = _number(error.metadata.get("violations")) == len(at_fault) > 1
            return [part for part in ([others] if is_listed else halves) if part]
        if is_divisible and not error.is_unknown and len(batch) > 1:
            return halves
        if error.is_unknown or error.is_retryable or error.code in _OF_THE_CALLER:
            raise error
        self._refuse(batch, error)
        return []

    def _refuse_all(self, called: list[Entry], others: list[Entry], error: CallError) -> None:
        """Refuses what was called with this error, the others, and all behind them."""
        unsent = _not_sent(error)
        with self._lock:
            others.extend(self._unsent)
            self._unsent.clear()
            # Before anybody can ask: whoever has asked submits what runs.
            self._note_gap([*called, *others], unsent)
        self._refuse(called, error)
        for future, message in others:
            if future._is_cancelling:
                self._end_cancelled(future)
            else:
                self._refuse([(future, message)], unsent)

    def _note_gap(self, refused: list[Entry], unsent: CallError) -> None:
        # Those that are behind one are not sent because of that one, unless it was closed since:
        # then nobody is kept from submitting to a later order by that one.
        new = [entry for entry in refused if not self._ledger.is_live(entry[0]._gap)]
        orders = [message.order for _, message in new if message.HasField("order")]
        if not orders:
            return
        gap = self._ledger.add_gap(min(orders), unsent)
        for future, _ in new:
            future._gap = gap

    def _renew_gap(self, entry: Entry, closed: Gap) -> None:
        """A task is refused though its gap was closed, which nobody knows: others are behind it."""
        behind = [other for other in self._unsent if other[0]._gap is not None]
        self._note_gap([entry, *behind], closed.error)
        self._mark_later([other for other in self._unsent if other[0]._gap is None])

    def _refuse(self, batch: Sequence[Entry], error: Exception) -> None:
        for future, _ in batch:
            self._ledger.end(future, copy.copy(error))

    def _end_cancelled(self, future: TaskFuture) -> None:
        error = TaskCancelled(
            "CANCELLED", "cancelled before it was sent", statement=future.statement
        )
        self._ledger.end(future, error)

    def _cancel(self, future: TaskFuture) -> None:
        if future.seq and not future.done():
            cancel = asyncio.create_task(self._cancel_one(future))
            self._cancels.add(cancel)
            cancel.add_done_callback(self._cancels.discard)

    async def _cancel_one(self, future: TaskFuture) -> None:
        task = task_pb2.TaskId(handle=self.handle, seq=future.seq)
        try:
            async with self._cancel_slots:
                if self._cut_off is not None:
                    future._has_asked = False
                elif not future.done():
                    request = scheduler_pb2.CancelTaskRequest(id=task)
                    await self._connection.call(_methods.CANCEL_TASK, request, limit=self._hurry)
        except CallError as error:
            future._has_asked = False
            if self._hurry is not None and error.is_unknown:
                self._cut_off = error
            log.warning("task %d of %s cannot be cancelled: %s", future.seq, self.handle, error)


def _not_sent(error: CallError) -> CallError:
    """The error of tasks that were not sent because others before them were refused."""
    unsent = copy.copy(error)
    unsent.message = f"not sent, since tasks before it were refused: {error.message}"
    unsent.retry_after = (error.retry_after or 0.0) if error.is_retryable else None
    unsent.is_unknown, unsent.request_id = False, None
    return unsent


def _at_fault(error: CallError, batch: Sequence[Entry]) -> dict[int, CallError]:
    """Which tasks of a call are wrong, by their place in it, and the error of each."""
    wrong: dict[int, list[tuple[str, str]]] = {}
    for field, what in error.violations:
        if found := re.match(_FIELD, field):
            wrong.setdefault(int(found[1]), []).append(
                (re.sub(_FIELD, "task", field, count=1), what)
            )
    if error.metadata.get("index", "").isdigit():
        wrong.setdefault(int(error.metadata["index"]), [])
    if error.reason == "ORDER_CLOSED":
        # It names the first one.
        current = _number(error.metadata.get("current_order"))
        for place, (_, message) in enumerate(batch):
            if message.HasField("order") and message.order < current:
                wrong.setdefault(place, [])
    return {
        place: CallError(
            error.code,
            re.sub(_FIELD, "task", error.message),
            reason=error.reason,
            metadata=error.metadata,
            violations=violations,
        )
        for place, violations in wrong.items()
        if place < len(batch)
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
