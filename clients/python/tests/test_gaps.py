"""What is behind a call that was refused is not sent before somebody knows of that."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from answering import Answering, answering

from rallypoint import (
    CallError,
    Client,
    Scheduler,
    TaskFuture,
    TasksFailed,
    _methods,
    _rounds,
    _submission,
    noop,
)
from rallypoint.v1 import scheduler_pb2, task_pb2


class Refusing:
    """A service that takes tasks, or refuses whole calls, and a scheduler there."""

    def __init__(self, service: Answering, client: Client) -> None:
        self.service = service
        #: The orders of the tasks that were taken.
        self.taken: list[int] = []
        self._is_away = threading.Event()
        self._asked, self._answered = threading.Event(), threading.Event()
        self._answered.set()
        self._numbers = itertools.count(1)
        service.answers(_methods.GET_SCHEDULER, self._get)
        service.answers(_methods.EXEC_ASYNC, self._submit)
        service.streams(_methods.SYNCHRONIZATION, self._follow)
        service.answers(_methods.RESUME_SCHEDULER, refuse)
        self.scheduler = Scheduler(client).open()

    def refused(self, order: int) -> TaskFuture:
        """A task whose call was refused."""
        with self.away():
            return self.ended(order)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """A block in which calls are refused."""
        self._is_away.set()
        yield
        self._is_away.clear()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """A block during which a call is under way, of a task without an order."""
        self._asked.clear()
        self._answered.clear()
        try:
            self.scheduler.submit(noop())
            assert self._asked.wait(30)
            yield
        finally:
            self._answered.set()

    def ended(self, order: int) -> TaskFuture:
        """A task that has ended, about which nobody has asked."""
        future = self.scheduler.submit(noop(), order=order)
        assert not concurrent.futures.wait([future], 30).not_done
        return future

    def is_sent(self, order: int) -> bool:
        """Whether a task of this order is sent; nobody asks about it."""
        before = len(self.taken)
        self.ended(order)
        return len(self.taken) > before

    def _get(self, *_: Any) -> Any:
        opened = scheduler_pb2.Scheduler(handle="a")
        return scheduler_pb2.GetSchedulerResponse(scheduler=opened)

    def _submit(self, request: Any, context: Any) -> Any:
        self._asked.set()
        assert self._answered.wait(30)
        if self._is_away.is_set():
            refuse(request, context)
        self.taken.extend(task.order for task in request.tasks)
        return scheduler_pb2.ExecAsyncResponse(first_seq=next(self._numbers))

    def _follow(self, request: Any, context: Any) -> Iterator[Any]:
        for seq in itertools.count(request.after + 1):
            while len(self.taken) < seq:
                if not context.is_active():
                    return
                time.sleep(0.01)
            event = task_pb2.AsyncDone(done_no=seq, seq=seq, outcome=task_pb2.OUTCOME_SUCCEEDED)
            yield scheduler_pb2.SynchronizationResponse(done=[event])


def refuse(_: Any, context: Any) -> Any:
    context.abort(grpc.StatusCode.PERMISSION_DENIED, "not now")


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    with answering() as service, Client(service.address) as client:
        yield Refusing(service, client)


def test_each_call_is_asked_about_by_itself(refusing: Refusing) -> None:
    refused = [refusing.refused(order) for order in (100, 50)]
    for future in reversed(refused):
        assert not refusing.is_sent(200)
        assert future.exception(0) is not None
    assert refusing.is_sent(200)


def test_of_many_calls_that_nobody_asks_about_the_first_are_kept(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rounds, "_MAX_GAPS", 2)
    refused = [refusing.refused(order) for order in (100, 50, 50, 40)]
    ledger = refusing.scheduler._core.ledger
    assert len(ledger._round._gaps) == 2
    with pytest.raises(CallError, match="not now"):
        refusing.scheduler.resume(ignore_failures=True)
    refused.append(refusing.refused(40))
    assert len(ledger._round._gaps) == 2
    for future in (refused[1], refused[0], refused[3], refused[4]):
        assert future.exception(0) is not None
        assert future.exception(0) is not None  # once more is no other one
        assert not refusing.is_sent(60)
    assert refused[2].exception(0) is not None
    assert refusing.is_sent(60)


def test_what_was_behind_a_refused_call_is_no_other_one(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_submission, "_MAX_TASKS", 1)
    first, behind = refusing.refused(100), refusing.scheduler._core.entry(noop(), 200)
    unordered = refusing.scheduler._core.entry(noop(), None)
    with refusing.away():
        refusing.scheduler._core.submission.put([unordered, behind])
        assert not concurrent.futures.wait([unordered[0], behind[0]], 30).not_done
    assert not refusing.is_sent(300)
    assert first.exception(0) is not None
    assert refusing.is_sent(300)


@pytest.mark.parametrize("is_told", [False, True])
def test_what_is_behind_a_call_that_was_asked_about_keeps_back_what_follows(
    refusing: Refusing, is_told: bool
) -> None:
    scheduler = refusing.scheduler
    refused = refusing.refused(100)
    with refusing.under_way():
        behind = [scheduler.submit(noop(), order=order) for order in (300, 200)]
        if is_told:
            with pytest.raises(TasksFailed):
                scheduler._core.ledger.raise_unseen()
        else:
            assert refused.exception(0) is not None
        later = scheduler.submit(noop(), order=250)
    assert not concurrent.futures.wait([*behind, later], 30).not_done
    assert refusing.taken == [0]
    assert not refusing.is_sent(400)
    assert behind[0].exception(0) is not None
    assert refusing.is_sent(400)


def test_a_refused_call_keeps_back_from_what_was_behind_another_one(refusing: Refusing) -> None:
    scheduler = refusing.scheduler
    refused = refusing.refused(100)
    with refusing.away():
        with refusing.under_way():
            behind = scheduler.submit(noop(), order=200)
            assert refused.exception(0) is not None
            later = scheduler.submit(noop(), order=250)
        assert not concurrent.futures.wait([behind, later], 30).not_done
    assert not refusing.is_sent(220)
    assert later.exception(0) is not None
    assert refusing.is_sent(220)


def test_a_resume_that_ignores_failures_counts_when_it_is_taken(refusing: Refusing) -> None:
    refusing.refused(300)
    with pytest.raises(CallError, match="not now"):
        refusing.scheduler.resume(ignore_failures=True)
    assert not refusing.is_sent(400)
    resumed = scheduler_pb2.ResumeSchedulerResponse()
    refusing.service.answers(_methods.RESUME_SCHEDULER, lambda *_: resumed)
    refusing.scheduler.resume(ignore_failures=True)
    assert refusing.is_sent(400)


def test_what_is_raised_while_failures_are_being_ignored_tells_nothing_of_these(
    refusing: Refusing,
) -> None:
    asked, is_raised = threading.Event(), threading.Event()

    def resume(request: Any, context: Any) -> Any:
        asked.set()
        assert is_raised.wait(30)
        refuse(request, context)

    refusing.service.answers(_methods.RESUME_SCHEDULER, resume)
    first, seen = refusing.refused(100), refusing.refused(100)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        resuming = pool.submit(refusing.scheduler.resume, ignore_failures=True)
        assert asked.wait(30)
        other = refusing.refused(100)
        with pytest.raises(TasksFailed) as raised:
            refusing.scheduler.synchronize()
        assert raised.value.failures == (other,)
        assert seen.exception(0) is not None
        last = refusing.refused(50)
        is_raised.set()
        with pytest.raises(CallError, match="not now"):
            resuming.result(30)
    assert last.exception(0) is not None
    assert not refusing.is_sent(200)
    with pytest.raises(TasksFailed) as raised:
        refusing.scheduler.synchronize()
    assert raised.value.failures[0] is first
    assert not {seen, other, last} & {*raised.value.failures}
    assert refusing.is_sent(200)
